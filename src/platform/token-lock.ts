// One owner on this machine for a secret that only one process may use. A socket, because the system takes it back however
// the owner dies.
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";

/** Null: another process has it. */
export async function lockToken(token: string): Promise<(() => void) | null> {
  const name = `hermes-${userInfo().uid}-${createHash("sha256").update(token).digest("hex").slice(0, 32)}`;
  // Linux has names without a file; elsewhere a file stays behind, and is taken over when nobody answers on it.
  const path = process.platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.sock`);
  const first = await listen(path);
  if (first || process.platform === "linux" || (await answers(path))) return first;
  rmSync(path, { force: true });
  return listen(path);
}

function listen(path: string): Promise<(() => void) | null> {
  const server = createServer((socket) => socket.destroy());
  server.unref();
  return new Promise((resolve) => {
    server.once("error", () => resolve(null));
    server.listen(path, () => resolve(() => void server.close()));
  });
}

const answers = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
