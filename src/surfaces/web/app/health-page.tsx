// How the server is, deliveries that were given up, and the browsers that are signed in.
import { useState } from "preact/hooks";
import { lasting } from "../../../conversation/updates.ts";
import { changeCount } from "./changes.ts";
import { ago, counted, timeOf } from "./format.ts";
import { Act, Empty, Page, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";
import { get, post, remove } from "./server.ts";

type DetailedHealth = {
  status: string;
  version: string;
  uptime_seconds: number;
  turns_running: number;
  turns_held: number;
  inputs_waiting: number;
  memory_bytes: number;
  memory: { name: string; state: string; failures: number; lastError: string; pending: number }[];
};
type DeadLetter = {
  id: number;
  url: string;
  run_id: string;
  session_id: string;
  attempts: number;
  error: string;
  created_at: number;
};
type ShownNode = {
  id: string;
  address: string;
  version: string;
  leaving: boolean;
  lease_until: number;
  sessions: number;
  self: boolean;
  reachable: boolean;
};
type SignedIn = { id: string; created_at: number; expires_at: number; agent: string; current: boolean };

export function HealthPage() {
  const { value: when } = changeCount;
  const health = useRoute<DetailedHealth>("/health/detailed", when);
  const dead = useRoute<{ data: DeadLetter[] }>("/api/webhooks/dead", when);
  const nodes = useRoute<{ data: ShownNode[] }>("/api/nodes", when);
  const browsers = useRoute<{ data: SignedIn[] }>("/api/sign-ins");
  // Only a gateway can start itself again.
  const canRestart = "/api/restart" in (useRoute<{ paths: object }>("/openapi.json").value?.paths ?? {});
  const { value } = health;
  return (
    <Page
      title="Health"
      about={value ? `hermes ${value.version} · ${value.status} · up for ${lasting(value.uptime_seconds * 1_000)}` : ""}
    >
      {health.error && <p class="error">{health.error}</p>}
      {value && (
        <section aria-label="Server">
          <dl class="figures">
            <Figure name="Turns that run" value={String(value.turns_running)} />
            <Figure name="Turns that wait for room" value={String(value.turns_held)} />
            <Figure name="Messages that wait" value={String(value.inputs_waiting)} />
            <Figure name="Memory of the process" value={`${Math.round(value.memory_bytes / 1_000_000)} MB`} />
          </dl>
          {canRestart && (
            <p class="links">
              <Act act={() => post("/api/restart")} asks label="Restart the server">
                Restart the server
              </Act>
              <span class="aside">Running turns may finish first. What is left continues afterwards.</span>
            </p>
          )}
          <Installation />
        </section>
      )}
      {nodes.value && nodes.value.data.length > 1 && (
        <section aria-label="Nodes">
          <h2>Nodes</h2>
          {nodes.value.data.map((node) => (
            <article key={node.id} class="row">
              <div class="what">
                <b>
                  {node.address || node.id} {node.self && <span class="tag">answers you</span>}
                </b>
                <p class={node.reachable ? "" : "error"}>{nodeText(node)}</p>
              </div>
              {!node.leaving && (
                <Act
                  asks
                  act={() => post(`/api/nodes/${encodeURIComponent(node.id)}/drain`).finally(nodes.again)}
                  label={`Drain ${node.address || node.id}`}
                >
                  Drain
                </Act>
              )}
            </article>
          ))}
          <p class="aside">A node that is drained hands its sessions over to the others and exits.</p>
        </section>
      )}
      {value && (
        <section aria-label="Long-term memory">
          <h2>Long-term memory</h2>
          {value.memory.map(({ name, state, failures, lastError, pending }) => (
            <article key={name} class="row">
              <div class="what">
                <b>{name}</b>
                <p class={state === "ok" ? "" : "error"}>
                  {[
                    state,
                    pending > 0 && `${pending} turns to be written`,
                    failures > 0 && `${failures} failures`,
                    lastError,
                  ]
                    .filter(Boolean)
                    .join(" · ")}
                </p>
              </div>
            </article>
          ))}
          {value.memory.length === 0 && <Empty>No long-term memory is configured.</Empty>}
        </section>
      )}
      {dead.value && (
        <section aria-label="Deliveries that were given up">
          <h2>Deliveries that were given up</h2>
          {dead.value.data.map(({ id, url, run_id, attempts, error, created_at }) => (
            <article key={id} class="row">
              <div class="what">
                <a href={linkTo("turn", run_id)}>{url}</a>
                <p>{[timeOf(created_at * 1_000), `${attempts} attempts`, error].filter(Boolean).join(" · ")}</p>
              </div>
              <Act act={() => post(`/api/webhooks/dead/${id}/retry`).finally(dead.again)} label={`Try again: ${url}`}>
                Try again
              </Act>
              <Act
                kind="danger"
                asks
                act={() => remove(`/api/webhooks/dead/${id}`).finally(dead.again)}
                label={`Forget: ${url}`}
              >
                Forget
              </Act>
            </article>
          ))}
          {dead.value.data.length === 0 && <Empty>Every webhook was delivered.</Empty>}
        </section>
      )}
      {browsers.value && (
        <section aria-label="Browsers that are signed in">
          <h2>Browsers that are signed in</h2>
          {browsers.value.data.map(({ id, agent, created_at, expires_at, current }) => (
            <article key={id} class="row">
              <div class="what">
                <b>{current ? "This browser" : browserName(agent)}</b>
                <p>
                  since {ago(created_at * 1_000)}, until {timeOf(expires_at * 1_000)}
                </p>
              </div>
              <Act
                kind="danger"
                asks
                act={() => remove(`/api/sign-ins/${id}`).finally(browsers.again)}
                label="Sign out"
              >
                Sign out
              </Act>
            </article>
          ))}
        </section>
      )}
    </Page>
  );
}

const nodeText = ({ id, version, sessions, leaving, lease_until, reachable }: ShownNode): string =>
  [
    counted(sessions, "session at work", "sessions at work"),
    leaving ? "leaving" : lease_until * 1_000 < Date.now() && "does not answer",
    !reachable && "cannot be reached from here",
    `hermes ${version}`,
    id,
  ]
    .filter(Boolean)
    .join(" · ");

type DoctorFinding = { check: string; status: "ok" | "warn" | "fail"; says: string; fix?: string };

const MARKS = { ok: "✓", warn: "!", fail: "✗" };

/** Looked at when it is asked for: a check of the database reads all of it. */
function Installation() {
  const [found, setFound] = useState<DoctorFinding[]>([]);
  return (
    <>
      <p class="links">
        <Act act={async () => setFound((await get<{ checks: DoctorFinding[] }>("/api/doctor")).checks)}>
          Check the installation
        </Act>
        <span class="aside">
          The same as <code>hermes doctor</code>.
        </span>
      </p>
      <ul class="findings" aria-label="Findings">
        {found.map(({ check, status, says, fix }) => (
          <li key={check + says} class={status}>
            <b>
              {MARKS[status]} {check}
            </b>{" "}
            {says}
            {fix && <i> → {fix}</i>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** The last of these that its text names: each also names those before it. */
const BROWSERS = ["Safari", "Chrome", "Edg", "OPR", "Firefox"];
const SYSTEMS = ["Linux", "Android", "Mac OS", "iPhone", "iPad", "Windows"];

function browserName(agent: string): string {
  const [name = "A browser", system] = [BROWSERS, SYSTEMS].map((all) => all.findLast((one) => agent.includes(one)));
  return [name, system].filter(Boolean).join(" on ");
}

const Figure = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);
