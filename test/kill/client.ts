// The one who talks to the process, through all its lives: says things, asks again where no answer came, and keeps
// a journal of what it asked for and what it was promised.

import type { AcceptRequest, Receipt } from "../../src/core/runtime.ts";
import type { Mode, Reply } from "../../src/core/session.ts";
import { turnId } from "../../src/engine/engine.ts";
import { must } from "../simulation/checker.ts";
import type { Answer, Process } from "./process.ts";
import { type AnswerTo, type Command, type Round, textOf } from "./wire.ts";

export type Said = {
  id: string;
  request: AcceptRequest & { session: string };
  receipt: Receipt | null;
  /** It was acknowledged as new. */
  first: boolean;
  /** False after an attempt that got no answer, until one gets one. */
  answered: boolean;
};
export type Client = ReturnType<typeof createClient>;

/** One clock for all processes of the machine. */
const hrtime = () => Number(process.hrtime.bigint());
/** What an accept may be refused for here. */
const REFUSALS = new Set(["inbox_full", "run_not_accepting_steer"]);

export function createClient(sessions: string[]) {
  const said: Said[] = [];
  /** Everything, for the one who looks into a failure. */
  const journal: object[] = [];
  const stopAsked = new Set<string>();
  const withdrawAsked = new Set<string>();
  /** Turns whose stop was acknowledged, and when. */
  const stopped = new Map<string, number>();
  /** Inputs that were acknowledged, and later called over when somebody wanted to stop them: the wall clock by then. */
  const over = new Map<string, number>();
  const decided = new Map<string, number>();

  async function ask<C extends Command>(process: Process, command: C): Promise<Answer<AnswerTo[C["do"]]>> {
    const at = Date.now();
    try {
      const answer = await process.ask(command);
      journal.push({ at, command, heard: Date.now(), answer });
      return answer;
    } catch (error) {
      journal.push({ at, command, lost: Date.now() });
      throw error;
    }
  }

  type Saying = { mode: Mode; reply: Reply; rounds: Round[]; into?: string };
  function compose(session: string, { rounds, ...rest }: Saying): Said {
    const n = said.length;
    const request = { session, source: "kill", key: `${n}`, text: textOf(session, n, rounds), ...rest };
    const record = { id: turnId("kill", `${n}`), request, receipt: null, first: false, answered: true };
    said.push(record);
    return record;
  }

  async function send(process: Process, record: Said): Promise<void> {
    const { request, id } = record;
    let answer: Answer<Receipt>;
    try {
      answer = await ask(process, { do: "accept", request });
    } catch (error) {
      record.answered = false;
      throw error;
    }
    record.answered = true;
    if ("refused" in answer) return must(REFUSALS.has(answer.refused), "I23", () => `${id}: ${answer.refused}`);
    const { value } = answer;
    const before = record.receipt;
    must(value.id === id && value.session === request.session, "I3", () => `${id} became ${JSON.stringify(value)}`);
    must(value.replayed || !record.first, "I3", () => `${id} was accepted again`);
    must(!before || before.applied === value.applied, "I3", () => `${id}: ${before?.applied}, then ${value.applied}`);
    record.first ||= !value.replayed;
    record.receipt = value;
  }

  async function stop(process: Process, { id, receipt, request: { session } }: Said): Promise<void> {
    stopAsked.add(id);
    const answer = await ask(process, { do: "stop", session, turn: id });
    if (!("value" in answer)) return must(false, "I9", () => `the stop of ${id} was refused: ${answer.refused}`);
    const { value } = answer;
    if (value === "over" && receipt && !over.has(id)) over.set(id, Date.now());
    if ((value === "stopping" || value === "withdrawn") && !stopped.has(id)) stopped.set(id, hrtime());
  }

  async function withdraw(process: Process, { id, request: { session } }: Said): Promise<void> {
    withdrawAsked.add(id);
    await ask(process, { do: "withdraw", session, input: id });
  }

  const move = (process: Process, { id, request: { session } }: Said, to: number) =>
    ask(process, { do: "move", session, input: id, to });

  async function decide(process: Process, session: string, call: string, allow: boolean, by: string): Promise<void> {
    const answer = await ask(process, { do: "answer", session, call, allow, by });
    const id = `${session}/${call}`;
    decided.set(id, (decided.get(id) ?? 0) + Number("value" in answer && answer.value));
    must((decided.get(id) ?? 0) <= 1, "I15", () => `${id} was decided twice`);
  }

  /** Asks again for everything that got no answer, says yes to every question, until nothing is left to do. */
  async function rest(process: Process): Promise<void> {
    for (const record of said) if (!record.answered) await send(process, record);
    for (;;) {
      await process.until(() => process.busy.size === 0 || process.asking.size > 0);
      const [[session, calls] = ["", []]] = process.asking; // a hasty question may be over by now
      for (const call of calls) await decide(process, session, call, true, "rest");
      if (session) {
        await process.until(() => process.asking.get(session) !== calls);
        continue;
      }
      if (process.busy.size === 0 && !(await wake(process))) return;
    }
  }

  /** A session that was parked goes on when somebody says something. */
  async function wake(process: Process): Promise<boolean> {
    let woken = false;
    for (const session of sessions) {
      const answer = await ask(process, { do: "status", session });
      if (!("value" in answer) || !answer.value.inbox.length) continue;
      await send(process, compose(session, { mode: "queue", reply: "pull", rounds: [] }));
      woken = true;
    }
    return woken;
  }

  return {
    sessions,
    said,
    journal,
    stopAsked,
    withdrawAsked,
    stopped,
    over,
    compose,
    send,
    stop,
    withdraw,
    move,
    decide,
    rest,
  };
}
