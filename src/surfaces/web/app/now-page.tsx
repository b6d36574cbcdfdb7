// Everything that runs, and everything that waits for a person.
import { useEffect, useState } from "preact/hooks";
import { lasting } from "../../../conversation/updates.ts";
import { changeCount, changed, nowState, trouble, type WorkingSession } from "./changes.ts";
import { ago, counted, dotted, nameOf, sourceOf } from "./format.ts";
import { allowNotifications, notifying } from "./notify.ts";
import { Act, Empty, Page, Row, Section, useRoute } from "./page.tsx";
import { QuestionCard } from "./question.tsx";
import { linkTo } from "./route.ts";
import { remove, runtime } from "./server.ts";

type ShownProcess = {
  id: string;
  session_id: string;
  command: string;
  cwd: string;
  started_at: number;
  output: string;
};
export type ShownHealth = {
  status: string;
  version: string;
  uptime_seconds: number;
  memory_bytes: number;
  memory: { name: string; state: string; failures: number; lastError: string; pending: number }[];
  turns_running: number;
  turns_held: number;
  inputs_waiting: number;
  oldest_input_seconds: number | null;
  channels?: { platform: string; connected: boolean; heardAt: number | null; error: string }[];
};

const LOOK_MS = 5_000;
const PHASES = {
  thinking: "The model answers",
  compacting: "The conversation is being summarised",
  acting: "Tools run",
  replying: "The answer is on its way",
  stopping: "It is being stopped",
};

export function NowPage() {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setTick((count) => count + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  const when = `${changeCount.value}.${tick}`;
  const processes = useRoute<{ data: ShownProcess[] }>("/api/processes", when);
  const health = useRoute<ShownHealth>("/health/detailed", when);
  const rows = nowState.value?.data ?? [];
  const asking = rows.flatMap((row) => row.status.asking.map((question) => ({ row, question })));
  const working = rows.filter(({ status }) => status.turn !== null || status.inbox.length > 0);
  const { turns_running = 0, inputs_waiting = 0, oldest_input_seconds: oldest = null } = health.value ?? {};
  return (
    <Page
      title="Now"
      about={dotted(
        trouble.value && "As it was when the server was last reached",
        nowState.value?.draining && "About to restart",
        counted(turns_running, "turn runs", "turns run"),
        counted(inputs_waiting, "message waits", "messages wait"),
        oldest !== null && `the oldest for ${lasting(oldest * 1_000)}`,
      )}
    >
      <Section title="Waits for you">
        {notifying.value === "default" && (
          <p class="links line">
            <Act act={allowNotifications}>Notify me when something waits</Act>
          </p>
        )}
        {asking.map(({ row, question }) => (
          <div key={question.call} class="asking-row">
            <a href={linkTo("conversations", row.id)}>{nameOf(row.id, row.title)}</a>
            <QuestionCard session={row.id} question={question} />
          </div>
        ))}
        {asking.length === 0 && <Empty>Nothing waits for a person.</Empty>}
      </Section>

      <Section title="At work" empty="Nothing runs.">
        {working.map((row) => (
          <Working key={row.id} row={row} />
        ))}
      </Section>

      <Section title="Background processes" empty="No process runs in the background.">
        {processes.value?.data.map(({ id, session_id, command, cwd, started_at, output }) => (
          <article key={id} class="row line">
            <div class="what grow">
              <code class="long">{command}</code>
              <p class="soft small long">
                <a href={linkTo("conversations", session_id)}>{sourceOf(session_id)}</a> · in {cwd} · for{" "}
                {ago(started_at * 1_000)}
              </p>
              {output && (
                <pre class="printed as-is" tabIndex={0}>
                  {output}
                </pre>
              )}
            </div>
            <Act
              act={() => remove(`/api/processes/${id}`).finally(processes.again)}
              kind="danger"
              label={`End ${command}`}
            >
              End
            </Act>
          </article>
        ))}
      </Section>

      {health.value?.channels && (
        <Section title="Channels" empty="No chat app is connected.">
          {health.value.channels.map(({ platform, connected, heardAt, error }) => {
            const heard = heardAt !== null && `last heard ${ago(heardAt)} ago`;
            const about = dotted(connected ? "Connected" : "Not connected", heard, error);
            return <Row key={platform} name={platform} about={about} isBad={!connected} />;
          })}
        </Section>
      )}
    </Page>
  );
}

function Working({ row: { id, title, status } }: { row: WorkingSession }) {
  const { turn, inbox, held, parked, asking } = status;
  const stop = (scope: "turn" | "tree") =>
    runtime.stop({ session: id, turn: turn?.id ?? "", scope }).finally(() => void changed());
  const running = asking.length ? "Waits for you" : held ? "Waits for room" : turn ? PHASES[turn.phase] : "Waits";
  const state = parked ? "Held after crashes" : running;
  return (
    <article class="row line">
      <span class={asking.length ? "dot asks" : "dot"} />
      <div class="what grow">
        <a href={linkTo("conversations", id)}>{nameOf(id, title)}</a>
        <p class="soft small long">
          {dotted(
            sourceOf(id),
            state,
            turn && `model call ${turn.thoughts + 1}`,
            turn && turn.recoveries > 0 && `taken up again ${turn.recoveries}×`,
            inbox.length > 0 && `${inbox.length} waiting`,
          )}
        </p>
      </div>
      {turn && (
        <>
          <a class="button soft" href={linkTo("turn", turn.id)}>
            Course
          </a>
          <Act act={() => stop("turn")} label={`Stop ${nameOf(id, title)}`}>
            Stop
          </Act>
          <Act act={() => stop("tree")} kind="danger" label={`Stop all: ${nameOf(id, title)} and what it started`}>
            Stop all
          </Act>
        </>
      )}
    </article>
  );
}
