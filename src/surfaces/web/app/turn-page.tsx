// The course of one turn as a picture: a line for each thing that took time, and marks for what happened at one moment. It is drawn
// from the journal, so it exists for every turn that was ever made.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { lasting } from "../../../conversation/updates.ts";
import type { RunStatus } from "../../../core/run.ts";
import type { Status } from "../../../core/runtime.ts";
import type { Entry } from "../../../core/session.ts";
import { changeCount } from "./changes.ts";
import { Code } from "./code.tsx";
import { type Course, type CourseStep, courseOf, took } from "./course.ts";
import { clockOf, dotted, nameOf, short, timeOf } from "./format.ts";
import { Empty, Page, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";
import { runtime } from "./server.ts";

type ShownRun = { session: string; status: RunStatus; model: string | null; usage: { input: number; output: number } };

export function TurnPage({ id }: { id: string }) {
  const path = `/api/runs/${encodeURIComponent(id)}`;
  const entries = useRoute<{ data: Entry[] }>(`${path}/entries`, changeCount.value);
  const run = useRoute<ShownRun>(path, changeCount.value);
  const data = entries.value?.data ?? [];
  const isOver = data.some(({ kind }) => kind === "ended" || kind === "withdrawn");
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (isOver) return;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [isOver]);
  const { status, model, usage, session } = run.value ?? {};
  const of = useConversation(session, changeCount.value);
  if (!data.length)
    return (
      <Page title="Course of a turn">
        {entries.error && <p class="error">{entries.error}</p>}
        {entries.value && <Empty>There is no such turn. Its conversation may have been deleted.</Empty>}
      </Page>
    );
  const course = courseOf(data, Math.max(now, data.at(-1)?.at ?? 0));
  return (
    <Page
      title="Course of a turn"
      about={dotted(
        timeOf(course.from),
        lasting(course.to - course.from),
        status,
        model,
        usage && `${short(usage.input)} tokens in, ${short(usage.output)} out`,
      )}
    >
      {session && (
        <p class="links line">
          <a href={linkTo("conversations", session)}>Open the conversation{of?.name && ` “${of.name}”`}</a>
        </p>
      )}
      <Picture course={course} />
      {of && isOver && of.unsaved.length > 0 && (
        <p class="aside">Long-term memory ({of.unsaved.join(", ")}) has still to be told of this conversation.</p>
      )}
      <Folded name={`All ${data.length} entries of the journal`} entries={data} />
    </Page>
  );
}

/** Its name, and whoever has still to be told of its turns. */
function useConversation(session: string | undefined, when: number) {
  const [of, setOf] = useState<({ name: string } & Pick<Status, "unsaved">) | null>(null);
  useEffect(() => {
    if (session === undefined) return;
    Promise.all([runtime.summary(session), runtime.status(session)]).then(
      ([summary, { unsaved }]) => setOf({ name: nameOf(session, summary?.title ?? ""), unsaved }),
      () => {},
    );
  }, [session, when]);
  return of;
}

function Picture({ course }: { course: Course }) {
  const { from, to, spans, moments } = course;
  const place = (at: number) => `${(Math.min(Math.max((at - from) / (to - from), 0), 1) * 100).toFixed(3)}%`;
  return (
    <section aria-label={`${spans.length} steps in ${lasting(to - from)}`}>
      <div class="course">
        <div class="scale" aria-hidden="true">
          {ticksOf(from, to).map((at) => (
            <i key={at} style={{ left: place(at) }}>
              {lasting(at - from)}
            </i>
          ))}
          {moments.map(({ at, entry }) => (
            <i key={entry.seq} class={`moment ${entry.kind}`} style={{ left: place(at) }} />
          ))}
        </div>
        {spans.map((step, at) => (
          <Step key={at} step={step} place={place} />
        ))}
      </div>
      {moments.map(({ at, name, entry }) => (
        <Folded
          key={entry.seq}
          kind={`happened ${entry.kind}`}
          name={`+${lasting(at - from)} ${name}`}
          title={clockOf(at)}
          entries={[entry]}
        />
      ))}
      {spans.some(({ firstWord }) => firstWord !== null) && (
        <p class="aside">A model call is drawn lighter until its first word. A red line in it is a try that failed.</p>
      )}
    </section>
  );
}

function Step({ step, place }: { step: CourseStep; place(at: number): string }) {
  const { kind, name, detail, from, to, ok, open, firstWord, failed, entries } = step;
  const span = (start: number, end: number) => ({ left: place(start), width: `calc(${place(end)} - ${place(start)})` });
  return (
    <Folded
      kind={open ? "step open" : "step"}
      entries={entries}
      name={
        <>
          <b class="long">{name}</b>
          <span class="took soft small">{took(to - from)}</span>
          <span class="detail soft small long">{detail}</span>
          <span class="track" style={{ "--colour": ok ? COLOURS[kind] : "#c8453b" }}>
            <i class={firstWord === null ? "bar" : "bar before"} style={span(from, to)} />
            {firstWord !== null && <i class="bar" style={span(Math.min(firstWord, to), to)} />}
            {failed.map(({ at, name: words }) => (
              <i key={at} class="failed" title={words} style={{ left: place(at) }} />
            ))}
          </span>
        </>
      }
    />
  );
}

const COLOURS: Record<CourseStep["kind"], string> = {
  wait: "var(--line-strong)",
  stop: "var(--line-strong)",
  model: "var(--accent)",
  tool: "#1f8a70",
  question: "#c98a1b",
  summary: "#8a63c9",
  memory: "#8a63c9",
  delivery: "#2b8fb3",
};

type FoldedProps = { name: ComponentChildren; entries: readonly Entry[]; kind?: string; title?: string };

/** Opens to its entries. */
function Folded({ name, entries, kind = "", title = "" }: FoldedProps) {
  const [open, setOpen] = useState(false);
  return (
    <details class={`folded ${kind}`} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary title={title}>{name}</summary>
      {open && entries.map((entry) => <Code key={entry.seq} text={JSON.stringify(entry, null, 2)} language="json" />)}
    </details>
  );
}

/** One that is further to the right has no room for its text. */
const LAST_TICK = 0.93;

/** About six, at round times. */
function ticksOf(from: number, to: number): number[] {
  const step = STEPS.find((ms) => (to - from) / ms <= 7) ?? to - from;
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, count) => from + count * step).filter(
    (at) => (at - from) / (to - from) < LAST_TICK,
  );
}
const STEPS = [
  100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
  7_200_000, 21_600_000, 86_400_000,
];
