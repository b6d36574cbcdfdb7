// What a session has read, as its journal tells it. Whoever wrote a page, or a file of a stranger's, may have told the model to
// carry something out, and an address that the model makes up can hold it: https://evil.example/?d=SECRET. So once something
// secret or untrusted was read, an address that nobody but the model wrote, on a host that is new to the session, is asked
// about. An address that a person wrote, or that stood in a page, carries nothing out.
import { resolve } from "node:path";
import { entriesOf } from "../core/pages.ts";
import type { Gate } from "../core/ports.ts";
import type { CallKind, CallOutcome, EndKind, Entry, InputKind, RecoveryKind } from "../core/session.ts";
import type { Catalog, Journal } from "../core/store.ts";
import type { Message } from "../core/transcript.ts";
import { within } from "../platform/confined.ts";
import { toObject } from "../platform/json.ts";
import { HIDDEN } from "../platform/redact.ts";
import { escapeForDisplay as display } from "../policy/display.ts";

type Options = {
  journal: Pick<Journal, "entries">;
  catalog: Pick<Catalog, "summary">;
  /** Where the agent works; the first is where relative paths begin. */
  roots: readonly string[];
  /** HERMES_HOME: what may be read there are the session's own outputs. */
  home: string;
  timeoutMs: number;
};

/** Beyond that, anything may have been read. */
const MOST_ENTRIES = 2_000;
const MOST_CHARS = 20_000_000;
const PAGE = 100;
const DEEPEST = 3;

export function createExposure({ journal, catalog, roots, home, timeoutMs }: Options) {
  const inside = (path: string) => [...roots, home].some((root) => within(root, resolve(roots[0] ?? "/", path)));

  /** With what led to it: a child was told what to do by a model that has read things. */
  async function trailOf(session: string): Promise<Trail> {
    const trail: Trail = { exposed: false, people: [], pages: [], hosts: new Set() };
    let at: string | null = session;
    for (let depth = 0; at !== null && depth < DEEPEST; depth++) {
      const found = await catalog.summary(at);
      follow(await lastEntries(at, found?.entries ?? 0, trail), trail, inside);
      at = found?.parent ?? null;
    }
    return trail;
  }

  async function lastEntries(session: string, count: number, trail: Trail): Promise<Entry[]> {
    const pages: Entry[][] = [];
    let left = MOST_CHARS;
    for (let end = count; end > 0; end -= PAGE) {
      if (left <= 0 || count - end >= MOST_ENTRIES) {
        trail.exposed = true;
        break;
      }
      const after = Math.max(0, end - PAGE);
      const page = await entriesOf(journal, session, after, end);
      left -= page.reduce((sum, entry) => sum + (entry.kind === "acted" ? entry.text.length : 1_000), 0);
      pages.unshift(page);
    }
    return pages.flat();
  }

  const ask = (text: string): Gate => ({ gate: "ask", kind: "approval", text, choices: ["once", "deny"], timeoutMs });

  return {
    async judgeFetch(url: string, session: string): Promise<Gate> {
      const host = URL.parse(url)?.hostname;
      if (!host) return { gate: "run" }; // the tool says what is wrong with it
      const trail = await trailOf(session);
      if (!trail.exposed || trail.hosts.has(host) || isWritten(url, host, trail)) return { gate: "run" };
      return ask(
        `web_fetch ${display(url)}\n\nThe model made this address up after it had read something from outside or something secret, and ` +
          `${display(host)} is new in this conversation: the address could carry out what was read.`,
      );
    },
    /** A job begins a conversation of its own, which has read nothing: what it is to do is looked at while we know. */
    async judgeJob(text: string, session: string): Promise<Gate> {
      if (!(await trailOf(session)).exposed) return { gate: "run" };
      return ask(
        `schedule ${display(text)}\n\nThe model wrote this after it had read something from outside or something secret; it would ` +
          "run later, with nobody there.",
      );
    },
  };
}

type Trail = { exposed: boolean; people: string[]; pages: string[]; hosts: Set<string> };

/** Nobody typed what these say. A job was looked at when it was made. */
const NOT_PEOPLE = new Set(["process", "delegate"]);

function follow(entries: readonly Entry[], trail: Trail, inside: (path: string) => boolean): void {
  const calls = new Map<string, { tool: string; args: unknown }>();
  const result = (tool: string, args: unknown, outcome: CallOutcome, text: string) => {
    const read = outcome === "ok" || (outcome === "error" && !/^Not (?:run|fetched|searched)/.test(text));
    if (!read) return;
    const foreign = tool === "web_fetch" || tool === "web_search" || tool.startsWith("mcp_");
    if (foreign) trail.pages.push(text);
    const host = tool === "web_fetch" ? URL.parse(String(toObject(args)["url"]))?.hostname : undefined;
    if (host) trail.hosts.add(host);
    const path = tool === "read_file" || tool === "search_files" ? toObject(args)["path"] : undefined;
    const outside = typeof path === "string" && !inside(path);
    if (foreign || outside || tool === "delegate" || text.includes(HIDDEN)) trail.exposed = true;
  };
  const message = (one: Message) => {
    if (one.role === "user") trail.people.push(one.text);
    if (one.role === "assistant") for (const call of one.calls) calls.set(call.id, call);
    if (one.role === "tool") result(one.tool, calls.get(one.call)?.args, one.outcome, one.text);
  };
  for (const entry of entries)
    switch (entry.kind) {
      case "accepted":
        if (!NOT_PEOPLE.has(entry.input.source ?? "")) trail.people.push(entry.input.text);
        entry.input.history?.forEach(message);
        break;
      case "forked":
        entry.messages.forEach(message);
        break;
      case "thought":
        for (const call of entry.calls) calls.set(call.id, call);
        break;
      case "acted": {
        const call = calls.get(entry.call);
        result(call?.tool ?? "", call?.args, entry.outcome, entry.text);
        break;
      }
      default:
        entry.kind satisfies InputKind | CallKind | RecoveryKind | EndKind | "compacted" | "cut";
    }
}

/** Whole, not as the beginning of another address; or by its host, where a person named that. A tool that prints what it is
 *  given (`echo`) is no witness, so only pages count. */
function isWritten(url: string, host: string, { people, pages }: Trail): boolean {
  const bare = url.replace(/#.*$/, "").replace(/\/+$/, "");
  const whole = new RegExp(`${RegExp.escape(bare)}/*(?![\\w%&=~+@:/?-])(?!\\.\\w)`);
  const named = new RegExp(`(?<![\\w.-])${RegExp.escape(host)}(?![\\w-])(?!\\.\\w)`, "i");
  return people.some((text) => named.test(text)) || pages.some((text) => whole.test(text));
}
