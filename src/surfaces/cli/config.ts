// hermes config: shows settings, and changes config.yaml only to what loads.
import { readFileSync, rmSync } from "node:fs";
import { parseDocument } from "yaml";
import { ConfigError } from "../../core/errors.ts";
import { runEditor } from "../../platform/editor.ts";
import { type Home, makeHome } from "../../platform/home.ts";
import { readText } from "./answers.ts";
import { editPath, writePrivate } from "./files.ts";

export type ShownSetting = { key: string; value: string; from: string };
type ConfigDesk = {
  home: Home;
  /** The configuration with these texts in the place of its files; throws a ConfigError. */
  look(drafts?: ReadonlyMap<string, string>): {
    config: unknown;
    settings: readonly ShownSetting[];
  };
  /** Null: there is no such key. */
  pathOfKey(key: string): readonly string[] | null;
  at(tree: unknown, path: readonly string[]): unknown;
  /** The value as JSON; not if it is secret. */
  shown(key: string, value: unknown): string;
  /** What may have been meant by an unknown key. */
  hint(path: readonly string[]): string;
  print(text: string): Promise<void>;
  complain(line: string): void;
};

const EMPTY = "# Settings of hermes; all keys are in docs/configuration.md.\n";

/** Prints the settings that are not the default. */
export async function listSettings({ look, print }: ConfigDesk): Promise<number> {
  const { settings } = look();
  await print(settings.map(settingLine).join("") || "All settings have their defaults.\n");
  return 0;
}

const settingLine = ({ key, value, from }: ShownSetting): string => `${key} = ${value}  (${from})\n`;

export async function getSetting(desk: ConfigDesk, key: string): Promise<number> {
  const path = desk.pathOfKey(key);
  if (!path) return unknown(desk, key);
  const { config, settings } = desk.look();
  // A section is shown value by value, because a value in it may be secret.
  const below = settings.filter((setting) => setting.key.startsWith(`${key}.`));
  if (below.length) {
    await desk.print(below.map(settingLine).join(""));
    return 0;
  }
  const value = desk.at(config, path);
  if (value === undefined || value === null) {
    desk.complain(`${key} is not set.`);
    return 1;
  }
  const shown = desk.shown(key, value);
  await desk.print(`${typeof value === "string" && shown === JSON.stringify(value) ? value : shown}\n`);
  return 0;
}

export async function setSetting(desk: ConfigDesk, key: string, text: string): Promise<number> {
  const { home, look, print, complain } = desk;
  const path = desk.pathOfKey(key);
  if (!path) return unknown(desk, key);
  const draftWith = (value: unknown) => editPath(readText(home.config), path, value);
  const loads = (draft: string) => look(new Map([[home.config, draft]]));
  const value = valueOf(text);
  let draft = draftWith(value);
  try {
    loads(draft);
  } catch (error) {
    // A model may be called 4: what reads as a number is text where text is wanted.
    if (!(error instanceof ConfigError)) throw error;
    draft = draftWith(text);
    if (typeof value === "string" || problemOf(desk, draft) !== null)
      throw new ConfigError(`${error.message}\nNothing was changed.`);
  }
  makeHome(home);
  if (draft !== readText(home.config)) writePrivate(home.config, draft);
  const inForce = loads(draft).settings.find((setting) => setting.key === key);
  await print(`Set ${key} in ${home.config}\n`);
  if (inForce && !inForce.from.startsWith(home.config)) complain(`${inForce.from} overrides this setting.`);
  return 0;
}

export async function unsetSetting(desk: ConfigDesk, key: string): Promise<number> {
  const { home, look, print, complain } = desk;
  const path = desk.pathOfKey(key);
  if (!path) return unknown(desk, key);
  const before = readText(home.config);
  const draft = editPath(before, path, undefined);
  if (draft === before) {
    complain(`${key} is not set in ${home.config}.`);
    return 1;
  }
  look(new Map([[home.config, draft]]));
  writePrivate(home.config, draft);
  await print(`Removed ${key} from ${home.config}\n`);
  return 0;
}

/** Only a file that loads is kept, unless the person says so. */
export async function editConfig(desk: ConfigDesk, editor: string): Promise<number> {
  const { home, print, complain } = desk;
  makeHome(home);
  const before = readText(home.config);
  const file = `${home.config}.draft.yaml`;
  writePrivate(file, before || EMPTY);
  try {
    for (;;) {
      const code = await runEditor(editor, file);
      const text = readFileSync(file, "utf8");
      if (code !== 0) {
        complain(`The editor (${editor}) failed. Nothing was changed.`);
        return 1;
      }
      if (text === before || (!before && text === EMPTY)) {
        await print("Nothing was changed.\n");
        return 0;
      }
      const problem = problemOf(desk, text);
      const next = problem === null ? "keep" : await askAfter(problem);
      if (next === "again") continue;
      if (next === "discard") {
        await print("Nothing was changed.\n");
        return 78;
      }
      writePrivate(home.config, text);
      await print(`Wrote ${home.config}\n`);
      return 0;
    }
  } finally {
    rmSync(file, { force: true });
  }

  async function askAfter(problem: string): Promise<"again" | "keep" | "discard"> {
    for (const line of problem.split("\n")) complain(line);
    if (!process.stdin.isTTY || !process.stdout.isTTY) return "discard";
    const { isCancel, select } = await import("@clack/prompts");
    const next = await select({
      message: "hermes cannot start with this file. What now?",
      options: [
        { value: "again" as const, label: "Edit again" },
        { value: "discard" as const, label: "Discard the changes" },
        { value: "keep" as const, label: "Keep the file anyway" },
      ],
    });
    return isCancel(next) ? "discard" : next;
  }
}

/** Why hermes could not start with this text in config.yaml; null: it could. */
function problemOf({ home, look }: ConfigDesk, text: string): string | null {
  try {
    look(new Map([[home.config, text]]));
    return null;
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
}

/** Text that is not YAML stands for itself. */
function valueOf(text: string): unknown {
  // Discord's ids are larger than a double can hold.
  const document = parseDocument(text, { intAsBigInt: true });
  return document.errors.length || document.warnings.length ? text : (document.toJS() ?? "");
}

function unknown({ hint, complain }: ConfigDesk, key: string): number {
  complain(`${key} is not a known key; ${hint(key.split("."))}`);
  return 2;
}
