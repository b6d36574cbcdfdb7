// How the server is, deliveries that were given up, and the browsers that are signed in.
import { useState } from "preact/hooks";
import { lasting } from "../../../conversation/updates.ts";
import { changeCount } from "./changes.ts";
import { ago, counted, dotted, timeOf } from "./format.ts";
import type { ShownHealth } from "./now-page.tsx";
import { Act, Delete, Page, Row, Section, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";
import { get, post } from "./server.ts";

type DeadLetter = { id: number; url: string; run_id: string; attempts: number; error: string; created_at: number };
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
  const health = useRoute<ShownHealth>("/health/detailed", when);
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
            <Figure name="Turns that run" value={value.turns_running} />
            <Figure name="Turns that wait for room" value={value.turns_held} />
            <Figure name="Messages that wait" value={value.inputs_waiting} />
            <Figure name="Memory of the process" value={`${Math.round(value.memory_bytes / 1_000_000)} MB`} />
          </dl>
          {canRestart && (
            <p class="links line">
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
        <Section title="Nodes">
          {nodes.value.data.map((node) => (
            <Row
              key={node.id}
              name={
                <>
                  {node.address || node.id} {node.self && <span class="tag soft">answers you</span>}
                </>
              }
              about={nodeText(node)}
              isBad={!node.reachable}
            >
              {!node.leaving && (
                <Act
                  asks
                  act={() => post(`/api/nodes/${encodeURIComponent(node.id)}/drain`).finally(nodes.again)}
                  label={`Drain ${node.address || node.id}`}
                >
                  Drain
                </Act>
              )}
            </Row>
          ))}
          <p class="aside">A node that is drained hands its sessions over to the others and exits.</p>
        </Section>
      )}
      {value && (
        <Section title="Long-term memory" empty="No long-term memory is configured.">
          {value.memory.map(({ name, state, failures, lastError, pending }) => {
            const left = pending > 0 && `${pending} turns to be written`;
            const about = dotted(state, left, failures > 0 && `${failures} failures`, lastError);
            return <Row key={name} name={name} about={about} isBad={state !== "ok"} />;
          })}
        </Section>
      )}
      {dead.value && (
        <Section title="Deliveries that were given up" empty="Every webhook was delivered.">
          {dead.value.data.map(({ id, url, run_id, attempts, error, created_at }) => (
            <Row
              key={id}
              name={url}
              href={linkTo("turn", run_id)}
              about={dotted(timeOf(created_at * 1_000), `${attempts} attempts`, error)}
            >
              <Act act={() => post(`/api/webhooks/dead/${id}/retry`).finally(dead.again)} label={`Try again: ${url}`}>
                Try again
              </Act>
              <Delete path={`/api/webhooks/dead/${id}`} again={dead.again} label={`Forget: ${url}`}>
                Forget
              </Delete>
            </Row>
          ))}
        </Section>
      )}
      {browsers.value && (
        <Section title="Browsers that are signed in">
          {browsers.value.data.map(({ id, agent, created_at, expires_at, current }) => (
            <Row
              key={id}
              name={current ? "This browser" : browserName(agent)}
              about={`since ${ago(created_at * 1_000)}, until ${timeOf(expires_at * 1_000)}`}
            >
              <Delete path={`/api/sign-ins/${id}`} again={browsers.again} label="Sign out">
                Sign out
              </Delete>
            </Row>
          ))}
        </Section>
      )}
    </Page>
  );
}

const nodeText = ({ id, version, sessions, leaving, lease_until, reachable }: ShownNode): string =>
  dotted(
    counted(sessions, "session at work", "sessions at work"),
    leaving ? "leaving" : lease_until * 1_000 < Date.now() && "does not answer",
    !reachable && "cannot be reached from here",
    `hermes ${version}`,
    id,
  );

type DoctorFinding = { check: string; status: "ok" | "warn" | "fail"; says: string; fix?: string };

const MARKS = { ok: "✓", warn: "!", fail: "✗" };

/** Looked at when it is asked for: a check of the database reads all of it. */
function Installation() {
  const [found, setFound] = useState<DoctorFinding[]>([]);
  return (
    <>
      <p class="links line">
        <Act act={async () => setFound((await get<{ checks: DoctorFinding[] }>("/api/doctor")).checks)}>
          Check the installation
        </Act>
        <span class="aside">
          The same as <code>hermes doctor</code>.
        </span>
      </p>
      <ul class="findings" aria-label="Findings">
        {found.map(({ check, status, says, fix }) => (
          <li key={check + says} class={`${status} long`}>
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

const Figure = ({ name, value }: { name: string; value: string | number }) => (
  <div>
    <dt class="soft small">{name}</dt>
    <dd>{value}</dd>
  </div>
);
