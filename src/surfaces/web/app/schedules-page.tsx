// What the scheduler does and when.
import { useState } from "preact/hooks";
import type { JobJson } from "../../../core/jobs.ts";
import { durationText } from "../../../core/schedule-text.ts";
import { changeCount } from "./changes.ts";
import { dotted, timeOf } from "./format.ts";
import { Act, Alert, Delete, Empty, Page, Section, Select, submits, TextArea, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";
import { patch, post, wordsOf } from "./server.ts";

export function SchedulesPage() {
  const jobs = useRoute<{ data: JobJson[] }>("/api/jobs", changeCount.value);
  return (
    <Page title="Schedules" about="Turns at set times. Nobody can be asked in them.">
      <section aria-label="Jobs">
        {jobs.error && <p class="error">{jobs.error}</p>}
        {jobs.value?.data.map((job) => (
          <JobRow key={job.id} job={job} again={jobs.again} />
        ))}
        {jobs.value?.data.length === 0 && <Empty>Nothing is scheduled.</Empty>}
      </section>
      <Section title="New job">
        <JobForm save={(wish) => post("/api/jobs", wish)} done={jobs.again} />
      </Section>
    </Page>
  );
}

function JobRow({ job, again }: { job: JobJson; again(): void }) {
  const { id, name, text, cron, zone, at, every, goal, enabled, next_at, session_id, deliver_to } = job;
  const [editing, setEditing] = useState(false);
  const title = name || text.slice(0, 80);
  const change = (verb: string) => post(`/api/jobs/${id}/${verb}`).finally(again);
  if (editing)
    return (
      <article class="row line">
        <JobForm
          job={job}
          save={(wish) => patch(`/api/jobs/${id}`, wish)}
          done={() => {
            setEditing(false);
            again();
          }}
        />
      </article>
    );
  return (
    <article class="row line">
      <div class="what grow">
        <a href={linkTo("conversations", session_id)}>{title}</a>
        <p class="soft small long">
          {dotted(
            cron ? `${cron} (${zone})` : at !== null && !goal && `once, ${timeOf(at * 1_000)}`,
            every !== null && `every ${durationText(every * 1_000)}`,
            goal && `goal, step ${goal.step}`,
            enabled ? !goal && next_at !== null && `next ${timeOf(next_at * 1_000)}` : "paused",
            deliver_to && `answers to ${deliver_to}`,
          )}
        </p>
        {text !== title && <p class="soft small long">{text}</p>}
      </div>
      <Act act={() => change("run")} label={`Run now: ${title}`}>
        Run now
      </Act>
      <Act act={() => change(enabled ? "pause" : "resume")} label={enabled ? `Pause: ${title}` : `Resume: ${title}`}>
        {enabled ? "Pause" : "Resume"}
      </Act>
      {every === null && !goal && (
        <button type="button" aria-label={`Edit: ${title}`} onClick={() => setEditing(true)}>
          Edit
        </button>
      )}
      <Delete path={`/api/jobs/${id}`} again={again} label={`Remove: ${title}`}>
        Remove
      </Delete>
    </article>
  );
}

const WHENS = { cron: "Again and again", at: "Once, at", in: "Once, in" };
type WhenKind = keyof typeof WHENS;
const KINDS: readonly WhenKind[] = ["cron", "at", "in"];
const HINTS = {
  cron: { placeholder: "0 9 * * 1-5" },
  at: { type: "datetime-local" },
  in: { placeholder: "20m, 3h or 2d" },
} as const;

type JobFormProps = { job?: JobJson; save(wish: object): Promise<unknown>; done(): void };

/** For a new job, or to change one. */
function JobForm({ job, save, done }: JobFormProps) {
  const [text, setText] = useState(job?.text ?? "");
  const [kind, setKind] = useState<WhenKind>(job?.at ? "at" : "cron");
  const [when, setWhen] = useState(job?.cron ?? (job?.at ? localTime(job.at * 1_000) : ""));
  const [error, setError] = useState("");
  const send = async () => {
    try {
      // Times are read in the zone of whoever writes them; a job keeps the zone of its own.
      const zone = kind === "cron" && job?.zone ? job.zone : Intl.DateTimeFormat().resolvedOptions().timeZone;
      await save({ text, [kind]: when, ...(kind !== "in" && { zone }) });
      setText("");
      setWhen("");
      setError("");
      done();
    } catch (cause) {
      setError(wordsOf(cause));
    }
  };
  return (
    <form class="form wrap grow" onSubmit={submits(send)}>
      <TextArea rows={2} label="What to do" placeholder="What to do" value={text} set={setText} />
      <Select
        label="Kind of time"
        value={kind}
        set={(chosen) => setKind(KINDS.find((one) => one === chosen) ?? "cron")}
        names={Object.entries(WHENS)}
      />
      <input aria-label="When" value={when} onInput={(event) => setWhen(event.currentTarget.value)} {...HINTS[kind]} />
      <button type="submit" class="primary" disabled={!text.trim() || !when.trim()}>
        {job ? "Save" : "Add"}
      </button>
      {job && (
        <button type="button" onClick={done}>
          Cancel
        </button>
      )}
      {kind === "cron" && <span class="aside">minute, hour, day, month, weekday</span>}
      {error && <Alert text={error} />}
    </form>
  );
}

/** As an input of times wants it. */
const localTime = (at: number): string =>
  new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
