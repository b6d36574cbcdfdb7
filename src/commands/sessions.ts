// hermes sessions: lists, shows, exports and deletes conversations.
import type { Command } from "commander";
import type { Runtime } from "../core/runtime.ts";
import type { SessionPage, Store } from "../core/store.ts";
import { complain, EXIT, env, print, wholeNumber } from "./shared.ts";

const LONGEST_TITLE = 200;
const NAME = "a name from `hermes sessions`, a title, or a part of a title";

export function addSessions(program: Command): void {
  const sessions = program.command("sessions").description("list, show, export and delete conversations");
  sessions
    .command("list")
    .description("list conversations, newest first (the default)")
    .option("-n, --limit <count>", "number of conversations", wholeNumber, 20)
    .option("--json", "print JSON", false)
    .action(async ({ limit, json }: { limit: number; json: boolean }) => {
      const { listSessions } = await import("../surfaces/terminal/sessions.ts");
      const found = await onStore((store) => listSessions({ ...store, limit, json }));
      await print(found ?? (json ? "" : "There are no conversations yet.\n"));
    });
  sessions
    .command("show")
    .description("print a conversation as Markdown")
    .argument("<name>", NAME)
    .option("--json", "print JSON", false)
    .action(async (name: string, { json }: { json: boolean }) => {
      await print((await exported(name, json)).text);
    });
  sessions
    .command("rename")
    .description("give a conversation another title")
    .argument("<name>", NAME)
    .argument("<title...>", "the new title")
    .action(async (name: string, title: string[]) => {
      process.exitCode = await rename(name, title.join(" ").slice(0, LONGEST_TITLE));
    });
  sessions
    .command("export")
    .description("write a conversation to a new file; or all of them, as JSON lines, to a file.jsonl or - (stdout)")
    .argument("<name>", `${NAME}; or the file of all`)
    .argument("[file]", "the file to write; JSON if its name ends in .json, else Markdown (default: hermes-NAME.md)")
    .option("--json", "write JSON", false)
    .option("--session-id <name>", "as JSON lines: only this conversation")
    .action(async (name: string, file: string | undefined, options: { json: boolean; sessionId?: string }) => {
      if (file === undefined && (name === "-" || name.endsWith(".jsonl"))) return exportLines(name, options.sessionId);
      const { text, usualFile } = await exported(name, options.json || (file ?? "").endsWith(".json"));
      await write(file ?? usualFile, text);
    });
  sessions
    .command("delete")
    .description("delete a conversation with its attachments and snapshots")
    .argument("<name>", NAME)
    .option("-y, --yes", "do not ask", false)
    .action(async (name: string, { yes }: { yes: boolean }) => {
      process.exitCode = await remove(name, yes);
    });
}

/** Null: nothing was stored yet. */
async function onStore<T>(use: (store: Store) => Promise<T>): Promise<T | null> {
  const { readStore } = await import("../compose/store.ts");
  const store = await readStore(env);
  if (!store) return null;
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

async function exported(name: string, json: boolean): Promise<{ text: string; usualFile: string }> {
  const { findSession } = await import("../surfaces/terminal/find.ts");
  const { exportFile } = await import("../conversation/export.ts");
  const { entriesOf } = await import("../core/pages.ts");
  const found = await onStore(async ({ catalog, journal }) => {
    const key = await findSession(catalog, name);
    const title = (await catalog.summary(key))?.title ?? "";
    return exportFile({ key, title }, await entriesOf(journal, key), json, new Date());
  });
  if (!found) throw new Error("There are no conversations yet.");
  return found;
}

/** One conversation on a line, as Hermes writes them. */
async function exportLines(file: string, name: string | undefined): Promise<void> {
  const { findSession } = await import("../surfaces/terminal/find.ts");
  const { exportJson } = await import("../conversation/export.ts");
  const { entriesOf } = await import("../core/pages.ts");
  const lines = await onStore(async ({ catalog, journal }) => {
    const only = name === undefined ? null : await findSession(catalog, name);
    const found: string[] = [];
    for (let after: SessionPage["after"]; ; ) {
      const rows = await catalog.sessions({ limit: 200, ...(after && { after }) });
      for (const { session: key, title } of rows) {
        if (only !== null && key !== only) continue;
        const said: object = JSON.parse(exportJson({ key, title }, await entriesOf(journal, key), new Date()));
        found.push(`${JSON.stringify({ id: key, ...said })}\n`);
      }
      const last = rows.at(-1);
      if (!last) return found;
      after = last;
    }
  });
  const text = lines?.join("") ?? "";
  await (file === "-" ? print(text) : write(file, text));
}

async function write(file: string, text: string): Promise<void> {
  const { rootsOf, save } = await import("../surfaces/terminal/open.ts");
  const { settingsFor } = await import("../compose/settings.ts");
  await print(`Wrote ${await save(file, text, rootsOf(settingsFor(env, [])))}\n`);
}

/** Here, or in the process that owns this home. */
async function onRuntime(use: (runtime: Runtime) => Promise<number>): Promise<number> {
  const { openOrAttach } = await import("../compose/attach.ts");
  const running = await openOrAttach({ env, flags: [], logToStderr: false, mine: () => false });
  try {
    return await use(running.engine);
  } finally {
    await running.close(0);
  }
}

async function rename(name: string, title: string): Promise<number> {
  const { findSession } = await import("../surfaces/terminal/find.ts");
  return onRuntime(async (runtime) => {
    const done = await runtime.retitle(await findSession(runtime, name), title);
    if (done) await print(`Renamed to ${title}\n`);
    return done ? EXIT.ok : EXIT.failed;
  });
}

async function remove(name: string, yes: boolean): Promise<number> {
  const { findSession } = await import("../surfaces/terminal/find.ts");
  const { shortName } = await import("../core/session-key.ts");
  const { printable } = await import("../platform/logline.ts");
  const found = await onStore(({ catalog }) => findSession(catalog, name).then((key) => catalog.summary(key)));
  if (!found) throw new Error("There are no conversations yet.");
  const { session, title } = found;
  const shown = printable(`${shortName(session)} (${title})`);
  if (!yes) {
    if (!process.stdin.isTTY) {
      complain(`Nobody can be asked whether to delete ${shown}. Add --yes to delete it.`);
      return EXIT.usage;
    }
    const { confirm } = await import("@clack/prompts");
    const sure = await confirm({ message: `Delete ${shown}? This cannot be undone.`, initialValue: false });
    if (sure !== true) {
      await print("Nothing was deleted.\n");
      return EXIT.failed;
    }
  }
  return onRuntime(async (runtime) => {
    const became = await runtime.forget(session);
    if (became === "busy") complain(`${shown} is working. Stop its turn first.`);
    else await print(`Deleted ${shown}.\n`);
    return became === "busy" ? EXIT.failed : EXIT.ok;
  });
}
