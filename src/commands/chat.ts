// hermes chat, run, sessions: talking from a terminal.
import { type Command, Option } from "commander";
import { homeOf } from "../platform/home.ts";
import type { Open } from "../surfaces/terminal/open.ts";
import { env, print, wholeNumber } from "./shared.ts";

type ChatFlags = {
  continue?: true | string;
  resume?: true | string;
  session?: string;
  model?: string;
  plain: boolean;
  attach: boolean;
};
type RunFlags = {
  image: string[];
  json: boolean;
  quiet: boolean;
  continue: boolean;
  session?: string;
  model?: string;
  yolo: boolean;
};

export function addChat(program: Command): void {
  program
    .command("chat")
    .description("talk with the agent in this terminal (what `hermes` alone does there)")
    .addOption(
      new Option("-c, --continue [name]", "go on with the newest conversation, or with that one").conflicts([
        "resume",
        "session",
      ]),
    )
    .addOption(new Option("--resume [id]", "go on with that conversation, or choose one").conflicts("session"))
    .option("--session <name>", "go on with this conversation, or start it")
    .option("--model <name>", "the model to use")
    .option("--plain", "plain lines, for screen readers and dumb terminals", false)
    .option("--attach", "over the gateway that runs; done by itself when one owns this home", false)
    .action(async ({ attach, ...options }: ChatFlags) => {
      const { modelFlag, openChat } = await import("../surfaces/terminal/open.ts");
      const { settingsFor } = await import("../compose/settings.ts");
      const open: Open = async (given) => {
        const { openOrAttach } = await import("../compose/attach.ts");
        return openOrAttach({ ...given, attach, serves: true });
      };
      process.exitCode = await openChat({
        ...options,
        settings: settingsFor(env, [modelFlag(options.model)]),
        open,
        env,
      });
    });

  program
    .command("run")
    .description("one turn: the answer on stdout, everything else on stderr")
    .argument("[prompt...]", "what to do; without it, or as -, it is read from stdin")
    .option("--json", "one event a line, for programs", false)
    .option("-q, --quiet", "nothing but the answer", false)
    // Without a name, unlike chat's: it would be the first word of what to do.
    .option("-c, --continue", "go on with the newest conversation", false)
    .option("--session <name>", "go on with this conversation, or start it")
    .option("--model <name>", "the model to use")
    .option("--image <file...>", "pictures to look at", [])
    .option("--yolo", "ask for nothing; what is never allowed is still refused", false)
    .action(async (prompt: string[], options: RunFlags) => {
      const { openRun } = await import("../surfaces/terminal/run.ts");
      const { settingsFor } = await import("../compose/settings.ts");
      const { openOrAttach } = await import("../compose/attach.ts");
      const settings = settingsFor(env, []);
      process.exitCode = await openRun({ ...options, settings, prompt: prompt.join(" "), open: openOrAttach, env });
    });

  program
    .command("sessions")
    .description("list conversations, newest first")
    .option("-n, --limit <count>", "how many", wholeNumber, 20)
    .option("--json", "for programs", false)
    .action(async ({ limit, json }: { limit: number; json: boolean }) => {
      const { listSessions } = await import("../surfaces/terminal/sessions.ts");
      const { openSqlite } = await import("../store/sqlite/sqlite.ts");
      const { existsSync } = await import("node:fs");
      const file = homeOf(env).database;
      if (!existsSync(file)) return print(json ? "" : "There are no conversations yet.\n");
      const store = await openSqlite({ file, readOnly: true });
      await print(await listSessions({ ...store, limit, json }));
      await store.close();
    });
}
