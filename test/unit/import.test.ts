// hermes import, over a home that the real Hermes made: what expected.json says is there must be here.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Entry } from "../../src/core/session.ts";
import { ALONE, type Store } from "../../src/core/store.ts";
import { emptyTranscript, extend, type Transcript } from "../../src/core/transcript.ts";
import { openOldDatabase } from "../../src/import/database.ts";
import { importHome } from "../../src/import/import.ts";
import { openNotebook } from "../../src/memory/notebook.ts";
import { clock } from "../../src/platform/clock.ts";
import { homeAt } from "../../src/platform/home.ts";
import { openJobs } from "../../src/schedule/jobs.ts";
import { copyHermesHome, HERMES_FIXTURE } from "../fakes/hermes-home.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";

type Count = { user: number; assistant: number; tool: number };
type Expected = {
  conversations: {
    sessions: string[];
    title: string;
    routingKey: string | null;
    current: boolean;
    forkOf: string | null;
    history: Count;
    lastMessage: { role: string; text: string };
  }[];
  routing: Record<string, { session: string }>;
};
const expected = JSON.parse(readFileSync(join(HERMES_FIXTURE, "expected.json"), "utf8")) as Expected;

let old: string;
let ours: string;
beforeEach(() => {
  old = copyHermesHome();
  ours = join(dirname(old), "ours");
  mkdirSync(ours);
});
afterEach(() => rmSync(dirname(old), { recursive: true }));

const opened = () => asStore(createMemoryStore());

async function bring(store: Store): Promise<string> {
  const said: string[] = [];
  const notebook = openNotebook(join(ours, "memories"));
  const delivers = (session: string) => session.startsWith("agent:main:telegram:");
  await importHome({
    from: old,
    home: homeAt(ours),
    write: (file, text) => {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    },
    open: (use) => {
      const jobs = openJobs({ notes: store.notes, clock, log: () => {}, delivers });
      return use({ store, jobs, zone: "Europe/Warsaw", homeChats: { telegram: "1001" } });
    },
    addNote: (scope, target, text) => notebook.change(scope, target, { action: "add", text }),
    say: (line) => said.push(line),
    progress: () => {},
  });
  return said.join("\n");
}

async function entriesOf(store: Store, session: string): Promise<Entry[]> {
  const all: Entry[] = [];
  for (let page = await store.journal.entries(session, 0, 1_000); page.length; ) {
    all.push(...page);
    page = await store.journal.entries(session, all.length, 1_000);
  }
  return all;
}

const sessionOf = async (store: Store, id: string): Promise<string> =>
  ((await store.notes.get(`imported/hermes/${id}`)) as { session: string }).session;

/** Everything that a person sees in it, without what a summary hides from the model. */
function said(entries: readonly Entry[]): Count & { last: string } {
  const count = { user: 0, assistant: 0, tool: 0, last: "" };
  const texts = new Map(
    entries.flatMap((entry) =>
      entry.kind === "accepted" && !entry.input.task ? [[entry.input.id, entry.input.text]] : [],
    ),
  );
  const add = (role: keyof Count, text: string) => {
    count[role] += 1;
    if (text) count.last = text;
  };
  for (const entry of entries) {
    if (entry.kind === "forked")
      for (const { role, text } of entry.messages) if (!text.startsWith("[CONTEXT COMPACTION")) add(role, text);
    if (entry.kind === "began" && texts.has(entry.input)) add("user", texts.get(entry.input) ?? "");
    if (entry.kind === "thought") add("assistant", entry.text);
    if (entry.kind === "acted" && entry.outcome !== "unknown") add("tool", "");
  }
  return count;
}

function shownToModel(entries: readonly Entry[]): Transcript {
  const transcript = emptyTranscript();
  for (const entry of entries) extend(transcript, entry);
  return transcript;
}

/** What strict providers insist on: each call has one result, right behind it. */
function unanswered({ messages }: Transcript): string[] {
  const open = new Set<string>();
  const wrong: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      if (!open.delete(message.call)) wrong.push(`result of ${message.call} without its call`);
      continue;
    }
    wrong.push(...open);
    open.clear();
    if (message.role === "assistant") for (const { id } of message.calls) open.add(id);
  }
  return [...wrong, ...open];
}

describe("conversations", () => {
  it("come with every message, title, fork and chat", async () => {
    const store = opened();
    await bring(store);
    const db = openOldDatabase(join(old, "state.db"), ours);
    for (const { sessions, title, routingKey, current, forkOf, history, lastMessage } of expected.conversations) {
      const [first = ""] = sessions;
      const session = await sessionOf(store, first);
      const entries = await entriesOf(store, session);
      const { last, ...count } = said(entries);
      const rows = db.rows(sessions);
      const notShown = (role: string) =>
        rows.filter(
          (row) =>
            row.role === role &&
            row.shown &&
            !entries.some((one) => one.kind === "forked" && one.messages.some(({ text }) => text === row.content)),
        ).length;
      expect({ first, ...count }).toEqual({
        first,
        tool: history.tool,
        user: history.user - notShown("user"),
        assistant: history.assistant - notShown("assistant"),
      });
      expect(last).toBe(lastMessage.text);
      expect((await store.catalog.summary(session))?.title).toBe(title);
      if (routingKey) {
        const talk = (await store.notes.get(`talk/${routingKey}`)) as { now: number };
        const now = talk.now > 1 ? `${routingKey}#${talk.now}` : routingKey;
        expect(now === session).toBe(current);
      }
      if (forkOf) {
        const [head] = entries;
        expect(head?.kind === "forked" && head.from).toBe(await sessionOf(store, forkOf));
      }
      expect(unanswered(shownToModel(entries))).toEqual([]);
      expect(entries.at(-1)?.kind).toBe("ended");
      expect((await store.journal.load(session))?.state).toMatchObject({ seq: entries.length, turn: null });
    }
    db.close();
    const [child] = await store.journal.children(await sessionOf(store, "20261115_150315_4f2453"));
    expect(child).toMatch(/\/child\/run_[0-9a-f]{32}\.call_/);
  });

  it("keep pictures, reasoning, summaries, and words that only the model had got", async () => {
    const store = opened();
    await bring(store);
    const [picture] = await entriesOf(store, "api-multimodal");
    expect(picture).toMatchObject({
      kind: "accepted",
      input: { text: "What is in this picture? 🖼️", images: [{ mime: "image/png" }] },
    });
    const crashed = await entriesOf(store, "agent:main:telegram:dm:1002");
    expect(
      crashed.filter((one) => one.kind === "accepted" && one.input.text === "Break something and show me"),
    ).toHaveLength(1);
    expect(crashed.filter((one) => one.kind === "acted" && one.outcome === "unknown")).toHaveLength(3);
    expect(JSON.stringify(crashed)).not.toContain("System note");
    expect(crashed.some((one) => one.kind === "thought" && one.reasoning)).toBe(true);
    const compressed = shownToModel(await entriesOf(store, "agent:main:telegram:dm:1001"));
    const texts = compressed.messages.map(({ text }) => text);
    expect(texts[0]).toContain("Chapters 1 to 5 are told");
    expect(texts[0]).toContain("Zażółć gęślą jaźń");
    expect(texts.slice(1)).toEqual([
      "Write chapter 4 please",
      expect.stringMatching(/^Chapter 4/),
      "Write chapter 5 please",
      expect.stringMatching(/^Chapter 5/),
      "Now the end of the book",
      "The keeper closed the book. The end.",
    ]);
  });

  it("come once, however often the import is repeated or wherever it was killed", async () => {
    const whole = opened();
    await bring(whole);
    const sessions = async (store: Store) =>
      (await store.catalog.sessions({ limit: 100 })).map(({ session, title, entries }) => ({
        session,
        title,
        entries,
      }));
    const all = await sessions(whole);
    expect(all).toHaveLength(21);
    expect(await bring(whole)).toContain("Conversations: 0 imported with 0 messages, 21 were here already");
    expect(await sessions(whole)).toEqual(all);
    for (const dieAt of [1, 2, 3, 17, 40, 77]) {
      const store = opened();
      let writes = 0;
      const dying =
        <A extends unknown[], R>(write: (...args: A) => Promise<R>) =>
        (...args: A) =>
          ++writes >= dieAt ? Promise.reject(new Error("killed")) : write(...args);
      const journal = { ...store.journal, commit: dying(store.journal.commit) };
      const notes = { ...store.notes, set: dying(store.notes.set) };
      await expect(bring({ ...store, journal, notes })).rejects.toThrow("killed");
      await bring(store);
      expect((await sessions(store)).toSorted((a, b) => a.session.localeCompare(b.session))).toEqual(
        all.toSorted((a, b) => a.session.localeCompare(b.session)),
      );
    }
  });

  it("that grew there come again; those that went on here stay", async () => {
    const store = opened();
    await bring(store);
    const say = (session: string, words: string) => {
      const db = new DatabaseSync(join(old, "state.db"));
      db.prepare("INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', ?, 1794760000)").run(
        session,
        words,
      );
      db.close();
    };
    say("api-demo-fork", "and one more");
    say("cc-1", "and another");
    const row = await store.journal.load("cc-1");
    if (!row) throw new Error("It is not here.");
    const node = await store.nodes.join(ALONE);
    await store.journal.commit({ ...row, node, active: false, at: 1, entries: [], accepted: [], taken: [] });
    const report = await bring(store);
    expect(said(await entriesOf(store, "api-demo-fork")).last).toBe("and one more");
    expect(report).toContain('"cc-1" has new messages there and here; ours stays as it is');
    expect(said(await entriesOf(store, "cc-1")).last).not.toBe("and another");
  });
});

describe("the rest of the home", () => {
  it("comes: notes, skills, jobs, pairings, settings and keys", async () => {
    const store = opened();
    await bring(store);
    const notebook = openNotebook(join(ours, "memories"));
    const notes = [
      { target: "memory", text: "The staging server listens on port 8443 and is rebuilt every night." },
      { target: "memory", text: "Deploys go out on Tuesdays.\nNever on a Friday; § 4 of the runbook says so." },
      { target: "user", text: "Prefers short answers and metric units." },
    ];
    expect(await notebook.entries("local")).toEqual(notes);
    expect(await notebook.entries("telegram:1001")).toEqual(notes); // the home chat is its owner's
    const skill = join("skills", "writing", "release-notes", "references", "example.md");
    expect(readFileSync(join(ours, skill), "utf8")).toBe(readFileSync(join(old, skill), "utf8"));
    const jobs = await openJobs({ notes: store.notes, clock, log: () => {} }).list();
    expect(jobs).toMatchObject(
      [
        { name: "site-ping", when: { cron: "*/30 * * * *", zone: "Europe/Warsaw" }, route: null },
        { name: "Daily summary ☀️", when: { cron: "0 9 * * 1-5" }, route: "agent:main:telegram:dm:1001" },
      ].toSorted((a) => (a.name === jobs[0]?.name ? -1 : 1)),
    );
    expect(await store.notes.get("paired/telegram/1003")).toMatchObject({ chat: "1003", name: "User1003" });
    for (const file of ["config.yaml", ".env"])
      expect(readFileSync(join(ours, file), "utf8")).toBe(readFileSync(join(old, file), "utf8"));
  });

  it("never overwrites what is here, and says so", async () => {
    writeFileSync(join(ours, "config.yaml"), "model: mine\n");
    writeFileSync(join(ours, ".env"), "SLACK_BOT_TOKEN=mine\n");
    const report = await bring(opened());
    expect(readFileSync(join(ours, "config.yaml"), "utf8")).toBe("model: mine\n");
    expect(readFileSync(join(ours, ".env"), "utf8")).toMatch(/^SLACK_BOT_TOKEN=mine\n[\s\S]*TERMINAL_TIMEOUT=/);
    expect(report).toContain("config.yaml: yours");
    expect(report).toContain("SLACK_BOT_TOKEN have other values here");
    for (const part of ["SOUL.md", "open pairing request", "archived, pinned or hidden"])
      expect(report).toContain(part);
  });
});
