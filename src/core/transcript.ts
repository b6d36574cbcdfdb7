// The journal of a session, as a model sees it: a fold over its entries, so a new entry costs the same
// however many there were before it.
import type { About, CallOutcome, Entry, Grant, Image, Input, Refused, Replay, Scope } from "./session.ts";

type ToolUse = { id: string; tool: string; args: unknown };
/** A call that has no result yet, with what it is about and the scope of its approval. */
type PendingCall = ToolUse & { about?: About; approved?: Scope };
export type Message =
  /** `unseen`: makers of models that refused its pictures. */
  | { role: "user"; text: string; images?: Image[]; unseen?: string[] }
  /** `cut`: it was stopped, or its connection failed. `reasoning` is there for whoever it is replayed to. */
  | { role: "assistant"; text: string; calls: ToolUse[]; cut?: true; reasoning?: string; replay?: Replay }
  | {
      role: "tool";
      call: string;
      tool: string;
      outcome: CallOutcome;
      text: string;
      images?: Image[];
      unseen?: string[];
    };

export type Transcript = {
  /** The last entry that is in. */
  seq: number;
  messages: Message[];
  /** The entry that each message came from; rising. */
  seqs: number[];
  /** About how many tokens they are: kept, because counting them again for each model call took a fifth of the time. */
  tokens: number;
  /** The entry up to which a summary stands for the conversation. */
  summarised: number;
  /** Accepted, not yet in a turn. */
  waiting: Map<string, Input>;
  calls: Map<string, PendingCall>;
  /** What a person has allowed for the rest of the session, oldest first. */
  grants: Grant[];
  /** The input that began the last turn, and the entry that says so. `unread`: it follows results that a turn before it got
   *  and could not read. */
  begun: Pick<Input, "text" | "by" | "attended" | "unattended" | "instructions" | "options" | "tools" | "bare"> & {
    seq: number;
    unread: boolean;
  };
  /** How the running turn ends if nothing more of it is written. Null: none runs, or nobody waits for its answer. */
  ending: keyof typeof NO_ANSWER | null;
  /** The last turn got results and died before it read them. */
  unread: boolean;
};

const UNREAD_RESULTS =
  "[System note: Your previous turn was interrupted before you could process the last tool result(s). " +
  "Please finish processing those results and summarize what was accomplished, then address the user's new message below.]";
const SUMMARY = "[Summary of the conversation so far, written to save room. Go on from here.]";
/** On the assistant's side, for the model only. Without it what a person took back and what they said next run together. */
const NO_ANSWER = {
  stopped: "[stopped by the user before an answer]",
  failed: "[failed before an answer]",
  lost: "[lost in a restart before an answer]",
};

export const emptyTranscript = (): Transcript => ({
  seq: 0,
  messages: [],
  seqs: [],
  tokens: 0,
  summarised: 0,
  waiting: new Map(),
  calls: new Map(),
  grants: [],
  begun: { text: "", seq: 0, unread: false },
  ending: null,
  unread: false,
});

/** Adds the entry that follows the last one, in place. Any other entry is ignored. */
export function extend(transcript: Transcript, entry: Entry): void {
  if (entry.seq !== transcript.seq + 1) return;
  transcript.seq = entry.seq;
  const { messages, seqs, waiting, calls } = transcript;
  const push = (message: Message) => {
    messages.push(message);
    seqs.push(entry.seq);
    transcript.tokens += tokensOf(message);
  };
  switch (entry.kind) {
    case "accepted":
      waiting.set(entry.input.id, entry.input);
      break;
    case "withdrawn":
      waiting.delete(entry.input);
      break;
    case "began":
    case "joined": {
      const input: Partial<Input> = waiting.get(entry.input) ?? {};
      const { text = "", by, attended, unattended, images, task, history, instructions, options, tools, bare } = input;
      waiting.delete(entry.input);
      if (entry.kind === "began") {
        const given = {
          ...(by && { by }),
          ...(attended && { attended }),
          ...(unattended && { unattended }),
          ...(instructions && { instructions }),
          ...(options && { options }),
          ...(tools && { tools }),
          ...(bare && { bare }),
        };
        const unread = transcript.unread && !task && !history && messages.at(-1)?.role === "tool";
        transcript.begun = { text, seq: entry.seq, unread, ...given };
      }
      if (task) break;
      if (entry.kind === "began") {
        transcript.ending = "lost";
        transcript.unread = false;
        if (history) replace(transcript, messages.length, history, before(entry.seq, history));
      }
      push({ role: "user", text, ...(images && { images }) });
      break;
    }
    case "stopping":
      if (transcript.ending) transcript.ending = "stopped";
      break;
    case "failed":
      if (transcript.ending && !transcript.unread) transcript.ending = "failed";
      break;
    case "parked": // given up because of restarts, whatever is written of it next
      if (transcript.ending) transcript.unread = messages.at(-1)?.role === "tool";
      break;
    case "ended": {
      const { ending } = transcript;
      const last = messages.at(-1)?.role;
      transcript.ending = null;
      if (!ending || last === "assistant" || entry.outcome === "completed") break;
      transcript.unread = ending === "lost" && last === "tool";
      if (!transcript.unread) push({ role: "assistant", text: NO_ANSWER[ending], calls: [] });
      break;
    }
    case "thought": {
      const { text, reasoning = "", replay } = entry;
      if (entry.refused) leaveOut(transcript, entry.refused);
      for (const call of entry.calls) calls.set(call.id, { ...call });
      // An empty assistant message is refused by strict providers and says nothing.
      if (text || entry.calls.length)
        push({
          role: "assistant",
          text,
          calls: entry.calls.map(({ id, tool, args }) => ({ id, tool, args })),
          ...(replay && { reasoning, replay }),
        });
      break;
    }
    case "asked": {
      const call = calls.get(entry.call);
      if (call && entry.ask.about) call.about = entry.ask.about;
      break;
    }
    case "decided": {
      const call = calls.get(entry.call);
      if (!call || !entry.allow) break;
      call.approved = entry.scope ?? "once";
      if (call.approved === "session" && call.about)
        transcript.grants.push({ call: entry.call, about: call.about, by: entry.by, at: entry.at });
      break;
    }
    case "revoked":
      transcript.grants = transcript.grants.filter(({ call }) => call !== entry.call);
      break;
    case "cut":
      push({ role: "assistant", text: entry.text, calls: [], cut: true });
      break;
    case "acted": {
      const tool = calls.get(entry.call)?.tool ?? "";
      calls.delete(entry.call);
      const { call, outcome, text, images } = entry;
      push({ role: "tool", call, tool, outcome, text, ...(images && { images }) });
      break;
    }
    case "compacted": {
      const { upTo, summary } = entry;
      const first = seqs.findIndex((seq) => seq > upTo);
      const gone = upTo === 0 ? 0 : first === -1 ? messages.length : first;
      if (gone === 0) break;
      replace(transcript, gone, [{ role: "user", text: `${SUMMARY}\n${summary}` }], () => upTo);
      transcript.summarised = upTo;
      break;
    }
    case "forked":
      replace(transcript, 0, entry.messages, before(entry.seq, entry.messages));
      break;
    default: // the rest is for people
      entry.kind satisfies "moved" | "started" | "retracted" | "abandoned" | "restarted" | "delivered";
  }
}

/** What a model is shown in the turn that runs. Before the message that began it stands what is for this turn only: what
 *  memory has to say, and that results are to be read first. Not in the system prompt, and not in the transcript: a
 *  provider keeps what stays the same, and a later turn differs from that message on only. */
export function messagesOfTurn(
  { messages, seqs, begun, summarised }: Transcript,
  recalled: string,
): readonly Message[] {
  const unread = begun.unread && begun.seq > summarised; // else those results are in the summary
  const notes = [recalled, unread ? UNREAD_RESULTS : ""].filter(Boolean);
  const at = notes.length ? seqs.lastIndexOf(begun.seq) : -1;
  const message = messages[at];
  if (message?.role !== "user") return messages;
  return messages.with(at, { ...message, text: [...notes, message.text].join("\n\n") });
}

/** What was refused once would be refused again, with everything that is sent beside it. */
function leaveOut(transcript: Transcript, { maker, what }: Refused): void {
  const { messages } = transcript;
  for (const [at, message] of messages.entries()) {
    if (message.role !== "assistant" && message.images && what.includes("pictures"))
      messages[at] = { ...message, unseen: [...new Set([...(message.unseen ?? []), maker])] };
    if (message.role === "assistant" && message.replay?.maker === maker && what.includes("reasoning"))
      messages[at] = { role: "assistant", text: message.text, calls: message.calls };
  }
  transcript.tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
}

/** Replaces the first `gone` messages by these. */
function replace(transcript: Transcript, gone: number, by: Message[], seqOf: (index: number) => number): void {
  const { messages, seqs } = transcript;
  messages.splice(0, gone, ...by);
  seqs.splice(0, gone, ...by.map((_, index) => seqOf(index)));
  transcript.tokens = messages.reduce((sum, message) => sum + tokensOf(message), 0);
}

/** Many messages came with one entry: they get fractions before it, so that a summary can end between two of them. */
const before =
  (seq: number, { length }: Message[]) =>
  (index: number) =>
    seq - 1 + (index + 1) / (length + 1);

/** Four characters a token is right within a fifth for prose and code in most tokenizers. It is only used to act in time,
 *  never to bill. */
export const CHARACTERS = 4;
const PER_MESSAGE = 4;
const PER_IMAGE = 1_500;

export const tokensIn = (text: string): number => Math.ceil(text.length / CHARACTERS) + PER_MESSAGE;

/** Characters of a message, with its pictures as base64. */
export function weightOf({ tokens, messages, waiting }: Transcript): number {
  let weight = tokens * CHARACTERS;
  for (const message of messages)
    if (message.role !== "assistant" && message.images) weight += pictures(message.images);
  for (const { text, images } of waiting.values()) weight += text.length + pictures(images);
  return weight;
}
const pictures = (images: readonly Image[] = []) => images.reduce((sum, { data }) => sum + data.length, 0);

export function tokensOf(message: Message): number {
  switch (message.role) {
    case "user":
    case "tool":
      return tokensIn(message.text) + (message.images?.length ?? 0) * PER_IMAGE;
    case "assistant":
      return message.calls.reduce(
        (sum, { args }) => sum + tokensIn(JSON.stringify(args) ?? ""),
        tokensIn(message.text) + replayTokens(message),
      );
  }
}

/** What is encrypted is about as long as what it hides. */
const replayTokens = ({ reasoning = "", replay }: Extract<Message, { role: "assistant" }>): number =>
  replay ? Math.ceil((reasoning.length + JSON.stringify(replay).length) / CHARACTERS) : 0;
