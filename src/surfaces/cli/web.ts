// hermes web: opens the console of the server that runs, signed in by a link that works once.
import { spawn } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";

type ServedConsole = { url: string; newCode(): Promise<string> };
type Options = {
  server: ServedConsole | null;
  /** Opens files in a browser; null: the link is only printed. */
  program: string | null;
  /** A file in HERMES_HOME that leads to the link: every user of this machine can read the arguments of a program. */
  file: string;
  print(text: string): Promise<void>;
  complain(line: string): void;
};

/** What listens everywhere is reached on this machine by its loopback address. */
const reachable = (url: string): string => url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");

/** The exit code. */
export async function openConsole({ server, program, file, print, complain }: Options): Promise<number> {
  if (!server) {
    complain("No server runs in this HERMES_HOME. Start one with: hermes gateway");
    return 1;
  }
  // Behind #: a browser sends that part to nobody, so no log has it.
  const link = `${reachable(server.url)}/#sign-in=${await server.newCode()}`;
  if (program) {
    rmSync(file, { force: true });
    writeFileSync(file, pageTo(link), { flag: "wx", mode: 0o600 });
    spawn(program, [file], { detached: true, stdio: "ignore" })
      .on("error", () => {})
      .unref();
  }
  await print(`${link}\n`);
  complain("The link signs one browser in, once, within two minutes.");
  return 0;
}

/** The address and the code have no character that HTML would read otherwise. */
const pageTo = (link: string) => `<!doctype html><html lang="en"><meta charset="utf-8"><title>hermes</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url=${link}">
<p><a href="${link}">Open the console</a></p></html>
`;
