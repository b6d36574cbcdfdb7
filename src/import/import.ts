// hermes import: brings a home of Hermes over, part by part, and says what came, what was here already and what could not come.
// Nothing in the old home is written, and nothing here is overwritten.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigError } from "../core/errors.ts";
import type { Jobs } from "../core/jobs.ts";
import type { Store } from "../core/store.ts";
import { type Home, isHermesHome } from "../platform/home.ts";
import { toObject } from "../platform/json.ts";
import { type OldRoute, openOldDatabase, parsed, routeOf } from "./database.ts";
import {
  importJobs,
  importNotes,
  importPairings,
  importSettings,
  importSkills,
  notImported,
  type Part,
} from "./home.ts";
import { importSessions } from "./sessions.ts";

type Options = {
  from: string;
  home: Home;
  write(file: string, text: string | Uint8Array): void;
  /** Opened after the settings are here. */
  open<T>(use: (world: ImportWorld) => Promise<T>): Promise<T>;
  addNote: Parameters<typeof importNotes>[2];
  say(line: string): void;
  progress(text: string): void;
};
export type ImportWorld = {
  store: Store;
  jobs: Jobs;
  zone: string | undefined;
  homeChats: Readonly<Record<string, string | undefined>>;
};

export async function importHome({ from, home, write, open, addNote, say, progress }: Options): Promise<number> {
  if (!isHermesHome(from)) throw new ConfigError(`${from} is not a home of Hermes: it has no state.db.`);
  if (from === home.dir)
    throw new ConfigError(
      `${from} cannot be imported into itself. Set HERMES_HOME to another directory, such as ~/.hermes-ts.`,
    );
  const left: string[] = [];
  const report = (what: string, { came, here, left: not }: Part, more = "") => {
    say(
      `${what}: ${came} imported${more}${here ? `, ${here} were here already` : ""}${not.length ? `, ${not.length} to look at` : ""}`,
    );
    left.push(...not);
  };
  say(`Importing ${from} into ${home.dir}. Nothing in ${from} is changed.`);
  report("Settings", importSettings(from, home, write));
  await open(async ({ store, jobs, zone, homeChats }) => {
    const db = openOldDatabase(join(from, "state.db"), home.dir);
    try {
      const routed = db.routes();
      const routes = routed.length ? routed : mirroredRoutes(from);
      const sessions = await importSessions({
        db,
        routes,
        store,
        progress: (done, all) => progress(`Conversations: ${done} of ${all}`),
      });
      report("Conversations", sessions, ` with ${sessions.messages} messages`);
      const people = db.sessions();
      const chatOf = (platform: string, user: string) =>
        people.find((one) => one.source === platform && one.kind === "dm" && one.user === user)?.chat ?? undefined;
      const owners = Object.entries(homeChats).flatMap(([platform, chat]) => (chat ? [`${platform}:${chat}`] : []));
      report("Notes", await importNotes(from, ["local", ...owners], addNote));
      report("Skills", importSkills(from, join(home.dir, "skills"), write));
      report(
        "Jobs",
        await importJobs(from, { jobs, notes: store.notes, zone, homeChat: (platform) => homeChats[platform] }),
      );
      report("Pairings", await importPairings(from, store.notes, chatOf));
    } finally {
      db.close();
    }
  });
  left.push(...notImported(from));
  if (left.length) say(`\nNot imported, or not as it was:\n${left.map((line) => `  - ${line}`).join("\n")}`);
  say("\nBoth programs use the same bot tokens and port: stop Hermes before you start the gateway here.");
  return 0;
}

/** Before there was a table of them. */
function mirroredRoutes(home: string): OldRoute[] {
  const file = join(home, "sessions", "sessions.json");
  if (!existsSync(file)) return [];
  return Object.entries(parsed(readFileSync(file, "utf8"))).flatMap(([key, entry]) => routeOf(key, toObject(entry)));
}
