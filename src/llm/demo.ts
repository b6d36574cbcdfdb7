// The offline demo model: no key, no network, no intelligence. It streams, calls tools, asks for approval and takes
// its time, so that everything else can be tried: interrupts, stops, approvals, restarts.
import type { Clock, Model, ModelRequest, ProposedCall } from "../core/ports.ts";
import type { Message } from "../core/transcript.ts";

const LABEL = "(offline demo)";
const WORD_MS = 35;

type DemoReply = { text: string; calls?: ProposedCall[] };

export function createDemoModel(clock: Clock): Model {
  return {
    name: "demo:offline-demo",
    context: 8_000,
    local: true,
    async call(request, hear, signal) {
      const { text, calls = [] } = reply(request);
      const words = text.split(/(?<=\s)/);
      for (const word of words) {
        await clock.sleep(WORD_MS, signal);
        if (signal.aborted) return { end: "aborted" };
        hear.text(word);
      }
      const input = request.messages.reduce((sum, message) => sum + message.text.length, 0);
      return { end: "answer", calls, usage: { input: Math.ceil(input / 4), output: words.length } };
    },
  };
}

function reply({ messages, tools, system, final }: ModelRequest): DemoReply {
  const last = messages.at(-1);
  if (system.startsWith("You write the summary"))
    return { text: `${LABEL} Earlier, a few demo messages were exchanged.` };
  if (last?.role === "tool") return { text: `${LABEL} ${afterTools(messages)}` };
  const said = last?.role === "user" ? last.text.slice(last.text.lastIndexOf("\n\n") + 1).trim() : "";
  const terminal = !final && tools.some((tool) => tool.name === "terminal");
  const run = (command: string, why: string): DemoReply =>
    terminal
      ? { text: `${LABEL} ${why}\n`, calls: [{ tool: "terminal", args: { command } }] }
      : { text: `${LABEL} I would run \`${command}\`, but there is no terminal tool here.` };

  const command = /^(?:run|!)\s+(.+)$/is.exec(said)?.[1];
  if (command) return run(command, "I run that for you.");
  if (/\b(long|slow|wait|sleep)\b/i.test(said))
    return run(
      "for i in $(seq 1 60); do echo tick $i; sleep 1; done",
      "This takes a minute. Interrupt or stop me while it runs.",
    );
  if (/\b(ask|approv\w*|danger\w*|delete)\b/i.test(said))
    return run(
      "rm -r ./hermes-demo-scratch",
      "I would like to delete a folder that is not there; you have to allow it first.",
    );
  if (/\b(list|look|files|tool)\b/i.test(said)) return run("ls -la", "I look around.");
  if (/\b(story|stream|talk)\b/i.test(said)) return { text: `${LABEL} ${STORY.replaceAll("\n", " ")}` };
  return { text: `${LABEL} You said: ${said.slice(0, 400)}\n\n${MENU}` };
}

function afterTools(messages: readonly Message[]): string {
  const first = messages.findLastIndex((message) => message.role !== "tool") + 1;
  const results = messages.slice(first).map((message) => {
    if (message.role !== "tool") return "";
    const lines = message.text.trim().split("\n");
    const head = lines.slice(0, 6).join("\n");
    return `\`${message.tool}\` came back (${message.outcome}):\n${head}${lines.length > 6 ? "\n…" : ""}`;
  });
  return results.join("\n\n");
}

const MENU = `I am a script, not a model: set a key with \`hermes setup\` for a real one. Meanwhile you can try:
- "tell me a story" streams for a while: type over it, or stop it
- "something long" starts a command of a minute: interrupt it, kill me, start me again
- "something dangerous" asks for your approval
- "run ls -la" runs a command`;

const STORY = `Once there was a messenger who carried words between two cities. Every evening the river rose, and every
evening somebody shouted a new message across it before the last one had arrived. The other messengers dropped what they held
and ran back, or pretended not to hear, or carried both and mixed them up. This one did something duller: it wrote each
message down before it nodded, and only then did it turn around. When it was called back in the middle of the bridge it
stopped at once, looked at what was half done, and wrote that down too. When it fell into the river, the next messenger found
the book on the bank, opened it at the last line, and went on. Nobody ever praised it for speed. But in both cities people
learned that what they had said, they had said, and that it would be answered once, and in order.`;
