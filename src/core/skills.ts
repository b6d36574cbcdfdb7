// The port `Skills`: folders that describe how to do something.

/** `folder`: its real path. A workspace's skills are data, the user's own are the user's word. */
export type Skill = { name: string; description: string; folder: string; origin: "user" | "workspace" };
export type SkillText = { skill: Skill; text: string; files: readonly string[] };
export type Skills = {
  /** For the system prompt; empty if there are no skills. */
  index(): Promise<string>;
  /** `notes`: for people, which skills were left out, and why. */
  list(): Promise<{ skills: readonly Skill[]; notes: readonly string[] }>;
  /** A file of the skill. Without `file`: SKILL.md, with the names of the other files. */
  view(name: string, file?: string): Promise<SkillText | { refused: string }>;
};
