// The console: sign-in, the rail of pages, and the page that is open.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { followChanges, nowState, trouble } from "./changes.ts";
import { ConversationPage } from "./conversation-page.tsx";
import { HealthPage } from "./health-page.tsx";
import { Icon } from "./icons.tsx";
import { MemoryPage } from "./memory-page.tsx";
import { notifyOf } from "./notify.ts";
import { NowPage } from "./now-page.tsx";
import { PeoplePage } from "./people-page.tsx";
import { go, here, linkTo, type PageName } from "./route.ts";
import { SchedulesPage } from "./schedules-page.tsx";
import { isSignedIn, signIn, signOut, wordsOf } from "./server.ts";
import { SessionList } from "./session-list.tsx";
import { SkillsPage } from "./skills-page.tsx";
import { TurnPage } from "./turn-page.tsx";
import { UsagePage } from "./usage-page.tsx";

const RAIL: readonly { page: PageName; name: string }[] = [
  { page: "now", name: "Now" },
  { page: "conversations", name: "Talk" },
  { page: "schedules", name: "Schedules" },
  { page: "memory", name: "Memory" },
  { page: "skills", name: "Skills" },
  { page: "people", name: "People" },
  { page: "usage", name: "Usage" },
  { page: "health", name: "Health" },
];

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
      <nav class="rail" aria-label="Pages">
        {RAIL.map(({ page: one, name }) => (
          <a
            key={one}
            href={linkTo(one)}
            aria-current={one === (page === "turn" ? "conversations" : page) ? "page" : undefined}
          >
            <Icon name={one} />
            <span>{name}</span>
            {one === "now" && asks > 0 && <b class="badge">{asks}</b>}
          </a>
        ))}
        <span class="space" />
        <button type="button" onClick={() => void signOut()}>
          <Icon name="close" />
          <span>Sign out</span>
        </button>
      </nav>
      <main id="main" tabIndex={-1}>
        {trouble.value && (
          <p class="banner" role="status">
            {trouble.value}
          </p>
        )}
        {nowState.value?.draining && (
          <p class="banner" role="status">
            The server is about to restart. What runs may finish; new messages wait.
          </p>
        )}
        <OpenPage page={page} id={id} />
      </main>
    </div>
  );
}

function OpenPage({ page, id }: { page: PageName; id: string }) {
  switch (page) {
    case "now":
      return <NowPage />;
    case "turn":
      return <TurnPage id={id} />;
    case "schedules":
      return <SchedulesPage />;
    case "memory":
      return <MemoryPage />;
    case "skills":
      return <SkillsPage />;
    case "people":
      return <PeoplePage />;
    case "usage":
      return <UsagePage />;
    case "health":
      return <HealthPage />;
    case "conversations":
      return (
        <div class="talk">
          <SessionList />
          <ConversationPage session={id} />
        </div>
      );
  }
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
    <main class="sign-in">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void enter({ key: key.trim() });
        }}
      >
        <h1>hermes</h1>
        <p>
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
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <button type="submit" class="primary" disabled={!key.trim()}>
          Sign in
        </button>
      </form>
    </main>
  );
}

const root = document.getElementById("app");
if (root) render(<App />, root);
