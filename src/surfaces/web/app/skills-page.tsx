// What the agent can look up: folders with a description of how to do something. Those in HERMES_HOME can be changed here.
import { useState } from "preact/hooks";
import { Markdown } from "./markdown.tsx";
import { Act, Delete, EditButtons, Empty, Page, Row, Section, TextArea, useRoute } from "./page.tsx";
import { patch, post } from "./server.ts";

type ShownSkill = { name: string; description: string; source: "user" | "workspace"; own: boolean };
type TrustedWorkspaces = { trusted: string[]; workspace: string; notes: string[] };

const pathOf = (name: string) => `/v1/skills/${encodeURIComponent(name)}`;

export function SkillsPage() {
  const skills = useRoute<{ data: ShownSkill[] }>("/v1/skills");
  const trust = useRoute<TrustedWorkspaces>("/api/skill-trust");
  const again = () => {
    skills.again();
    trust.again();
  };
  return (
    <Page
      title="Skills"
      about="What the agent can look up. They are folders in HERMES_HOME/skills, and in workspaces that you trust."
    >
      <section aria-label="Skills">
        {skills.error && <p class="error">{skills.error}</p>}
        {skills.value?.data.map((skill) => (
          <SkillRow key={skill.name} skill={skill} again={again} />
        ))}
        {skills.value?.data.length === 0 && <Empty>There are no skills yet. Write the first one below.</Empty>}
        {trust.value?.notes.map((note) => (
          <p key={note} class="aside">
            {note}
          </p>
        ))}
      </section>
      <NewSkill again={again} />
      {trust.value && <Workspaces trust={trust.value} again={again} />}
    </Page>
  );
}

type AgainProps = { again(): void };

function SkillRow({ skill, again }: { skill: ShownSkill } & AgainProps) {
  const [open, setOpen] = useState(false);
  return (
    <details class="row skill" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b>{skill.name}</b> <span class="tag soft">{skill.source === "user" ? "yours" : "workspace"}</span>
        <p class="soft">{skill.description}</p>
      </summary>
      {open && <SkillText skill={skill} again={again} />}
    </details>
  );
}

function SkillText({ skill: { name, own }, again }: { skill: ShownSkill } & AgainProps) {
  const read = useRoute<{ text: string; files: string[] }>(pathOf(name));
  const [edited, setEdited] = useState<string | null>(null);
  if (!read.value) return read.error ? <p class="error">{read.error}</p> : null;
  const { text, files } = read.value;
  const save = async () => {
    await patch(pathOf(name), { text: edited, was: text });
    read.again();
    again();
  };
  return (
    <>
      {edited === null ? (
        <Markdown text={text.replace(FRONT_MATTER, "")} />
      ) : (
        <TextArea rows={16} class="source" label={`Text of ${name}`} value={edited} set={setEdited} />
      )}
      {files.length > 0 && <p class="aside">Other files of its folder: {files.join(", ")}</p>}
      {own && (
        <p class="links line">
          <EditButtons text={text} edited={edited} setEdited={setEdited} save={save} />
          <Delete path={pathOf(name)} again={again} label={`Remove ${name}`}>
            {files.length ? "Remove with its files" : "Remove"}
          </Delete>
        </p>
      )}
    </>
  );
}

/** Its name and description are in the list already. */
const FRONT_MATTER = /^\ufeff?---[ \t]*\r?\n[^]*?\r?\n---[ \t]*(?:\r?\n|$)/;

function NewSkill({ again }: AgainProps) {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const add = async () => {
    await post("/v1/skills", { name, text });
    setName("");
    setText("");
    again();
  };
  return (
    <Section title="New skill">
      <div class="form wrap grow">
        <input
          aria-label="Name"
          placeholder="name-of-the-skill"
          value={name}
          onInput={(event) => setName(event.currentTarget.value.trim().toLowerCase())}
        />
        <TextArea
          rows={5}
          class="source"
          label="Text"
          placeholder="When to use it, in the first paragraph. Then how to do it."
          value={text}
          set={setText}
        />
        <Act kind="primary" act={add} disabled={!name || !text.trim()}>
          Add
        </Act>
      </div>
    </Section>
  );
}

function Workspaces({ trust: { trusted, workspace }, again }: { trust: TrustedWorkspaces } & AgainProps) {
  const change = (dir: string, isTrusted: boolean) =>
    post("/api/skill-trust", { dir, trusted: isTrusted }).finally(again);
  const all = trusted.includes(workspace) ? trusted : [workspace, ...trusted];
  return (
    <Section title="Workspaces">
      {all.map((dir) => (
        <Row
          key={dir}
          name={dir}
          about={
            trusted.includes(dir)
              ? "Its skills are used, including those added later."
              : "The workspace of this server. Its skills are not used: whoever can write there could change them."
          }
        >
          {trusted.includes(dir) ? (
            <Act act={() => change(dir, false)} label={`No longer trust ${dir}`}>
              No longer trust
            </Act>
          ) : (
            <Act asks act={() => change(dir, true)} label={`Trust ${dir}`}>
              Trust
            </Act>
          )}
        </Row>
      ))}
    </Section>
  );
}
