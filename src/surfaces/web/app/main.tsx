// The console: sign-in, the rail of pages, and the page that is open.
import { type FunctionComponent, render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { followChanges, nowState, trouble } from "./changes.ts";
import { ConversationPage } from "./conversation-page.tsx";
import { HealthPage } from "./health-page.tsx";
import { Icon } from "./icons.tsx";
import { MemoryPage } from "./memory-page.tsx";
import { notifyOf } from "./notify.ts";
import { NowPage } from "./now-page.tsx";
import { Alert, submits } from "./page.tsx";
import { PeoplePage } from "./people-page.tsx";
import { go, here, linkTo, type PageName } from "./route.ts";
import { SchedulesPage } from "./schedules-page.tsx";
import { isSignedIn, signIn, signOut, wordsOf } from "./server.ts";
import { SessionList } from "./session-list.tsx";
import { SkillsPage } from "./skills-page.tsx";
import { TurnPage } from "./turn-page.tsx";
import { UsagePage } from "./usage-page.tsx";

/** The pages of the rail. */
const RAIL: readonly { page: PageName; name: string; Open: FunctionComponent<{ id: string }> }[] = [
  { page: "now", name: "Now", Open: NowPage },
  { page: "conversations", name: "Talk", Open: TalkPage },
  { page: "schedules", name: "Schedules", Open: SchedulesPage },
  { page: "memory", name: "Memory", Open: MemoryPage },
  { page: "skills", name: "Skills", Open: SkillsPage },
  { page: "people", name: "People", Open: PeoplePage },
  { page: "usage", name: "Usage", Open: UsagePage },
  { page: "health", name: "Health", Open: HealthPage },
];

const DRAINING = "The server is about to restart. What runs may finish; new messages wait.";

function App() {
  return isSignedIn.value ? <Console /> : <SignInPage />;
}

function Console() {
  useEffect(() => {
    const leaving = new AbortController();
    followChanges(leaving.signal);
    return () => leaving.abort("left");
  }, []);
  const { page, id } = here.value;
  const Open = RAIL.find((row) => row.page === page)?.Open ?? TurnPage;
  const asks = nowState.value?.data.flatMap(({ status }) => status.asking).length ?? 0;
  useEffect(() => {
    if (nowState.value) notifyOf(nowState.value);
  }, [nowState.value]);
  return (
    <div class={`console on-${page} ${id ? "chosen" : ""}`}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>("main")?.focus())}
      >
        Skip to the content
      </a>
      <nav class="rail stack" aria-label="Pages">
        {RAIL.map(({ page: one, name }) => (
          <a
            key={one}
            class="stack"
            href={linkTo(one)}
            aria-current={one === (page === "turn" ? "conversations" : page) ? "page" : undefined}
          >
            <Icon name={one} />
            <span>{name}</span>
            {one === "now" && asks > 0 && <b class="badge">{asks}</b>}
          </a>
        ))}
        <span class="grow" />
        <button type="button" class="stack" onClick={() => void signOut()}>
          <Icon name="close" />
          <span>Sign out</span>
        </button>
      </nav>
      <main id="main" class="stack" tabIndex={-1}>
        {[trouble.value, nowState.value?.draining && DRAINING].map(
          (text) =>
            text && (
              <p key={text} class="banner" role="status">
                {text}
              </p>
            ),
        )}
        <Open id={id} />
      </main>
    </div>
  );
}

function TalkPage({ id }: { id: string }) {
  return (
    <div class="talk grow">
      <SessionList />
      <ConversationPage session={id} />
    </div>
  );
}

function SignInPage() {
  const [key, setKey] = useState("");
  const [error, setError] = useState("");
  const enter = async (given: Parameters<typeof signIn>[0]) => {
    try {
      await signIn(given);
    } catch (cause) {
      setError(wordsOf(cause));
    }
  };
  useEffect(() => {
    const [, code] = /^#sign-in=([\w-]+)$/.exec(location.hash) ?? [];
    if (!code) return;
    history.replaceState(null, "", location.pathname);
    go("conversations");
    void enter({ code });
  }, []);
  return (
    <main class="sign-in stack">
      <form class="stack" onSubmit={submits(() => enter({ key: key.trim() }))}>
        <h1>hermes</h1>
        <p class="soft">
          Run <code>hermes web</code> on the machine of the server to open this page signed in, or give the API key.
        </p>
        <input
          type="password"
          autocomplete="current-password"
          aria-label="API key"
          placeholder="API key"
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        {error && <Alert text={error} />}
        <button type="submit" class="primary" disabled={!key.trim()}>
          Sign in
        </button>
      </form>
    </main>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
