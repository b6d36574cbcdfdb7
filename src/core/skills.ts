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
  /** They were changed: the next call sees it. */
  lookAgain(): void;
};
/** The skills in HERMES_HOME, to change. All throw an error that says what is wrong. */
export type OwnSkills = {
  /** Whether it is one of them. */
  has(skill: Skill): Promise<boolean>;
  add(name: string, text: string): Promise<void>;
  change(skill: Skill, text: string): Promise<void>;
  /** With its folder. */
  remove(skill: Skill): Promise<void>;
};
/** The workspaces whose skills the user trusts, by their real paths. */
export type SkillTrust = {
  /** Throws an error that says what to do if the file cannot be trusted. */
  list(): Promise<string[]>;
  /** Returns the real path that is now trusted. */
  add(dir: string): Promise<string>;
  /** Returns false if the directory was not trusted. */
  remove(dir: string): Promise<boolean>;
};
