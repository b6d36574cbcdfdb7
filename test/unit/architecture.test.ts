// The rules of docs/ARCHITECTURE.md that a machine can see. Each rule is a function over one file's text,
// so that it is shown on a planted breach that the rule can fail.
import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import pkg from "../../package.json" with { type: "json" };

const root = fileURLToPath(new URL("../..", import.meta.url));
const files = globSync("src/**/*.{ts,tsx}", { cwd: root }).map((path) => ({
  path,
  source: readFileSync(join(root, path), "utf8"),
}));

type Rule = (path: string, source: string) => string[];
const breaches = (rule: Rule) => files.flatMap(({ path, source }) => rule(path, source));

describe("the source is a star around core", () => {
  it("draws no arrow between folders but those listed here; only main.ts, commands/ and compose/ import from everywhere", () => {
    expect(breaches(foreignImports)).toEqual([]);
  });

  it("has a core and an engine without clock, chance, network or process", () => {
    expect(breaches(impurities)).toEqual([]);
  });

  it("has no file of more than 500 lines", () => {
    expect(breaches(tooLong)).toEqual([]);
  });

  it("never looks away from a type", () => {
    expect(breaches(untyped)).toEqual([]);
  });

  it("builds and reads session keys in one file", () => {
    expect(breaches(handmadeKeys)).toEqual([]);
  });

  it("has no two types of one name, except that each file may have its own Options and Args", () => {
    expect(sharedNames(files)).toEqual([]);
  });

  it("measures how long something takes by monotonic time: the wall clock can be set", () => {
    expect(breaches(wallDurations)).toEqual([]);
    const measuring = new Set(files.filter(({ source }) => WALL_DURATION.test(codeOf(source))).map(({ path }) => path));
    expect(Object.keys(WALL_TIMES).filter((path) => !measuring.has(path))).toEqual([]);
  });

  it("never links signals with AbortSignal.any, which leaks on a long-lived one", () => {
    expect(breaches(leakySignals)).toEqual([]);
  });

  it("listens to aborts and races promises in core/wait.ts, and where a reason is listed here", () => {
    expect(breaches(handMadeWaits)).toEqual([]);
    const waiting = new Set(files.filter(({ source }) => waitsIn(source).length > 0).map(({ path }) => path));
    expect(Object.keys(WAITS).filter((path) => !waiting.has(path))).toEqual([]);
  });
});

describe("nothing outside the sandbox trusts a place that the agent may write", () => {
  it("opens files, starts programs and looks up names only in the modules that are listed here with their reason", () => {
    expect(breaches(unlistedDoors)).toEqual([]);
  });

  it("has no module in that list that does not need to be there", () => {
    const opening = new Set(files.filter(({ source }) => doorsIn(source).length > 0).map(({ path }) => path));
    expect(Object.keys(DOORS).filter((path) => !opening.has(path))).toEqual([]);
  });
});

describe("the rules can fail", () => {
  it.each([
    'import { readFile } from "node:fs/promises";',
    'import { type Dirent, openSync } from "node:fs";',
    'import fs from "node:fs";',
    'import * as fs from "fs";',
    'import { promises } from "fs";',
    'import { execFile } from "node:child_process";',
    'const { readFileSync } = await import("node:fs");',
    'export { readFile } from "fs/promises";',
    'import { DatabaseSync } from "node:sqlite";',
    'import { createRequire } from "node:module";',
    'const fs = process.getBuiltinModule("fs");',
    "const fs = process.binding(name);",
  ])("a file opened, or a program started, past the confined opener: %s", (source) => {
    expect(unlistedDoors("src/agent/act.ts", source)).toHaveLength(1);
    expect(unlistedDoors("src/surfaces/terminal/attachments.ts", source)).toHaveLength(1);
  });

  it("but not on types and constants", () => {
    const innocent = [
      'import type { Dirent } from "node:fs";',
      'import { constants } from "node:fs";',
      'import { type Stats, constants as flags } from "node:fs";',
      'import type { FileHandle } from "node:fs/promises";',
      'import { openFile } from "../platform/confined.ts";',
    ].join("\n");
    expect(unlistedDoors("src/agent/act.ts", innocent)).toEqual([]);
  });

  it.each([
    ["src/core/turn.ts", 'import { clock } from "../platform/clock.ts";'],
    ["src/core/turn.ts", 'import type { Engine } from "../engine/engine.ts";'],
    ["src/core/turn.ts", 'import { z } from "zod";'],
    ["src/core/turn.ts", 'import { createHash } from "node:crypto";'],
    ["src/engine/engine.ts", 'import { clock } from "../platform/clock.ts";'],
    ["src/engine/engine.ts", 'import fs from "node:fs";'],
    ["src/store/sqlite/sqlite.ts", 'export { loadConfig } from "../../config/config.ts";'],
    ["src/conversation/choice.ts", 'import { createEngine } from "../engine/engine.ts";'],
    ["src/policy/judge.ts", 'import { openExec } from "../tools/shell/exec.ts";'],
    ["src/agent/act.ts", 'import { undo } from "../conversation/rewind.ts";'],
    ["src/agent/act.ts", "const tools = await import(`../tools/${name}.ts`);"],
    ["src/agent/act.ts", 'const tools = await import("../tools/exec.ts");'],
    ["src/surfaces/terminal/talk.ts", 'import "../http/server.ts";'],
    ["src/surfaces/terminal/talk.ts", 'import { createEngine } from "../../engine/engine.ts";'],
    ["src/platform/log.ts", 'import {\n  loadConfig,\n} from "../config/config.ts";'],
    ["src/surfaces/gateway/commands.ts", 'import { addChat } from "../../commands/chat.ts";'],
    ["src/surfaces/commands/chat.ts", 'import { openRuntime } from "../../compose/runtime.ts";'],
    ["src/helpers.ts", "export const help = 1;"],
  ])("a foreign import: %s: %s", (path, source) => {
    expect(foreignImports(path, source)).toHaveLength(1);
  });

  it.each([
    "const now = Date.now();",
    "const at = new Date();",
    "const id = `run_${Math.random()}`;",
    "const nested = `${`${Date.now()}`}`;",
    "setTimeout(() => {}, 5);",
    "await fetch(url);",
    'if (process.env.DEBUG) log("x");',
    "const id = crypto.randomUUID();",
    "const id = randomUUID();",
    "const signal = AbortSignal.timeout(5);",
    'const quote = /["`]/; const now = Date.now(); const other = "`";',
    "const share = total / 2; const now = Date.now() / 2;",
    "globalThis.setTimeout(later);",
  ])("an impurity: %s", (source) => {
    expect(impurities("src/engine/engine.ts", source)).toHaveLength(1);
  });

  it.each(["if (clock.now() - began > LIMIT_MS) return;", "await clock.sleep(until - clock.now());"])(
    "a duration by the wall clock: %s",
    (source) => {
      expect(wallDurations("src/agent/breaker.ts", source)).toHaveLength(1);
    },
  );

  it.each(["const a = b as any;", "const f = (x: any) => x;", "const m = new Map<string, any>();", "// @ts-ignore"])(
    "a way around the types: %s",
    (source) => {
      expect(untyped("src/core/turn.ts", source)).toHaveLength(1);
    },
  );

  it.each([
    'session.startsWith("agent:main:webhook:")',
    "const key = `agent:main:${id}`;",
    "`${session}/child/${turn}`",
  ])("a session key made by hand: %s", (source) => {
    expect(handmadeKeys("src/tools/delegate.ts", source)).toHaveLength(1);
  });

  it("two types of one name", () => {
    const declares = (path: string, name: string) => ({ path, source: `export type ${name} = 1;\n` });
    const two = [declares("src/core/turn.ts", "Place"), declares("src/tools/box.ts", "Place")];
    expect(sharedNames(two)).toHaveLength(1);
    expect(
      sharedNames([declares("src/core/run.ts", "RunStatus"), declares("src/client/client.ts", "RunStatus")]),
    ).toEqual([]);
  });

  it("a file too long, a leaking signal", () => {
    expect(tooLong("src/core/turn.ts", "\n".repeat(501))).toHaveLength(1);
    expect(leakySignals("src/llm/call.ts", "AbortSignal.any([a, b])")).toHaveLength(1);
  });

  it.each([
    'signal.addEventListener("abort", stop);',
    "signal?.addEventListener(\n  'abort', stop, { once: true });",
    "signal.onabort = stop;",
    "addAbortListener(signal, stop);",
    'await once(signal, "abort");',
    "await Promise.race([work, late]);",
    "await Promise\n  .race(all);",
  ])("a wait made by hand: %s", (source) => {
    expect(handMadeWaits("src/tools/todo.ts", source)).toHaveLength(1);
    expect(handMadeWaits("src/core/wait.ts", source)).toEqual([]);
  });

  it("but not on words in comments, strings, templates, patterns, or names of members", () => {
    const innocent = [
      "// Date.now() and setTimeout are not for us",
      "/* fetch, process: any */",
      'const text = "Date.now() as any"; const other = \'process "crypto"\';',
      "const said = `process ${name} fetch`;",
      "const found = /fetch|process/.test(text);",
      "const at = clock.fetch(row.process, this.crypto);",
      'import { createHash } from "node:crypto";',
      'import type { Session } from "../core/session.ts";',
      'import { reconcile } from "./inflight.ts";',
      'const text = \'import x from "../store/sqlite.ts"\'; const list = Array.from("ab");',
    ].join("\n");
    expect(impurities("src/engine/engine.ts", innocent)).toEqual([]);
    expect(foreignImports("src/engine/engine.ts", innocent)).toEqual([]);
    expect(untyped("src/engine/engine.ts", innocent)).toEqual([]);
    expect(impurities("src/platform/clock.ts", "Date.now()")).toEqual([]);
  });
});

describe("what is installed", () => {
  it("has exact versions only", () => {
    const loose = Object.entries({ ...pkg.dependencies, ...pkg.optionalDependencies, ...pkg.devDependencies }).filter(
      ([, version]) => !/^\d+\.\d+\.\d+(-beta\.\d+)?$/.test(version),
    );
    expect(loose).toEqual([]);
  });

  it("brings only what cannot be bundled: all else is in devDependencies, and in dist/", () => {
    expect(Object.keys(pkg.dependencies)).toEqual(["@vscode/ripgrep"]);
    expect(Object.keys(pkg.optionalDependencies).filter((name) => !name.startsWith("node-"))).toEqual([]);
  });

  it("runs no script while somebody installs the package: npm would ask about it", () => {
    expect(Object.keys(pkg.scripts).filter((name) => /^(?:pre|post)?install$|^prepare$/.test(name))).toEqual([]);
    // Those for development are not installed with the package.
    const scripted = Object.entries<{ dev?: boolean; hasInstallScript?: boolean }>(
      JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")).packages,
    ).filter(([, { dev, hasInstallScript }]) => hasInstallScript && !dev);
    expect(scripted).toEqual([]);
  });
});

// ── The rules ────────────────────────────────────────────────────────────────────────────────────────

/** What a folder may import beside itself, if that is not core and platform alone. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  engine: ["core"],
  surfaces: ["core", "platform", "conversation"],
  // The console is a page over the API: its routes are rows of the API's table, its page uses the client.
  "surfaces/web": ["core", "platform", "conversation", "client", "surfaces/http"],
  schedule: ["core", "platform", "conversation"],
  tools: ["core", "platform", "conversation", "policy"],
  config: ["core", "platform", "chats"], // each channel brings its own section
};

function foreignImports(path: string, source: string): string[] {
  const folder = folderOf(path);
  if (path === "src/main.ts" || folder === "src/commands" || folder === "src/compose") return [];
  if (folder === "src") return [`${path}: only main.ts lives in src itself`];
  const pure = folder === "src/core" || folder === "src/engine";
  const [, top = "", room = ""] = path.split("/");
  const others = ARROWS[`${top}/${room}`] ?? ARROWS[top] ?? ["core", "platform"];
  const allowed = new Set([folder, ...others.map((name) => `src/${name}`)]);
  return importsOf(source)
    .filter((name) => {
      if (name === "(computed)") return true;
      if (name.startsWith(".")) return !allowed.has(folderOf(normalize(join(dirname(path), name))));
      return pure && !(folder === "src/engine" && name === "node:crypto");
    })
    .map((name) => `${path} imports ${name}`);
}

function impurities(path: string, source: string): string[] {
  if (!/^src\/(core|engine)\//.test(path)) return [];
  const worldly =
    /(?<![.\w$])(?:Date|setTimeout|setInterval|setImmediate|queueMicrotask|fetch|process|performance|crypto|require|globalThis|Math\.random|AbortSignal\.timeout|random(?:UUID|Bytes|Int|FillSync))\b/g;
  return [...codeOf(source).matchAll(worldly)].map(([word]) => `${path} uses ${word}`);
}

/** Who may open files by path or start programs, and why that trusts nothing that the agent may have put there. Anybody else
 *  uses `platform/confined.ts`, `platform/programs.ts` or `tools/exec.ts`. */
const DOORS: Readonly<Record<string, string>> = {
  // The doors themselves.
  "src/platform/confined.ts": "the confined opener",
  "src/platform/programs.ts": "finds programs in the directories of the system, without opening anything",
  "src/tools/shell/exec.ts": "the one door for processes of tools: inside the sandbox, or asked about",
  "src/tools/mcp/stdio.ts": "programs that the user configured, in a directory of ours or a sandbox",
  // File tools: by paths below a directory that the confined opener has opened, or only to find where a path leads.
  "src/tools/files/store.ts": "writes below an open directory",
  "src/tools/files/confine.ts": "looks at paths without opening anything",
  // HERMES_HOME and other places of the user's that the agent can never write.
  "src/skills/trust.ts": "HERMES_HOME",
  "src/skills/own.ts": "HERMES_HOME",
  "src/tools/mcp/auth.ts": "HERMES_HOME",
  "src/config/config.ts": "HERMES_HOME",
  "src/platform/home.ts": "HERMES_HOME",
  "src/platform/logfile.ts": "HERMES_HOME",
  "src/platform/session-dirs.ts": "HERMES_HOME",
  "src/platform/token-lock.ts": "a directory of the user's that is checked first",
  "src/compose/api.ts": "HERMES_HOME",
  "src/compose/gateway.ts": "HERMES_HOME",
  "src/compose/store.ts": "HERMES_HOME",
  "src/memory/notebook.ts": "HERMES_HOME",
  "src/store/sqlite/backup.ts": "HERMES_HOME, and a file that the user names",
  "src/commands/import.ts": "HERMES_HOME",
  "src/commands/chat.ts": "a file that the user named",
  "src/commands/send.ts": "a file that the user named",
  "src/import/database.ts": "the home of another program, which the user named, and a copy in HERMES_HOME",
  "src/import/home.ts": "the home of another program, which the user named",
  "src/import/import.ts": "the home of another program, which the user named",
  "src/store/sqlite/file.ts": "HERMES_HOME",
  "src/store/sqlite/restore.ts": "HERMES_HOME, and a file that the user names",
  "src/store/sqlite/sqlite-worker.ts": "HERMES_HOME",
  "src/surfaces/cli/files.ts": "HERMES_HOME",
  "src/surfaces/cli/config.ts": "HERMES_HOME",
  "src/surfaces/cli/doctor.ts": "HERMES_HOME",
  "src/surfaces/cli/logs.ts": "HERMES_HOME",
  "src/surfaces/cli/gateway.ts": "the user's own systemd units",
  "src/surfaces/http/server/key.ts": "HERMES_HOME",
  "src/surfaces/gateway/attachments.ts": "HERMES_HOME",
  "src/tools/voice/transcribe.ts": "HERMES_HOME, where attachments are",
  "src/surfaces/terminal/history.ts": "HERMES_HOME",
  "src/surfaces/terminal/draft-file.ts": "HERMES_HOME",
  "src/surfaces/terminal/clipboard.ts": "HERMES_HOME, and the desktop's own programs for its clipboard",
  "src/platform/editor.ts": "the editor that the user has named",
  "src/policy/home-policy.ts": "HERMES_HOME",
  "src/tools/sandbox/kept-hosts.ts": "HERMES_HOME",
  "src/tools/todo.ts": "HERMES_HOME",
  "src/tools/shell/session-dirs.ts": "HERMES_HOME",
  "src/tools/shell/output.ts": "HERMES_HOME",
  // What only looks, or what belongs to the system.
  "src/surfaces/cli/answers.ts": "the terminal and its standard input",
  "src/surfaces/terminal/run.ts": "its standard input",
  "src/platform/handed-secrets.ts": "a descriptor that our launcher opened",
  "src/tools/shell/env.ts": "/proc and HERMES_HOME, without opening anything",
  "src/tools/sandbox/sandbox.ts": "looks at paths without opening anything",
  "src/tools/shell/terminal.ts": "looks at directories without opening anything",
  "src/tools/snapshots/work-tree.ts": "makes the directory below HERMES_HOME in which git works, inside the sandbox",
  "src/tools/sandbox/repos.ts": "looks at names and links; what is in a file it reads by the confined opener",
  "src/tools/shell/tree.ts": "/proc",
  "src/tools/shell/limits.ts": "/proc",
  "src/tools/sandbox/netns.ts": "/proc",
  "src/tools/shell/pipes.ts": "pipes in a directory of our own that nobody else may enter",
  "src/surfaces/web/files.ts": "the console as it was built with this program",
  // Programs of the system, by their absolute paths.
  "src/tools/sandbox/networks.ts": "nsenter, with this program's own Node in /",
  "src/surfaces/gateway/service.ts": "systemd-notify",
  "src/tools/shell/watcher.ts": "/bin/sh, which ends the tools of a node that was killed",
  "src/surfaces/cli/web.ts": "HERMES_HOME, and the system's way to open a browser",
  "src/surfaces/gateway/lifecycle.ts": "/bin/sh, which starts this program again",
};

function unlistedDoors(path: string, source: string): string[] {
  return path in DOORS ? [] : doorsIn(source).map((name) => `${path} uses ${name}`);
}

/** Each way to open a file or to start a program that is not one of ours; types and constants are none. */
function doorsIn(source: string): string[] {
  const { code, strings } = scan(source);
  const opening = /^(?:node:)?(?:fs|fs\/promises|child_process|cluster|module|sqlite)$/;
  const named = /\b(?:import|export)\s+(type\s+)?([\w*${},\s]*?)\s*\bfrom\s*"(\d+)"|\bimport\s*(?:\(\s*)?"(\d+)"/g;
  const imports = [...code.matchAll(named)].flatMap(([, type, names = "", from, direct]) => {
    const module = strings[Number(from ?? direct)] ?? "";
    if (!opening.test(module) || type) return [];
    const list = /^\{(.*)\}$/s.exec(names.trim())?.[1]?.split(",") ?? ["all of it"];
    const opens = list.map((name) => name.trim()).filter((name) => name && !/^(?:type\s|constants\b)/.test(name));
    return opens.length > 0 ? [`${opens.join(", ")} of ${module}`] : [];
  });
  const others = code.match(/\bprocess\s*\.\s*(?:binding|dlopen|getBuiltinModule)\b/g) ?? [];
  return [...imports, ...others];
}

function tooLong(path: string, source: string): string[] {
  const lines = source.split("\n").length - 1;
  return lines > 500 ? [`${path} has ${lines} lines`] : [];
}

/** The client is a package of its own: its users know the API's names. */
function sharedNames(sources: readonly { path: string; source: string }[]): string[] {
  const homes = new Map<string, string[]>();
  for (const { path, source } of sources)
    if (!path.startsWith("src/client/"))
      for (const [, name = ""] of codeOf(source).matchAll(/^(?:export )?(?:type|interface) (\w+)/gm))
        homes.set(name, [...(homes.get(name) ?? []), path]);
  return [...homes].flatMap(([name, paths]) =>
    paths.length > 1 && name !== "Options" && name !== "Args" ? [`${name}: ${paths.join(", ")}`] : [],
  );
}

function untyped(path: string, source: string): string[] {
  const casts = codeOf(source).match(/(?:\bas|[:<,|&])\s*any\b(?!\s*[:(])/g) ?? [];
  const pragmas = source.match(/@ts-(?:ignore|nocheck|expect-error)/g) ?? [];
  return [...casts, ...pragmas].map((found) => `${path} has ${found}`);
}

function handmadeKeys(path: string, source: string): string[] {
  if (path === "src/core/session-key.ts") return [];
  const found = source.match(/["'`]agent:|(?<!^\s*(?:\/\/|\*).*)\/child\//gm) ?? [];
  return found.map((part) => `${path} has ${part}`);
}

const WALL_DURATION = /\bclock\.now\(\) - |- clock\.now\(\)/;
/** Who compares the wall clock with what, because that comes from the store or from another machine. */
const WALL_TIMES: Readonly<Record<string, string>> = {
  "src/agent/ask.ts": "the end of a question, in the journal",
  "src/chats/telegram/telegram.ts": "Telegram's time of an error",
  "src/chats/webhook/webhook.ts": "the time that a sender has signed",
  "src/compose/runtime.ts": "the age of stored runs",
  "src/engine/dispatch.ts": "the last change of a stored session",
  "src/memory/sessions.ts": "the age of a stored session",
  "src/schedule/scheduler.ts": "times of jobs",
  "src/schedule/goals.ts": "the age of a goal that was reached",
  "src/tools/background-children.ts": "when a child is to end, in its note",
  "src/surfaces/gateway/access.ts": "times in notes",
  "src/surfaces/gateway/gateway.ts": "the age of notes",
  "src/surfaces/http/runs/retries.ts": "the last change of a stored run",
  "src/surfaces/http/runtime/usage.ts": "the age of stored turns",
  "src/surfaces/http/server/info.ts": "the age of stored inputs",
  "src/surfaces/http/server/metrics.ts": "the age of stored inputs",
  "src/surfaces/webhooks/webhooks.ts": "when a stored announcement is due",
};

function wallDurations(path: string, source: string): string[] {
  return WALL_DURATION.test(codeOf(source)) && !(path in WALL_TIMES) ? [`${path} measures by the wall clock`] : [];
}

function leakySignals(path: string, source: string): string[] {
  return codeOf(source).includes("AbortSignal.any") ? [`${path} uses AbortSignal.any`] : [];
}

/** Who may listen to aborts or race promises, and for what. Anybody else uses `core/wait.ts`, where no listener, no timer and no
 *  rejection is left behind. */
const WAITS: Readonly<Record<string, string>> = {
  "src/core/wait.ts": "the one place",
  "src/engine/line.ts": "a change, or its refusal while the store is away",
  "src/agent/watchdog.ts": "a model call, or its silence",
  "src/tools/shell/exec.ts": "the exit of a process, or that nothing of it is alive",
  "src/tools/sandbox/netns.ts": "the first line of a process, or its end",
  "src/surfaces/terminal/open.ts": "the end of a talk, or an error that nobody caught",
  "src/surfaces/terminal/run.ts": "the end of a turn, or an error that nobody caught",
};

function handMadeWaits(path: string, source: string): string[] {
  return path in WAITS ? [] : waitsIn(source).map((found) => `${path} has ${found}`);
}

function waitsIn(source: string): string[] {
  const { code, strings } = scan(source);
  const heard = [...code.matchAll(/\b(?:addEventListener|on|once)\s*\([^()"]*"(\d+)"/g)]
    .filter(([, event]) => strings[Number(event)] === "abort")
    .map(() => "an abort listener");
  const others = code.match(/\.onabort\b|\baddAbortListener\b|\bPromise\s*\.\s*race\b/g) ?? [];
  return [...heard, ...others];
}

/** `src/core`, `src/surfaces/cli`: each surface is a folder of its own. */
function folderOf(path: string): string {
  const parts = dirname(path).split("/");
  return parts.slice(0, parts[1] === "surfaces" ? 3 : 2).join("/");
}

/** What is imported, re-exported or loaded on demand; a computed name counts as "(computed)". */
function importsOf(source: string): string[] {
  const { code, strings } = scan(source);
  const importing = /\bfrom\s*"(\d+)"|\bimport\s*(?:\(\s*)?"(\d+)"|\bimport\s*\(/g;
  return [...code.matchAll(importing)].map(([, from, direct]) => strings[Number(from ?? direct)] ?? "(computed)");
}

/** The source without comments and without what stands in strings, templates and patterns. */
function codeOf(source: string): string {
  return scan(source).code;
}

function scan(source: string): { code: string; strings: string[] } {
  const piece = new RegExp(
    [
      /\/\*[^]*?\*\/|\/\/[^\n]*/, // comment
      /(?<quoted>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')/,
      /(?<pattern>(?<=(?:^|[=(,:[!&|?{};\n]|=>|\breturn)\s*)\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/)/,
      /(?<mark>[`{}])/,
    ]
      .map((part) => part.source)
      .join("|"),
    "g",
  );
  const strings: string[] = [];
  let code = "";
  let from = 0;
  // Templates hold code in `${ }`, which holds templates: what we are in, innermost last.
  const inside: ("code" | "template")[] = ["code"];
  while (from < source.length) {
    if (inside.at(-1) === "template") {
      from += /^(?:\\.|\$(?!\{)|[^`\\$])*/s.exec(source.slice(from))?.[0].length ?? 0;
      const held = source.startsWith("${", from);
      if (held) inside.push("code");
      else inside.pop();
      code += held ? "${" : "`";
      from += held ? 2 : 1;
      continue;
    }
    piece.lastIndex = from;
    const found = piece.exec(source);
    code += source.slice(from, found?.index);
    from = found ? found.index + found[0].length : source.length;
    const { quoted, pattern, mark } = found?.groups ?? {};
    if (quoted !== undefined) code += `"${strings.push(quoted.slice(1, -1)) - 1}"`;
    if (pattern !== undefined) code += "//";
    if (mark !== undefined) code += mark;
    if (mark === "`") inside.push("template");
    if (mark === "{") inside.push("code");
    if (mark === "}" && inside.length > 1) inside.pop();
  }
  return { code, strings };
}
