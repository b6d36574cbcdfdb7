// Commands about the turn that runs, and what waits behind it.
import { MODES } from "../../core/session.ts";
import { MODE, modeNamed } from "../modes.ts";
import type { Command, CommandContext } from "./command.ts";
import { goalIn } from "./goals.ts";
import { oneLine } from "./shown.ts";

export const turnCommands: readonly Command[] = [
  {
    name: "status",
    on: "everywhere",
    description: "show what runs and what waits",
    run: async (context) => ({ text: await describe(context) }),
  },
  {
    name: "stop",
    on: "everywhere",
    argument: "[all]",
    description: "stop the turn; all: also child agents and background processes",
    complete: ["all"],
    once: "look",
    async run({ runtime, session, stop, jobs }, rest) {
      const { inbox } = await runtime.status(session);
      const next = inbox.length ? ` ${inbox.length} message(s) are next.` : "";
      const stopped = await stop(rest.toLowerCase() === "all" ? "tree" : "turn");
      const goal = await goalIn(jobs(), session).catch(() => null); // the turn is stopped all the same
      if (goal?.enabled) await jobs().pause(goal.id); // between two steps no turn runs
      const texts = {
        nothing: "Nothing is running.",
        ending: "It has just finished; its answer is on the way.",
        stopped: `⏹ Stopped.${next}`,
        shown: "",
      };
      return { text: [texts[stopped], goal && "The goal is paused: /goal resume goes on."].filter(Boolean).join(" ") };
    },
  },
  ...MODES.flatMap((mode): Command[] => {
    const { command } = MODE[mode];
    if (!command) return [];
    const { description, asks } = command;
    return [
      {
        name: mode,
        on: "chat",
        argument: "WORDS",
        description,
        run: (_, rest) => (rest ? { send: { text: rest, mode } } : { text: `${asks} /${mode} your message` }),
      },
    ];
  }),
  {
    name: "busy",
    on: "everywhere",
    argument: MODES.join(" | "),
    description: `what a message does while I work: ${MODES.join(", ")}`,
    complete: MODES,
    async run({ mode: current, setMode }, rest) {
      const mode = modeNamed(rest.toLowerCase());
      if (!mode) return { text: `Messages ${await current()} while I work. Choose: /busy ${MODES.join(" | ")}` };
      await setMode(mode);
      return { text: `From now on messages ${mode} while I work.` };
    },
  },
  {
    name: "withdraw",
    on: "screen",
    argument: "N",
    description: "take back the N-th waiting message",
    async run({ runtime, session }, rest) {
      const { inbox } = await runtime.status(session);
      const input = inbox[Number(rest) - 1];
      if (!input || !(await runtime.withdraw(session, input.id)))
        return { refused: "There is no such waiting message; /status lists them." };
      return { draft: input.text };
    },
  },
  {
    name: "transcribe",
    on: "chat",
    description: "transcribe voice messages that failed",
    run: async ({ transcribe }) => ({ text: await transcribe() }),
  },
  {
    name: "background",
    on: "chat",
    argument: "WORDS",
    description: "work on something beside this conversation",
    async run({ background }, rest) {
      if (!rest) return { text: "What shall I do? /background your task" };
      await background(rest);
      return { text: "🔧 Working on it beside this conversation. I'll tell you when it is done." };
    },
  },
];

async function describe({ runtime, session, name, tasks, yolo }: CommandContext): Promise<string> {
  const paused = await runtime.paused();
  const { turn, held, inbox, asking, parked, background, unsaved } = await runtime.status(session);
  const { title = "" } = (name && (await runtime.summary(session))) || {};
  const working = turn && (held ? "Waiting to begin." : `Working (${turn.phase}, model call ${turn.thoughts + 1}).`);
  const state = working ?? (parked ? "Parked." : "Idle.");
  const named = name ? ` Conversation ${name}${title && ` “${title}”`}.` : "";
  return [
    `${state}${named} ${inbox.length} waiting.`,
    ...inbox.map(({ mode, text }, i) => `${i + 1}. [${mode}] ${oneLine(text, 80)}`),
    ...(paused ? [`- ⏸ Paused by ${paused.by}: nothing begins. /pause off ends that.`] : []),
    ...((await yolo()) ? ["- ⚠️ Nothing is asked in this conversation: /yolo off ends that."] : []),
    ...asking.map(({ text }) => `- Asks: ${oneLine(text, 200)}`),
    ...((await tasks?.()) ?? []).map((task) => `- Beside this: ${task}`),
    ...background.map(({ id, command }) => `- In the background: ${id} \`${oneLine(command, 80)}\``),
    ...(unsaved.length ? [`- Memory still to be written: ${unsaved.join(", ")}`] : []),
  ].join("\n");
}
