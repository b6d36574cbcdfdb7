// The course of one turn as a picture: a line for each thing that took time, and marks for what happened at one moment. It is drawn
// from the journal, so it exists for every turn that was ever made.
import { useEffect, useState } from "preact/hooks";
import { lasting } from "../../../conversation/updates.ts";
import type { RunStatus } from "../../../core/run.ts";
import type { Entry } from "../../../core/session.ts";
import { changeCount } from "./changes.ts";
import { Code } from "./code.tsx";
import { type Course, type CourseStep, courseOf } from "./course.ts";
import { clockOf, short, timeOf } from "./format.ts";
import { Empty, Page, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";

type ShownRun = { session: string; status: RunStatus; model: string | null; usage: { input: number; output: number } };

const WIDTH = 1_000;
const LABEL = 190;
const LINE = 30;
const TOP = 30;
const LONGEST_WORDS = 70;

export function TurnPage({ id }: { id: string }) {
  const path = `/api/runs/${encodeURIComponent(id)}`;
  const entries = useRoute<{ data: Entry[] }>(`${path}/entries`, changeCount.value);
  const run = useRoute<ShownRun>(path, changeCount.value);
  const isOver = entries.value?.data.some(({ kind }) => kind === "ended" || kind === "withdrawn") ?? true;
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (isOver) return;
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, [isOver]);
  const [chosen, setChosen] = useState<Entry[]>([]);
  if (entries.error && !entries.value)
    return (
      <Page title="Turn">
        <p class="error">{entries.error}</p>
      </Page>
    );
  if (!entries.value) return <Page title="Turn">{null}</Page>;
  const { data } = entries.value;
  if (!data.length)
    return (
      <Page title="Turn">
        <Empty>There is no such turn.</Empty>
      </Page>
    );
  const course = courseOf(data, Math.max(now, data.at(-1)?.at ?? 0));
  const { status, model, usage, session } = run.value ?? {};
  return (
    <Page
      title="Course of a turn"
      about={[
        timeOf(course.from),
        lasting(course.to - course.from),
        status,
        model,
        usage && `${short(usage.input)} tokens in, ${short(usage.output)} out`,
      ]
        .filter(Boolean)
        .join(" · ")}
    >
      <p class="links">
        {session && <a href={linkTo("conversations", session)}>Open the conversation</a>}
        <button type="button" class="quiet" onClick={() => setChosen(data)}>
          All {data.length} entries
        </button>
      </p>
      <Picture course={course} choose={setChosen} chosen={chosen} />
      <Moments course={course} choose={setChosen} />
      {chosen.length > 0 && (
        <section aria-label="Entries">
          <h2>Entries</h2>
          {chosen.map((entry) => (
            <Code key={entry.seq} text={JSON.stringify(entry, null, 2)} language="json" />
          ))}
        </section>
      )}
    </Page>
  );
}

type PictureProps = { course: Course; chosen: readonly Entry[]; choose(entries: Entry[]): void };

function Picture({ course, chosen, choose }: PictureProps) {
  const { from, to, spans, moments } = course;
  const x = (at: number) => LABEL + ((at - from) / (to - from)) * (WIDTH - LABEL - 8);
  const height = TOP + spans.length * LINE + 8;
  return (
    <div class="picture" tabIndex={0} role="region" aria-label="Picture of the turn">
      <svg
        viewBox={`0 0 ${WIDTH} ${height}`}
        role="group"
        aria-label={`${spans.length} steps in ${lasting(to - from)}`}
      >
        {ticksOf(from, to).map((at) => (
          <g key={at} class="tick">
            <line x1={x(at)} x2={x(at)} y1={TOP - 8} y2={height - 8} />
            <text x={x(at)} y={14} text-anchor="middle">
              {lasting(at - from)}
            </text>
          </g>
        ))}
        {spans.map((span, at) => (
          <Bar key={at} span={span} y={TOP + at * LINE} x={x} isChosen={chosen === span.entries} choose={choose} />
        ))}
        {moments.map(({ at, name, entry }) => (
          <g key={entry.seq} class={`moment ${entry.kind}`}>
            <title>{`${name}, ${clockOf(at)}`}</title>
            <line x1={x(at)} x2={x(at)} y1={TOP - 8} y2={height - 8} />
            <circle cx={x(at)} cy={TOP - 8} r={4} />
          </g>
        ))}
      </svg>
    </div>
  );
}

type BarProps = {
  span: CourseStep;
  y: number;
  isChosen: boolean;
  x(at: number): number;
  choose(entries: Entry[]): void;
};

function Bar({ span, y, x, isChosen, choose }: BarProps) {
  const { kind, name, detail, from, to, ok, open, entries } = span;
  const width = Math.max(3, x(to) - x(from));
  const took = lasting(to - from);
  const words = [took, detail].filter(Boolean).join(" · ");
  const isRight = x(to) + words.length * 6.2 < WIDTH;
  const press = () => choose(entries);
  return (
    <g
      class={`span ${kind} ${ok ? "" : "not-ok"} ${open ? "open" : ""} ${isChosen ? "chosen" : ""}`}
      role="button"
      tabIndex={0}
      onClick={press}
      onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), press())}
    >
      {words.length > LONGEST_WORDS && <title>{words}</title>}
      <rect class="row" x={0} y={y} width={WIDTH} height={LINE} rx={6} />
      <text class="name" x={8} y={y + 19}>
        {name.length > 26 ? `${name.slice(0, 25)}…` : name}
      </text>
      <rect class="bar" x={x(from)} y={y + 8} width={width} height={LINE - 16} rx={4} />
      <text class="words" x={isRight ? x(to) + 8 : x(from) - 8} y={y + 19} text-anchor={isRight ? "start" : "end"}>
        {words.length > LONGEST_WORDS ? `${words.slice(0, LONGEST_WORDS - 1)}…` : words}
      </text>
    </g>
  );
}

const Moments = ({ course: { moments, from }, choose }: Pick<PictureProps, "course" | "choose">) => (
  <ul class="moments" aria-label="What happened">
    {moments.map(({ at, name, entry }) => (
      <li key={entry.seq}>
        <button type="button" class="quiet" onClick={() => choose([entry])}>
          <b>+{lasting(at - from)}</b> {name}
        </button>
      </li>
    ))}
  </ul>
);

/** About six, at round times. */
function ticksOf(from: number, to: number): number[] {
  const step = STEPS.find((ms) => (to - from) / ms <= 7) ?? to - from;
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, count) => from + count * step);
}
const STEPS = [
  100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
  7_200_000, 21_600_000, 86_400_000,
];
