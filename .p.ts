import { makePlace, program } from "./test/fakes/hermes.ts";
import { onTerminal } from "./test/fakes/pty.ts";
for (const command of [[program, "chat"], ["sh", "-c", 'mkdir demo && cd demo && exec "$0" chat', program]]) {
  const place = makePlace();
  const screen = onTerminal(place, [], { command, cols: 88, rows: 12 });
  await screen.shows("Ctrl+D leaves").then(() => console.log("started"), (e) => console.log(e.message.trim().slice(0, 300)));
  place.clear(); await screen.exit;
}
