// hermes chat, run: conversations from a terminal.
import { type Command, InvalidArgumentError, Option } from "commander";
import type { ChatOptions, OpenRuntime } from "../surfaces/terminal/open.ts";
import type { RunCommandOptions } from "../surfaces/terminal/run.ts";
import { offerImport } from "./import.ts";
import { complain, EXIT, env } from "./shared.ts";

type ChatFlags = Omit<ChatOptions, "settings" | "open" | "env" | "message"> &
  Pick<RunCommandOptions, "query" | "quiet" | "yolo"> & { attach: boolean; queryFile?: string };
type RunFlags = Omit<RunCommandOptions, "settings" | "open" | "env" | "prompt" | "query" | "find"> & {
  resume?: string;
  toolsets?: string;
};

export function addChat(program: Command): void {
  program
    .command("chat")
    .description("talk with the agent in this terminal (the default command)")
    .argument("[message]", "the first message, in quotes", (text: string) => firstMessage(program, text))
    .addOption(
      new Option(
        "-c, --continue [name]",
        "continue the newest conversation, or the one with this name or title",
      ).conflicts(["resume", "session"]),
    )
    .addOption(
      new Option("--resume [id]", "continue the conversation with this id, or choose one from a list").conflicts(
        "session",
      ),
    )
    .option("--session <name>", "continue the conversation with this name, or start it")
    .option("-m, --model <name>", "the model to use")
    .option("-q, --query <text>", "run one turn with this message, as `hermes run` does")
    .option("--query-file <file>", "the same, with the message from a file")
    .option("-Q, --quiet", "with -q: print only the answer, and the id of the conversation on stderr", false)
    .option("--yolo", "with -q: never ask for approval; commands that are never allowed are still refused", false)
    .option("--plain", "print plain lines, for screen readers and simple terminals", false)
    .option("--attach", "talk through the running gateway, and fail if none runs", false)
    .action(async (message: string | undefined, { attach, query, queryFile, quiet, yolo, ...options }: ChatFlags) => {
      if (query !== undefined || queryFile !== undefined) {
        const { readFileSync } = await import("node:fs");
        const asked = query ?? readFileSync(queryFile ?? "", "utf8");
        process.exitCode = await oneTurn(asked, { ...options, quiet, yolo });
        return;
      }
      await offerImport();
      const { modelFlag, openChat } = await import("../surfaces/terminal/open.ts");
      const { settingsFor } = await import("../compose/settings.ts");
      const open: OpenRuntime = async (given) => {
        const { openOrAttach } = await import("../compose/attach.ts");
        return openOrAttach({ ...given, attach, serves: true });
      };
      process.exitCode = await openChat({
        ...options,
        ...(message !== undefined && { message }),
        settings: settingsFor(env, [modelFlag(options.model)]),
        open,
        env,
      });
    });

  program
    .command("run")
    .description("run one turn; print the answer on stdout and everything else on stderr")
    .argument("[prompt...]", "the message; if it is missing or -, read it from stdin")
    .option("--json", "print one JSON event per line", false)
    .option("-q, --quiet", "print only the answer", false)
    // Takes no name, unlike chat's -c: the name would be the first word of the prompt.
    .option("-c, --continue", "continue the newest conversation", false)
    .option("--resume <name>", "continue the conversation with this name or title")
    .option("--session <name>", "continue the conversation with this name, or start it")
    .option("-m, --model <name>", "the model to use")
    .option("--provider <name>", "the provider to use, as in model.provider")
    .addOption(new Option("-t, --toolsets <names>").hideHelp())
    .option("--usage-file <file>", "write the tokens and the cost of the turn to this file, as JSON")
    .option("--image <file>", "a picture to send with the message; give it again for more", append, [])
    .option("--yolo", "never ask for approval; commands that are never allowed are still refused", false)
    .action(async (prompt: string[], { toolsets, resume, ...options }: RunFlags) => {
      if (toolsets !== undefined) {
        // To ignore it would give the turn more than was wanted.
        complain("-t: the tools of one turn cannot be chosen. Without -t, every tool is offered (docs/hermes.md).");
        process.exitCode = EXIT.usage;
        return;
      }
      const find = resume === undefined ? {} : { find: resume };
      process.exitCode = await run({ ...options, ...find, prompt: prompt.join(" ") });
    });
}

async function run(given: Omit<RunCommandOptions, "settings" | "open" | "env">): Promise<number> {
  const { openRun } = await import("../surfaces/terminal/run.ts");
  const { settingsFor } = await import("../compose/settings.ts");
  const { openOrAttach } = await import("../compose/attach.ts");
  return openRun({ ...given, settings: settingsFor(env, []), open: openOrAttach, env });
}

/** One turn in the conversation that the options of `chat` name. Standard input is not read. */
function oneTurn(query: string, options: Omit<ChatFlags, "attach" | "query" | "queryFile">): Promise<number> {
  const { session, model, quiet, yolo } = options;
  const named = [options.continue, options.resume].find((one) => typeof one === "string");
  return run({
    prompt: "",
    query,
    ...(typeof named === "string" && { find: named }),
    ...(session !== undefined && { session }),
    ...(model !== undefined && { model }),
    continue: options.continue === true || options.resume === true,
    quiet,
    yolo,
    image: [],
    json: false,
  });
}

/** One value for each time that the option is given: it never takes the prompt for a second one. */
const append = (value: string, before: string[]): string[] => [...before, value];

/** `hermes --model x run` is no message. */
function firstMessage(program: Command, text: string): string {
  if (program.commands.some((command) => command.name() === text))
    throw new InvalidArgumentError(`"${text}" is a command: write it before the options.`);
  return text;
}
