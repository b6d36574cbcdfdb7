// What must hold after a storm, from the journal of the gateway and from what the platform holds. The judge knows what was
// said and the contract; nothing here asks the gateway.
import { entriesOf } from "../../src/core/pages.ts";
import type { Entry } from "../../src/core/session.ts";
import type { Store } from "../../src/core/store.ts";
import { splitMarkdown } from "../../src/surfaces/gateway/split.ts";
import type { FakeTelegram } from "../fakes/chat/telegram.ts";
import type { Talk } from "./storm.ts";

const AGAIN = "(Sent again: the first copy may not have arrived.)";
const LONGEST = 4_096 - AGAIN.length - 1;
const REFUSED = "⏳ Gateway is restarting and is not accepting new work right now.";
const ANSWER = /^Answer to (c\d+-\d+)/;
/** What is said besides answers, and what a message may still show of a turn that was cut short. */
const NOISE =
  /^(⏳|⚡|⏩|⏹|♻️|From now on messages|Nothing is running|It has just finished|This turn was given up|⚠️ I was restarted in the middle of|[⚙✓✗])/u;

export async function judge({
  store,
  talks,
  telegram,
}: {
  store: Pick<Store, "journal" | "check">;
  talks: readonly Talk[];
  telegram: FakeTelegram;
}) {
  const total = { answered: 0, interrupted: 0, givenUp: 0, copies: 0, refused: 0, problems: [] as string[] };
  /** Texts of sends that the platform took, or may have taken, without a word. */
  const unheard = telegram.calls
    .filter(({ method, fault }) => method === "sendMessage" && fault !== undefined)
    .map(({ params }) => String(params["text"]));
  total.problems.push(...(await store.check()));
  for (const talk of talks) {
    const session = `agent:main:telegram:dm:${talk.chat}`;
    const row = await store.journal.load(session);
    const problem = (what: string) => total.problems.push(`chat ${talk.chat} (${talk.mode}): ${what}`);
    if (row?.state.turn || row?.state.inbox.length) problem("a turn runs, or a message waits");
    const entries = await entriesOf(store.journal, session);
    const shown = telegram.sent(talk.chat).filter(({ deleted }) => !deleted);
    const texts = shown.map(({ text }) => text);
    const refused = texts.filter((text) => text === REFUSED).length;
    total.refused += refused;
    inputs(talk, entries, refused, problem);
    const turns = turnsOf(entries);
    for (const turn of turns) {
      if (turn.ends.length !== 1) problem(`turn ${turn.texts[0]} ended ${turn.ends.length} times`);
      if (turn.ends[0] === "completed") total.answered++;
      else if (turn.ends[0] === "failed") total.givenUp++;
      else total.interrupted++;
    }
    const stopped = turns.filter(({ ends }) => ends[0] === "cancelled").length;
    if (stopped > talk.stops) problem(`${stopped} turns were stopped, ${talk.stops} were asked to`);
    if (talk.mode === "queue" && turns.some(({ ends }) => ends[0] === "interrupted")) problem("a turn was interrupted");
    total.copies += answers(turns, texts, unheard, problem);
  }
  return total;
}

type Turn = { texts: string[]; ends: string[]; reply: string; restarts: number; failed: boolean };

/** Each message was accepted once, in its order, and is in exactly one turn, in the same order. */
function inputs(talk: Talk, entries: readonly Entry[], refused: number, problem: (what: string) => void) {
  const accepted = entries.flatMap((entry) => (entry.kind === "accepted" ? [entry.input] : []));
  const texts = accepted.map(({ text }) => text);
  const missing = talk.said.filter((text) => !texts.includes(text));
  // One that is told "not now" during the restart is not taken, and knows it.
  if (missing.length !== refused)
    problem(`${missing.length} messages are lost, ${refused} were refused: ${missing.join()}`);
  if (new Set(texts).size !== texts.length) problem("a message was taken twice");
  const expected = talk.said.filter((text) => texts.includes(text));
  if (expected.join() !== texts.join())
    problem(`taken in the order ${texts.join()}, said in the order ${expected.join()}`);
  const ids = entries.flatMap((entry) => (entry.kind === "began" || entry.kind === "joined" ? [entry.input] : []));
  if (ids.length !== accepted.length || new Set(ids).size !== ids.length)
    problem(`${accepted.length} messages are in ${ids.length} turns`);
  const waits: { id: string; interrupts: boolean }[] = [];
  const textOf = (id: string | undefined) => accepted.find((input) => input.id === id)?.text;
  for (const entry of entries) {
    // One that interrupts goes ahead of all that wait; those that interrupted before it follow, in order; then the others.
    if (entry.kind === "accepted") {
      const one = { id: entry.input.id, interrupts: entry.applied === "interrupt" };
      const [ahead, others] = [waits.filter((w) => w.interrupts), waits.filter((w) => !w.interrupts)];
      const older = accepted.flatMap(({ id }) => ahead.filter((w) => w.id === id));
      if (one.interrupts) waits.splice(0, waits.length, one, ...older, ...others);
      else waits.push(one);
    }
    if (entry.kind === "began" && waits[0]?.id !== entry.input)
      problem(`${textOf(entry.input)} was worked on before ${textOf(waits[0]?.id)}`);
    if (entry.kind === "began" || entry.kind === "joined" || entry.kind === "withdrawn") {
      const at = waits.findIndex(({ id }) => id === entry.input);
      if (at >= 0) waits.splice(at, 1);
    }
  }
}

function turnsOf(entries: readonly Entry[]): Turn[] {
  const texts = new Map(
    entries.flatMap((entry) => (entry.kind === "accepted" ? [[entry.input.id, entry.input.text]] : [])),
  );
  const turns = new Map<string, Turn>();
  for (const entry of entries) {
    if (entry.kind === "began") turns.set(entry.turn, { texts: [], ends: [], reply: "", restarts: 0, failed: false });
    const turn = turns.get(entry.turn);
    if (!turn) continue;
    if (entry.kind === "began" || entry.kind === "joined") turn.texts.push(texts.get(entry.input) ?? "?");
    if (entry.kind === "thought" && !entry.calls.length) turn.reply = entry.text;
    if (entry.kind === "restarted") turn.restarts++;
    if (entry.kind === "ended") turn.ends.push(entry.outcome);
  }
  return [...turns.values()];
}

/** Every answer arrived whole, in order, once; a second copy only where nobody could know. Returns how many of those. */
function answers(
  turns: readonly Turn[],
  texts: readonly string[],
  unheard: readonly string[],
  problem: (what: string) => void,
) {
  const expected = turns
    .filter(({ ends }) => ends[0] === "completed")
    .flatMap((turn) => splitMarkdown(turn.reply, LONGEST).map((part) => ({ part, turn })));
  for (const { part, turn } of expected) {
    const token = ANSWER.exec(part)?.[1] ?? "";
    if (!turn.texts.includes(token)) problem(`${turn.texts.join()} was answered with ${part.slice(0, 40)}`);
  }
  const firsts: string[] = [];
  const came: string[] = [];
  let copies = 0;
  for (const text of texts) {
    const marked = text.startsWith(AGAIN);
    const part = marked ? text.slice(AGAIN.length + 1) : text;
    const mine = expected.find((one) => one.part === part);
    if (!mine) {
      if (!NOISE.test(text)) problem(`nobody asked for: ${text.slice(0, 80)}`);
      continue;
    }
    if (!came.includes(part)) came.push(part);
    if (!marked) firsts.push(part);
    else copies++;
    if (marked && !mine.turn.restarts && !unheard.some((one) => one.includes(part.slice(0, 30))))
      problem(`marked as a second copy for no reason: ${part.slice(0, 40)}`);
  }
  if (new Set(firsts).size !== firsts.length) problem("an answer came twice");
  const lost = expected.filter(({ part }) => !came.includes(part)).map(({ part }) => part.slice(0, 40));
  if (lost.length) problem(`answers are lost: ${lost.join(" | ")}`);
  const order = expected.map(({ part }) => part).filter((part) => came.includes(part));
  if (order.join() !== came.join())
    problem(`answers came in the order ${came.map((part) => part.slice(0, 30)).join()}`);
  return copies;
}
