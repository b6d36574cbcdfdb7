// What a home of Hermes holds beside its conversations: notes, skills, jobs, pairings, settings and keys. Everything is only read.
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync } from "node:fs";
import { basename, join, relative } from "node:path";
import { parseEnv } from "node:util";
import { messageOf } from "../core/errors.ts";
import type { Job, JobRefused, Jobs } from "../core/jobs.ts";
import { routeTo, wishedTime } from "../core/schedule-text.ts";
import type { Notes } from "../core/store.ts";
import { toObject } from "../platform/json.ts";
import { parsed, textOf } from "./database.ts";

/** `left`: for people, what could not come and why. */
export type Part = { came: number; here: number; left: string[] };
type Write = (file: string, text: string | Uint8Array) => void;

const MOST_BYTES = 5_000_000;

/** Null: there is none, or it is too large. */
function contentOf(file: string): string | null {
  const stat = lstatSync(file, { throwIfNoEntry: false });
  return stat?.isFile() && stat.size <= MOST_BYTES ? readFileSync(file, "utf8") : null;
}

const listed = (dir: string) => (existsSync(dir) ? readdirSync(dir, { withFileTypes: true }) : []);

// ── Notes ─────────────────────────────────────────────────────────────────────────────────────────────

type AddNote = (scope: string, target: "memory" | "user", text: string) => Promise<{ unchanged?: true }>;

/** `scopes`: whose notes they become. */
export async function importNotes(home: string, scopes: readonly string[], add: AddNote): Promise<Part> {
  const part: Part = { came: 0, here: 0, left: [] };
  for (const [target, file] of [
    ["memory", "MEMORY.md"],
    ["user", "USER.md"],
  ] as const) {
    const entries = (contentOf(join(home, "memories", file)) ?? "")
      .split(/^[ \t]*§[ \t]*$/m)
      .map((entry) => entry.trim())
      .filter(Boolean);
    for (const entry of entries)
      for (const [index, scope] of scopes.entries())
        try {
          const { unchanged } = await add(scope, target, entry);
          if (index === 0) part[unchanged ? "here" : "came"] += 1;
        } catch (error) {
          part.left.push(`a note for ${scope} (${entry.slice(0, 40)}…): ${messageOf(error)}`);
        }
  }
  return part;
}

// ── Skills ────────────────────────────────────────────────────────────────────────────────────────────

/** Those that came with Hermes stay there, unless somebody changed them. */
export function importSkills(home: string, target: string, write: Write): Part {
  const root = join(home, "skills");
  const part: Part = { came: 0, here: 0, left: [] };
  const bundled = new Map(
    (contentOf(join(root, ".bundled_manifest")) ?? "")
      .split("\n")
      .map((line) => [line.split(":")[0] ?? "", line.split(":")[1]?.trim()]),
  );
  let delivered = 0;
  for (const folder of skillFolders(root)) {
    const files = filesBelow(folder);
    if (bundled.has(basename(folder)) && hashOf(folder, files) === bundled.get(basename(folder))) {
      delivered += 1;
      continue;
    }
    const to = join(target, relative(root, folder));
    const fresh = files.filter((file) => !existsSync(join(to, relative(folder, file))));
    const same = files.every(
      (file) => fresh.includes(file) || readFileSync(file).equals(readFileSync(join(to, relative(folder, file)))),
    );
    if (!same) part.left.push(`skill ${basename(folder)}: another version is here already (${to})`);
    else if (!fresh.length) part.here += 1;
    else {
      for (const file of fresh) write(join(to, relative(folder, file)), readFileSync(file));
      part.came += 1;
    }
  }
  if (delivered) part.left.push(`${delivered} skills that came with Hermes and were not changed`);
  return part;
}

function skillFolders(root: string, depth = 3): string[] {
  if (existsSync(join(root, "SKILL.md"))) return [root];
  if (depth === 0) return [];
  const below = listed(root).filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
  return below.flatMap(({ name }) => skillFolders(join(root, name), depth - 1));
}

function filesBelow(dir: string): string[] {
  const found = listed(dir).flatMap((entry) => {
    const path = join(dir, entry.name);
    if (entry.isDirectory()) return filesBelow(path);
    return entry.isFile() && lstatSync(path).size <= MOST_BYTES ? [path] : [];
  });
  return found.toSorted();
}

/** As its manifest has it. */
function hashOf(folder: string, files: readonly string[]): string {
  const hash = createHash("md5");
  for (const file of files) hash.update(relative(folder, file)).update(readFileSync(file));
  return hash.digest("hex");
}

// ── Jobs ──────────────────────────────────────────────────────────────────────────────────────────────

/** `homeChat`: where answers go that name only the platform. */
type JobsWorld = { jobs: Jobs; notes: Notes; zone: string | undefined; homeChat(platform: string): string | undefined };
export async function importJobs(home: string, { jobs, notes, zone, homeChat }: JobsWorld): Promise<Part> {
  const part: Part = { came: 0, here: 0, left: [] };
  const { jobs: list } = parsed(contentOf(join(home, "cron", "jobs.json")));
  for (const given of Array.isArray(list) ? list : []) {
    const job = toObject(given);
    const id = textOf(job["id"]) || "";
    const name = textOf(job["name"]) || id;
    const markName = `imported/hermes/job/${id}`;
    if (await notes.get(markName)) {
      part.here += 1;
      continue;
    }
    const refuse = (why: string) => void part.left.push(`job "${name}": ${why}`);
    const when = wishedTime(scheduleText(toObject(job["schedule"])));
    if (job["no_agent"] === true || job["script"])
      refuse("it runs a script without the agent, which does not exist here");
    else if (!when) refuse(`its schedule (${textOf(job["schedule_display"])}) cannot be written as a cron expression`);
    else {
      const skills =
        Array.isArray(job["skills"]) && job["skills"].length
          ? `Use these skills: ${job["skills"].join(", ")}.\n\n`
          : "";
      const route = routeTo(deliverIn(job), homeChat) ?? null;
      const wish = {
        ...when,
        zone,
        text: `${skills}${textOf(job["prompt"]) || ""}`,
        name,
        key: `hermes:${id}`,
        createdBy: "hermes",
        ...(typeof job["model"] === "string" && { model: job["model"] }),
      };
      let added: Job | JobRefused = await jobs.add({ ...wish, route });
      if ("refused" in added && route !== null) {
        added = await jobs.add(wish);
        if (!("refused" in added))
          refuse(`${textOf(job["deliver"])} is not a chat of this gateway; its answers stay in its own conversation`);
      }
      if ("refused" in added) refuse(added.why);
      else {
        if (job["enabled"] === false) await jobs.pause(added.id);
        await notes.set(markName, added.id);
        part.came += 1;
      }
    }
  }
  return part;
}

function scheduleText({ kind, expr, minutes, run_at: at }: Record<string, unknown>): string {
  if (kind === "cron") return textOf(expr);
  return kind === "interval" ? `every ${textOf(minutes)}m` : textOf(at);
}

/** `origin`: where the job was asked for. */
function deliverIn(job: Record<string, unknown>): string {
  const deliver = textOf(job["deliver"]) || "local";
  if (deliver !== "origin") return deliver;
  const { platform, chat_id: chat, thread_id: thread } = toObject(job["origin"]);
  return [platform, chat, thread].map(textOf).filter(Boolean).join(":") || "local";
}

// ── Pairings ──────────────────────────────────────────────────────────────────────────────────────────

/** `chatOf`: the private chat of a person, as the conversations have it. */
export async function importPairings(
  home: string,
  notes: Notes,
  chatOf: (platform: string, user: string) => string | undefined,
): Promise<Part> {
  const part: Part = { came: 0, here: 0, left: [] };
  for (const dir of [join(home, "platforms", "pairing"), join(home, "pairing")])
    for (const { name: file } of listed(dir)) {
      const [, platform, what] = /^(\w+)-(approved|pending)\.json$/.exec(file) ?? [];
      if (!platform) continue;
      const people = parsed(contentOf(join(dir, file)));
      if (what === "pending") {
        part.left.push(
          `${Object.keys(people).length} open pairing request(s) of ${platform}: they expire after an hour`,
        );
        continue;
      }
      for (const [id, given] of Object.entries(people)) {
        const { user_name: name, approved_at: at } = toObject(given);
        const chat = chatOf(platform, id) ?? (platform === "telegram" ? id : undefined); // a private chat has the id of its person there
        const key = `paired/${platform}/${id}`;
        if (chat === undefined)
          part.left.push(`the pairing of ${id} on ${platform}: its private chat is not known; pair again`);
        else if (await notes.get(key)) part.here += 1;
        else {
          await notes.set(key, { chat, name: textOf(name), at: Math.round(Number(at ?? 0) * 1_000) });
          part.came += 1;
        }
      }
    }
  return part;
}

// ── Settings ──────────────────────────────────────────────────────────────────────────────────────────

/** config.yaml as a whole, if there is none here; of .env what is not set here. */
export function importSettings(home: string, ours: { config: string; env: string; dir: string }, write: Write): Part {
  const part: Part = { came: 0, here: 0, left: [] };
  const config = contentOf(join(home, "config.yaml"));
  const before = contentOf(ours.config);
  if (config !== null && !before?.trim()) {
    write(ours.config, config);
    part.came += 1;
  } else if (config !== null && config === before) part.here += 1;
  else if (config !== null)
    part.left.push(`config.yaml: yours (${ours.config}) stays as it is; compare it with ${join(home, "config.yaml")}`);

  const env = contentOf(join(home, ".env"));
  const had = contentOf(ours.env) ?? "";
  if (env !== null) {
    const known = parseEnv(had);
    const missing = Object.entries(parseEnv(env)).filter(([name, value]) => value && !known[name]);
    const different = Object.entries(parseEnv(env)).filter(
      ([name, value]) => value && known[name] && known[name] !== value,
    );
    if (!had.trim()) write(ours.env, env);
    else if (missing.length)
      write(ours.env, `${had.replace(/\n*$/, "\n")}${missing.map(([name, value]) => `${name}='${value}'\n`).join("")}`);
    part[missing.length ? "came" : "here"] += 1;
    if (different.length)
      part.left.push(`.env: ${different.map(([name]) => name).join(", ")} have other values here, which stay`);
  }
  const soul = contentOf(join(home, "SOUL.md"));
  if (soul?.trim())
    part.left.push(`SOUL.md (the character): put what you need of it into AGENTS.md of your working directory`);
  return part;
}

/** What we lack, by its place in the home. */
const UNKNOWN: Readonly<Record<string, string>> = {
  "auth.json": "log in to those services again",
  "mcp-tokens": "log in to those MCP servers again",
  hooks: "there are no hooks here; webhooks tell the end of turns",
  plugins: "there are no plugins here",
  skins: "there are no skins here",
  scripts: "scripts of jobs do not exist here",
  checkpoints: "copies of files before changes stay there; new ones are made here",
  kanban: "there is no task board here",
  "kanban.db": "there is no task board here",
  "webhook_subscriptions.json": "set up webhooks again (docs/http-api.md)",
};

export function notImported(home: string): string[] {
  const found = Object.entries(UNKNOWN).filter(([name]) => existsSync(join(home, name)));
  const profiles = listed(join(home, "profiles")).filter((entry) => entry.isDirectory());
  return [
    ...found.map(([name, why]) => `${name}: ${why}`),
    ...profiles.map(
      ({ name }) =>
        `profile ${name}: it is a home of its own; HERMES_HOME=… hermes import ${join(home, "profiles", name)}`,
    ),
  ];
}
