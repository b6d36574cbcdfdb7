// Loaded into the program before anything else (`NODE_OPTIONS=--import`): a signal makes an error that nobody catches.
process.on("SIGWINCH", () => void Promise.reject(new Error("planted rejection")));
process.on("SIGURG", () => {
  throw new Error("planted exception");
});
