// One conversation: its head, its transcript, what it asks, and the composer.
import { useEffect, useState } from "preact/hooks";
import { Composer } from "./composer.tsx";
import { type ConversationView, openConversation } from "./conversation.ts";
import { nameOf, short, sourceOf } from "./format.ts";
import { Icon, IconButton } from "./icons.tsx";
import { Markdown } from "./markdown.tsx";
import { Alert, Select } from "./page.tsx";
import { QuestionCard } from "./question.tsx";
import { go, linkTo } from "./route.ts";
import { runtime, wordsOf } from "./server.ts";
import { busyMode, exportTo, models, newSession, order, said, stop } from "./talk.ts";
import { Transcript } from "./transcript.tsx";

export function ConversationPage({ session }: { session: string }) {
  const [conversation, setConversation] = useState<ConversationView | null>(null);
  useEffect(() => {
    if (!session) return setConversation(null);
    const opened = openConversation(session, busyMode.value);
    setConversation(opened);
    return () => opened.close();
  }, [session]);
  if (!session) return <Start />;
  if (!conversation || conversation.session !== session) return <section class="conversation stack grow" />;
  return <OpenedConversation key={session} conversation={conversation} />;
}

const Start = () => (
  <section class="conversation stack grow start soft">
    <p>Choose a conversation, or</p>
    <button type="button" class="primary" onClick={() => go("conversations", newSession())}>
      begin a new one
    </button>
  </section>
);

function OpenedConversation({ conversation }: { conversation: ConversationView }) {
  const { session, facts, error, notice, announced, groups } = conversation;
  const note = said.value?.session === session ? said.value : null;
  const { asking = [], turn = null } = facts.value ?? {};
  const isEmpty = facts.value !== null && groups.value.length === 0;
  return (
    <section class="conversation stack grow">
      <Head conversation={conversation} />
      {error.value && <Alert text={error.value} />}
      <Transcript conversation={conversation} />
      {isEmpty && !turn && <p class="empty hint soft">Nothing is here yet. Write a message to begin.</p>}
      <div class="below">
        {note && (
          <div class={note.isError ? "note error" : "note"} role="status">
            <Markdown text={note.text} />
            <IconButton icon="close" label="Close" onClick={() => (said.value = null)} />
          </div>
        )}
        {notice.value && <p class="notice soft">{notice.value}</p>}
        {asking.map((question) => (
          <QuestionCard key={question.call} session={session} question={question} />
        ))}
        <Composer conversation={conversation} />
      </div>
      <p class="unseen" aria-live="polite">
        {announced.value}
      </p>
    </section>
  );
}

function Head({ conversation }: { conversation: ConversationView }) {
  const { session, facts, model } = conversation;
  const { title = "", turn = null, context = 0 } = facts.value ?? {};
  const isBegun = conversation.groups.value.length > 0;
  const [renaming, setRenaming] = useState(false);
  const rename = (text: string) => {
    setRenaming(false);
    if (text.trim() && text !== title) order(conversation, `/title ${text.trim()}`);
  };
  return (
    <header class="head line">
      <a class="quiet back soft" href={linkTo("conversations")} aria-label="Back to the list">
        <Icon name="back" />
      </a>
      {renaming ? (
        <input
          class="grow"
          aria-label="Title"
          ref={(element) => element?.focus()}
          defaultValue={title}
          onBlur={(event) => rename(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") rename(event.currentTarget.value);
            if (event.key === "Escape") setRenaming(false);
          }}
        />
      ) : (
        <h1 class="grow">
          <button type="button" class="quiet cut" title="Rename" onClick={() => setRenaming(true)}>
            {title || isBegun ? nameOf(session, title) : "New conversation"}
          </button>
        </h1>
      )}
      <span class="state line soft small">
        <span class="tag soft">{sourceOf(session)}</span>
        {turn && <span class="dot" role="img" aria-label="works" />}
        {context > 0 && (
          <span title="Tokens of the conversation when the model last saw it">{short(context)} tokens</span>
        )}
      </span>
      <ModelChoice conversation={conversation} chosen={model.value} />
      <Menu conversation={conversation} title={title} />
    </header>
  );
}

function ModelChoice({ conversation, chosen }: { conversation: ConversationView; chosen: string | undefined }) {
  const [[first = "default", ...others], setAll] = useState<readonly string[]>([]);
  useEffect(() => {
    models()
      .then(({ names }) => setAll(names))
      .catch(() => {});
  }, []);
  const known = chosen && !others.includes(chosen) ? [chosen, ...others] : others;
  return (
    <Select
      class="quiet model soft"
      label="Model"
      value={chosen ?? ""}
      set={(name) => order(conversation, `/model ${name || "default"}`)}
      names={[["", first], ...known.map((name) => [name, name])]}
    />
  );
}

function Menu({ conversation, title }: { conversation: ConversationView; title: string }) {
  const { session } = conversation;
  const [open, setOpen] = useState(false);
  const [sure, setSure] = useState(false);
  const close = () => {
    setOpen(false);
    setSure(false);
  };
  const item = (name: string, act: () => unknown, kind = "", leaves = close) => (
    <li>
      <button type="button" class={kind} onClick={() => (act(), leaves())}>
        {name}
      </button>
    </li>
  );
  const forget = async () => {
    const became = await runtime.forget(session).catch((cause: unknown) => wordsOf(cause));
    if (became === "forgotten" || became === "unknown") return go("conversations");
    const text = became === "busy" ? "It is at work: stop it first." : became;
    said.value = { session, text, isError: true };
  };
  return (
    <div
      class="menu"
      onKeyDown={(event) => event.key === "Escape" && close()}
      onFocusOut={(event) => {
        const { relatedTarget } = event;
        if (!(relatedTarget instanceof Node && event.currentTarget.contains(relatedTarget))) close();
      }}
    >
      <IconButton icon="more" label="More" aria-expanded={open} onClick={() => setOpen(!open)} />
      {open && (
        <ul class="options">
          {item("Retry the last message", () => order(conversation, "/retry"))}
          {item("Undo the last message", () => order(conversation, "/undo"))}
          {item("Roll back further…", () => order(conversation, "/rollback"))}
          {item("Branch from here", () => order(conversation, "/branch"))}
          {item("Summarise for the model", () => order(conversation, "/compress"))}
          {item("Export as Markdown", () => exportTo(session, title, false))}
          {item("Export as JSON", () => exportTo(session, title, true))}
          {item("Stop it and all it started", () => stop(conversation, "tree"), "danger")}
          {sure
            ? item("Delete for good", forget, "danger")
            : item(
                "Delete…",
                () => setSure(true),
                "danger",
                () => {},
              )}
        </ul>
      )}
    </div>
  );
}
