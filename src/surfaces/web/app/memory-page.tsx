// What the agent remembers, by whose conversations it belongs to.
import { useState } from "preact/hooks";
import { changeCount } from "./changes.ts";
import { Act, EditButtons, Empty, Page, Section, useRoute } from "./page.tsx";
import { post } from "./server.ts";

type ShownMemory = { scope: string; target: "memory" | "user"; text: string };

const TARGETS = { memory: "Notes", user: "About you" };

export function MemoryPage() {
  const notes = useRoute<{ data: ShownMemory[] }>("/api/memory", changeCount.value);
  const byScope = Map.groupBy(notes.value?.data ?? [], ({ scope }) => scope);
  const change = (body: unknown) => post("/api/memory", body).finally(notes.again);
  return (
    <Page title="Memory" about="What the agent has noted for later. It reads these notes before each answer.">
      {notes.error && <p class="error">{notes.error}</p>}
      {[...byScope].map(([scope, some]) => (
        <section key={scope} aria-label={scope}>
          <h2 class="soft">{scope === "local" ? "Terminal and console" : scope}</h2>
          {some.map((note) => (
            <NoteRow key={`${note.target} ${note.text}`} note={note} change={change} />
          ))}
        </section>
      ))}
      {notes.value?.data.length === 0 && <Empty>There are no notes yet.</Empty>}
      <NewNote change={change} />
    </Page>
  );
}

type ChangeNotes = (body: unknown) => Promise<unknown>;

function NoteRow({ note: { scope, target, text }, change }: { note: ShownMemory; change: ChangeNotes }) {
  const [edited, setEdited] = useState<string | null>(null);
  const at = { scope, target, find: text };
  return (
    <article class="row line">
      <span class="tag soft">{TARGETS[target]}</span>
      {edited === null ? (
        <p class="what said">{text}</p>
      ) : (
        <textarea
          class="what"
          rows={3}
          aria-label="Text of the note"
          value={edited}
          onInput={(event) => setEdited(event.currentTarget.value)}
        />
      )}
      <EditButtons
        text={text}
        edited={edited}
        setEdited={setEdited}
        save={() => change({ ...at, action: "replace", text: edited })}
      />
      <Act kind="danger" asks act={() => change({ ...at, action: "remove" })} label={`Forget: ${text.slice(0, 60)}`}>
        Forget
      </Act>
    </article>
  );
}

function NewNote({ change }: { change: ChangeNotes }) {
  const [text, setText] = useState("");
  const [target, setTarget] = useState<ShownMemory["target"]>("memory");
  return (
    <Section title="New note">
      <div class="form wrap">
        <textarea
          rows={2}
          aria-label="New note"
          placeholder="Something to remember"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <select
          aria-label="Kind of note"
          value={target}
          onChange={(event) => setTarget(event.currentTarget.value === "user" ? "user" : "memory")}
        >
          {Object.entries(TARGETS).map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
        <Act
          kind="primary"
          disabled={!text.trim()}
          act={async () => {
            await change({ action: "add", target, text });
            setText("");
          }}
        >
          Remember
        </Act>
      </div>
    </Section>
  );
}
