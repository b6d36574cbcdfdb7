// hermes send: a message to a chat, without the agent and whether or not a gateway runs.
import type { Command } from "commander";
import { complain, EXIT, env, print } from "./shared.ts";

type SendFlags = { to?: string; file?: string; list: boolean; json: boolean; quiet: boolean };

export function addSend(program: Command): void {
  program
    .command("send")
    .description("send a message to a chat, such as telegram:1001; without a text, from stdin")
    .argument("[text...]", "the message")
    .option("-t, --to <chat>", "platform, platform:chat or platform:chat:thread; a platform alone is its home chat")
    .option("-f, --file <file>", "read the message from a file")
    .option("--list", "list the platforms that can be sent to", false)
    .option("--json", "print JSON", false)
    .option("-q, --quiet", "print nothing if it was sent", false)
    .action(async (words: string[], flags: SendFlags) => {
      process.exitCode = await send(words.join(" "), flags);
    });
}

async function send(words: string, { to, file, list, json, quiet }: SendFlags): Promise<number> {
  const { loadConfig } = await import("../config/config.ts");
  const { sendable, sendTo } = await import("../compose/channels.ts");
  const { messageOf } = await import("../core/errors.ts");
  const { config } = loadConfig({ env });
  if (list) {
    const all = sendable(config);
    const lines = all.map(({ platform, home }) => `${platform}${home ? `  home chat ${home}` : ""}\n`).join("");
    await print(json ? `${JSON.stringify(all)}\n` : lines || "No chat platform is configured.\n");
    return EXIT.ok;
  }
  const text = words || (await textFrom(file));
  if (!to || !text.trim()) {
    complain(to ? "There is no text to send." : "--to is missing: name a chat, such as telegram:1001.");
    return EXIT.usage;
  }
  try {
    const ids = await sendTo(config, to, text);
    if (json) await print(`${JSON.stringify({ ok: true, to, message_ids: ids })}\n`);
    else if (!quiet) await print(`Sent to ${to}\n`);
    return EXIT.ok;
  } catch (error) {
    complain(`Not sent to ${to}: ${messageOf(error)}`);
    return EXIT.failed;
  }
}

async function textFrom(file: string | undefined): Promise<string> {
  const { readFileSync } = await import("node:fs");
  const { text } = await import("node:stream/consumers");
  if (file !== undefined && file !== "-") return readFileSync(file, "utf8");
  return process.stdin.isTTY ? "" : text(process.stdin);
}
