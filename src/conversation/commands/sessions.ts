// Commands that lead from one conversation to another. Nothing is deleted: each goes on in a session of its own.
import { shortName } from "../../core/session-key.ts";
import { fenced } from "../export.ts";
import { rewind } from "../rewind.ts";
import type { Command, ListedSession, PickerItem } from "./command.ts";
import { goBack, rollbackCommand } from "./rollback.ts";

export const NO_SESSIONS = "There are no conversations yet.";
const LONGEST_TITLE = 200;

export const sessionCommands: readonly Command[] = [
  {
    name: "new",
    on: "everywhere",
    description: "start a new conversation",
    moves: true,
    once: "look",
    async run({ newSession, left }) {
      await left?.();
      return {
        open: { session: await newSession(), heading: "✨ A new conversation. /resume brings the old one back." },
      };
    },
  },
  {
    name: "sessions",
    on: "chat",
    description: "conversations of this chat; /resume 2 goes back to the second",
    async run({ sessions, session }) {
      const rows = await sessions();
      const line = ({ name, title, ...row }: ListedSession) =>
        `${row.session === session ? "▸" : " "} ${name}. ${title || "(no title)"}`;
      return { text: rows.map(line).join("\n") || NO_SESSIONS };
    },
  },
  {
    name: "resume",
    on: "everywhere",
    argument: "[name]",
    description: "open another conversation",
    moves: true,
    idle: "chat",
    async run({ runtime, session, sessions, findSession, choose, left, now }, rest) {
      const rows = choose && sessions && !rest ? await sessions() : null;
      if (rows?.length === 0) return { text: NO_SESSIONS };
      const chosen = rows && choose ? await pickSession(rows, choose, now()) : await findSession(rest);
      if (chosen === null) return rows ? {} : { refused: "Which one? /sessions lists them." };
      if (chosen !== session) await left?.();
      const { title = "" } = (await runtime.summary(chosen)) ?? {};
      return { open: { session: chosen, heading: `▸ ${title || "(no title)"}` } };
    },
  },
  {
    name: "title",
    on: "everywhere",
    argument: "NAME",
    description: "rename this conversation",
    async run({ runtime, session }, rest) {
      if (!rest) return { text: (await runtime.summary(session))?.title || "It has no title yet." };
      const title = rest.slice(0, LONGEST_TITLE);
      if (!(await runtime.retitle(session, title))) return { refused: "Say something first." };
      return { title, text: `📝 ${title}` };
    },
  },
  {
    name: "retry",
    on: "everywhere",
    description: "send your last message again, without what came of it",
    moves: true,
    idle: true,
    once: "look",
    async run({ runtime, session, newSession }) {
      const back = await rewind(runtime, session, 1, newSession);
      if (!back) return { text: "There is nothing to retry." };
      const { text, images = [] } = back.undone;
      const heading = "Once more, from before your last message.";
      return { open: { session: back.session, heading }, send: { text, mode: "queue", images } };
    },
  },
  {
    name: "undo",
    on: "everywhere",
    argument: "[files]",
    description: "go back to before your last message and restore the files; files: undo the last restore",
    moves: true,
    complete: ["files"],
    idle: true,
    once: "look",
    async run(context, rest) {
      if (rest.toLowerCase() !== "files") return goBack(context, 1);
      const { runtime, session } = context;
      return { text: (await runtime.restoreFiles({ session })).summary };
    },
  },
  {
    name: "rollback",
    on: "everywhere",
    argument: "[n [now]]",
    description: "list turns; n: what going back to before one changes; now: go back",
    moves: true,
    idle: true,
    once: "look",
    run: rollbackCommand,
  },
  {
    name: "diff",
    on: "everywhere",
    argument: "[all]",
    description: "show what the last turn changed in files; all: what is different since the first one",
    complete: ["all"],
    async run({ runtime, session, surface }, rest) {
      const { summary, patch } = await runtime.fileChanges({ session, all: rest.toLowerCase() === "all" });
      // A chat gets the names only: what is in files has not passed the redaction of what tools say.
      return { text: patch ? fenced("diff", surface === "chat" ? summary : `${summary}\n\n${patch}`) : summary };
    },
  },
  {
    name: "branch",
    on: "screen",
    argument: "[title]",
    description: "continue in a copy; this conversation stays as it is",
    idle: true,
    async run({ runtime, session, newSession }, rest) {
      const { title = "" } = (await runtime.summary(session)) ?? {};
      const next = await newSession();
      const forked = await runtime.fork({ from: session, session: next, title: rest || title });
      if (forked !== "forked") return { text: "There is nothing to branch from yet." };
      return { open: { session: next, heading: `A branch of ${shortName(session)}, which stays as it is.` } };
    },
  },
];

/** Null: the person chose none. */
export function pickSession(
  rows: readonly ListedSession[],
  choose: (title: string, choices: PickerItem[]) => Promise<string | null>,
  now: number,
): Promise<string | null> {
  const choices = rows.map(({ session, name, title, updatedAt, active }) => ({
    value: session,
    label: title || "(no title)",
    description: `${active ? "● " : ""}${ago(now - updatedAt)} · ${name}`,
  }));
  return choose("Which conversation?", choices);
}

const UNITS = [
  { ms: 86_400_000, name: "d" },
  { ms: 3_600_000, name: "h" },
  { ms: 60_000, name: "min" },
];
function ago(ms: number): string {
  const unit = UNITS.find((one) => ms >= one.ms);
  return unit ? `${Math.floor(ms / unit.ms)} ${unit.name} ago` : "just now";
}
