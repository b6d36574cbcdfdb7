// What the agent remembers, by whose conversations it belongs to.
import { useState } from "preact/hooks";
import { changeCount } from "./changes.ts";
import { Act, EditButtons, Empty, Page, Section, Select, TextArea, useRoute } from "./page.tsx";
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
        <p class="what said grow">{text}</p>
      ) : (
        <TextArea rows={3} class="what grow" label="Text of the note" value={edited} set={setEdited} />
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
      <div class="form wrap grow">
        <TextArea rows={2} label="New note" placeholder="Something to remember" value={text} set={setText} />
        <Select
          label="Kind of note"
          value={target}
          set={(kind) => setTarget(kind === "user" ? "user" : "memory")}
          names={Object.entries(TARGETS)}
        />
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
