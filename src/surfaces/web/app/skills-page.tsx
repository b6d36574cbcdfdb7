// What the agent can look up: folders with a description of how to do something.
import { useState } from "preact/hooks";
import { Markdown } from "./markdown.tsx";
import { Empty, Page, useRoute } from "./page.tsx";

type ShownSkill = { name: string; description: string; source: "user" | "workspace" };

export function SkillsPage() {
  const skills = useRoute<{ data: ShownSkill[] }>("/v1/skills");
  return (
    <Page
      title="Skills"
      about="What the agent can look up. They are folders in HERMES_HOME/skills, and in workspaces that you trust."
    >
      <section aria-label="Skills">
        {skills.error && <p class="error">{skills.error}</p>}
        {skills.value?.data.map((skill) => (
          <SkillRow key={skill.name} skill={skill} />
        ))}
        {skills.value?.data.length === 0 && <Empty>There are no skills yet.</Empty>}
      </section>
    </Page>
  );
}

function SkillRow({ skill: { name, description, source } }: { skill: ShownSkill }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="row skill" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <b>{name}</b> <span class="tag">{source}</span>
        <p>{description}</p>
      </summary>
      {open && <SkillText name={name} />}
    </details>
  );
}

function SkillText({ name }: { name: string }) {
  const { value, error } = useRoute<{ text: string; files: string[] }>(`/v1/skills/${encodeURIComponent(name)}`);
  if (error) return <p class="error">{error}</p>;
  return value ? (
    <>
      <Markdown text={value.text} />
      {value.files.length > 0 && <p class="aside">With {value.files.join(", ")}</p>}
    </>
  ) : null;
}
