// The types of the policy. Everything here is data; docs/policy.md explains it for users.

export type PolicyVerdict = "allow" | "ask" | "deny";
/** `manual` asks a person; `off` asks nobody and still refuses what is refused in every mode. */
export type ApprovalMode = "manual" | "off";

/** Sentences for a person, each with the part of the command it is about. */
type Reason = { reason: string; text: string };
/** `reason` and `part`: what decided. `parts`: everything that has to be asked about, the deciding one first. */
export type Judgement = { verdict: PolicyVerdict; reason: string; part: string; parts: Reason[]; hardline: boolean };

/** Where the command would run, as far as it is known. */
export type CommandPlace = {
  cwd?: string | undefined;
  home?: string | undefined;
  /** In a sandbox that reaches no other machine. */
  sealed?: boolean | undefined;
};

/** Anything larger is not checked, and asks. */
export const LIMITS = { length: 64_000, depth: 40, commands: 500, words: 5_000, parts: 500, reading: 300_000 };

/** One word of a command, as far as it is known before it runs. */
export type Arg = {
  /** As it was written. */
  source: string;
  /** Always exactly this one word; null if only the shell knows. */
  value: string | null;
  /** No program can take it for an option, whatever it becomes. */
  operand: boolean;
  /** The beginning of every word that it may become; `~` stands for a home directory. */
  prefix: string;
  /** It may become no word, or several. */
  many: boolean;
};

/** Something that cannot be proven harmless. `unproven`: it may have effects, which a sandbox would contain.
 *  `unclear`: its effects cannot be determined from here, so a sandbox does not help. `unreadable`: the text itself
 *  is not understood. */
export type Doubt = { level: "unproven" | "unclear" | "unreadable"; reason: string; source: string };
