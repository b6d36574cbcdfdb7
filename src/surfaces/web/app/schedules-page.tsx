// What the scheduler does and when.
import { useState } from "preact/hooks";
import { durationText } from "../../../core/schedule-text.ts";
import { changeCount } from "./changes.ts";
import { timeOf } from "./format.ts";
import { Act, Empty, Page, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";
import { post, remove, wordsOf } from "./server.ts";

type ShownJob = {
  id: string;
  name: string;
  text: string;
  cron: string | null;
  zone: string | null;
  at: number | null;
  every: number | null;
  goal: { step: number } | null;
  deliver_to: string | null;
  session_id: string;
  enabled: boolean;
  next_at: number | null;
};

export function SchedulesPage() {
  const jobs = useRoute<{ data: ShownJob[] }>("/api/jobs", changeCount.value);
  return (
    <Page title="Schedules" about="Turns at set times. Nobody can be asked in them.">
      <section aria-label="Jobs">
        {jobs.error && <p class="error">{jobs.error}</p>}
        {jobs.value?.data.map((job) => (
          <JobRow key={job.id} job={job} again={jobs.again} />
        ))}
        {jobs.value?.data.length === 0 && <Empty>Nothing is scheduled.</Empty>}
      </section>
      <NewJob again={jobs.again} />
    </Page>
  );
}

function JobRow({ job, again }: { job: ShownJob; again(): void }) {
  const { id, name, text, cron, zone, at, every, goal, enabled, next_at, session_id, deliver_to } = job;
  const title = name || text.slice(0, 80);
  const change = (verb: string) => post(`/api/jobs/${id}/${verb}`).finally(again);
  return (
    <article class="row">
      <div class="what">
        <a href={linkTo("conversations", session_id)}>{title}</a>
        <p>
          {[
            cron ? `${cron} (${zone})` : at !== null && !goal && `once, ${timeOf(at * 1_000)}`,
            every !== null && `every ${durationText(every * 1_000)}`,
            goal && `goal, step ${goal.step}`,
            enabled ? !goal && next_at !== null && `next ${timeOf(next_at * 1_000)}` : "paused",
            deliver_to && `answers to ${deliver_to}`,
          ]
            .filter(Boolean)
            .join(" · ")}
        </p>
        {name && <p>{text}</p>}
      </div>
      <Act act={() => change("run")} label={`Run now: ${title}`}>
        Run now
      </Act>
      <Act act={() => change(enabled ? "pause" : "resume")} label={enabled ? `Pause: ${title}` : `Resume: ${title}`}>
        {enabled ? "Pause" : "Resume"}
      </Act>
      <Act act={() => remove(`/api/jobs/${id}`).finally(again)} kind="danger" asks label={`Remove: ${title}`}>
        Remove
      </Act>
    </article>
  );
}

const WHENS = { cron: "Cron", at: "At", in: "In" };
const EXAMPLES = { cron: "0 9 * * 1-5", at: "2026-11-20T09:00", in: "20m, 3h or 2d" };

function NewJob({ again }: { again(): void }) {
  const [text, setText] = useState("");
  const [kind, setKind] = useState<keyof typeof WHENS>("cron");
  const [when, setWhen] = useState("");
  const [error, setError] = useState("");
  const add = async () => {
    try {
      const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      await post("/api/jobs", { text, [kind]: when, ...(kind !== "in" && { zone }) });
      setText("");
      setWhen("");
      setError("");
      again();
    } catch (cause) {
      setError(wordsOf(cause));
    }
  };
  return (
    <section aria-label="New job">
      <h2>New job</h2>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <textarea
          rows={2}
          aria-label="What to do"
          placeholder="What to do"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select
          aria-label="Kind of time"
          value={kind}
          onChange={(event) =>
            setKind(event.currentTarget.value === "at" ? "at" : event.currentTarget.value === "in" ? "in" : "cron")
          }
        >
          {Object.entries(WHENS).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <input
          aria-label="When"
          placeholder={EXAMPLES[kind]}
          value={when}
          onInput={(event) => setWhen(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={!text.trim() || !when.trim()}>
          Add
        </button>
      </form>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </section>
  );
}
