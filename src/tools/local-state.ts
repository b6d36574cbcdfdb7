// What a session has on one machine and not in the store: background processes, and files where nodes do not share them. A note for each such
// session says where that is. Calls for a session at rest go to that node while it lives, and a turn that begins without it is told what is
// missing.
import { hostname } from "node:os";
import * as z from "zod";
import { CHANGE_FILES } from "../conversation/rewind.ts";
import { createBounded } from "../core/bounded.ts";
import { messageOf } from "../core/errors.ts";
import { changeNote } from "../core/notes.ts";
import type { Log, Memory, Tool, ToolCall } from "../core/ports.ts";
import type { Entry } from "../core/session.ts";
import { isChild, parseKey } from "../core/session-key.ts";
import type { Nodes, Notes } from "../core/store.ts";
import { logFailure } from "../platform/log-failure.ts";

const noteShape = z.object({
  files: z.object({ machine: z.string(), address: z.string() }).optional(),
  /** The directory that the session is in, where all nodes have the same ones. */
  cwd: z.string().optional(),
  processes: z
    .array(
      z.object({
        id: z.string(),
        command: z.string(),
        /** The process of hermes that started it, and where its node is reached. */
        life: z.string(),
        address: z.string(),
        /** The model knows that it is gone. */
        told: z.boolean().optional(),
      }),
    )
    .default([]),
});
type LocalNote = z.output<typeof noteShape>;
type NotedProcess = LocalNote["processes"][number];
/** A background process that was started by another process of hermes. `gone`: it has ended, with nobody to see how. */
export type MissingProcess = { id: string; command: string; gone: boolean };

export type LocalStateOptions = {
  notes: Notes;
  log: Log;
  /** HERMES_HOME */
  home: string;
  /** `ownerHere(home)` */
  life: string;
  /** Null: this process has its store for itself. */
  cluster: {
    address(): string;
    /** Nodes do not see each other's files. */
    ownFiles: boolean;
    nodes: Pick<Nodes, "list">;
    /** Addresses of nodes that do not answer us. */
    unreachable(): readonly string[];
  } | null;
};

const LONGEST_COMMAND = 200;
const MOST_REMEMBERED = 1_000;

export type LocalState = ReturnType<typeof createLocalState>;

export function createLocalState({ notes, log, home, life, cluster }: LocalStateOptions) {
  const machine = `${hostname()}:${home}`;
  const here = () => cluster?.address() ?? "";
  /** The sessions that an earlier process left a note for: of a store for one process only that one can have. */
  let left: Promise<ReadonlySet<string>> | null = null;
  /** By session: the turn that has noted its files. */
  const noted = createBounded<string>(MOST_REMEMBERED);
  /** By turn: what it is told. */
  const notices = createBounded<Promise<string>>(MOST_REMEMBERED);
  /** By session: the processes that its turn is told are gone. */
  const telling = createBounded<readonly string[]>(MOST_REMEMBERED);

  async function read(session: string): Promise<LocalNote> {
    if (!cluster) {
      left ??= notes.list(noteOf("")).then((all) => new Set(all.map(({ key }) => key.slice(noteOf("").length))));
      if (!(await left).has(session)) return NOTHING;
    }
    return parsed(await notes.get(noteOf(session)));
  }

  const write = (session: string, make: (note: LocalNote) => LocalNote) =>
    changeNote(notes, noteOf(session), (value) => {
      const note = parsed(value);
      const next = make(note);
      if (next === note) return value;
      return next.files || next.cwd || next.processes.length ? next : undefined;
    });

  /** Other nodes that are there to stay, by their addresses. */
  async function others(): Promise<Map<string, string>> {
    const all = (await cluster?.nodes.list()) ?? [];
    return new Map(all.flatMap(({ id, address, leaving }) => (leaving || address === here() ? [] : [[address, id]])));
  }

  async function missing(session: string): Promise<(MissingProcess & Pick<NotedProcess, "told">)[]> {
    const { processes } = await read(session);
    const theirs = processes.filter((process) => process.life !== life);
    if (theirs.length === 0) return [];
    const living = await others();
    return theirs.map(({ address, ...process }) => ({ ...process, gone: !living.has(address) }));
  }

  async function noticeOf(session: string): Promise<string> {
    const { files } = await read(session);
    const untold = (await missing(session)).filter(({ told }) => !told);
    const ids = untold.flatMap(({ id, gone }) => (gone ? [id] : []));
    telling.set(session, ids);
    const listed = (gone: boolean) =>
      untold.flatMap((process) => (process.gone === gone ? [`- ${process.id}: ${process.command}`] : []));
    return [
      said(GONE, listed(true)),
      said(OUT_OF_REACH, listed(false)),
      cluster?.ownFiles && files && files.machine !== machine ? said(MOVED, [`- ${files.machine}`]) : "",
    ]
      .filter(Boolean)
      .join("\n\n");
  }

  function notice(session: string, turn: string): Promise<string> {
    const known = notices.get(turn);
    if (known) return known;
    const made = noticeOf(session).catch((error: unknown) => {
      log("warn", "local.unread", { session, error: messageOf(error) });
      notices.delete(turn);
      return "";
    });
    notices.set(turn, made);
    return made;
  }

  async function told(session: string, ids: readonly string[]): Promise<void> {
    // Whether one of another node is dead that node knows: it may only have hung.
    const after = (process: NotedProcess) => {
      if (!ids.includes(process.id)) return [process];
      return process.address === here() ? [] : [{ ...process, told: true }];
    };
    await write(session, (note) => ({ ...note, processes: note.processes.flatMap(after) }));
  }

  /** A run without a session and a child have no turn after this one. */
  async function noteFiles({ session, turn }: Pick<ToolCall, "session" | "turn">): Promise<void> {
    if (isChild(session) || parseKey(session).of === "run" || noted.get(session) === turn) return;
    const files = { machine, address: here() };
    await write(session, (note) =>
      note.files?.machine === files.machine && note.files.address === files.address ? note : { ...note, files },
    );
    noted.set(session, turn);
  }

  const sharesFiles = cluster !== null && !cluster.ownFiles;
  return {
    missing,
    cwd: async (session: string) => (sharesFiles ? (await read(session)).cwd : undefined),
    async setCwd(session: string, cwd: string): Promise<void> {
      if (sharesFiles) await write(session, (note) => ({ ...note, cwd }));
    },
    /** Before it starts. A child has no later turn that could be told. */
    async starts(session: string, { id, command }: Pick<NotedProcess, "id" | "command">): Promise<void> {
      if (isChild(session)) return;
      const process = { id, command: command.slice(0, LONGEST_COMMAND), life, address: here() };
      await write(session, (note) => ({ ...note, processes: [...note.processes, process] }));
    },
    async ended(session: string, id: string): Promise<void> {
      if (isChild(session)) return;
      await write(session, (note) => ({ ...note, processes: note.processes.filter((process) => process.id !== id) }));
    },
    forget: (session: string) => notes.set(noteOf(session), undefined),
    /** Its files are here from now on. */
    around: (tool: Tool): Tool =>
      cluster?.ownFiles && CHANGE_FILES.has(tool.name)
        ? {
            ...tool,
            async run(args, call) {
              await noteFiles(call);
              return tool.run(args, call);
            },
          }
        : tool,
    /** What a turn is told beside what it remembers. */
    withNotices: (memory: Memory): Memory => ({
      ...memory,
      recall: async (about, signal) =>
        (await Promise.all([notice(about.session, about.turn), memory.recall(about, signal)]))
          .filter(Boolean)
          .join("\n\n"),
    }),
    /** Once the model has answered, it has been told. */
    observe(session: string, entries: readonly Entry[]): void {
      const ids = telling.get(session) ?? [];
      if (ids.length === 0 || !entries.some(({ kind }) => kind === "thought")) return;
      telling.delete(session);
      told(session, ids).catch(logFailure(log, "warn", "local.unwritten", { session }));
    },
    /** The other node that has what the session, which is at rest, needs. */
    async nodeOf(session: string): Promise<{ node: string; address: string } | null> {
      if (!cluster) return null;
      const { files, processes } = await read(session);
      if (processes.some((process) => process.life === life)) return null;
      const wanted = [...processes, ...(cluster.ownFiles && files ? [files] : [])].map(({ address }) => address);
      if (wanted.length === 0) return null;
      const living = await others();
      const unreachable = cluster.unreachable();
      const address = wanted.find((one) => living.has(one) && !unreachable.includes(one));
      return address === undefined ? null : { node: living.get(address) ?? "", address };
    },
  };
}

const GONE =
  "Background processes of this conversation are gone, without a result, because hermes or their machine was restarted. Start them again if they are still needed.";
const OUT_OF_REACH = "Background processes of this conversation run on another machine that cannot be reached now.";
const MOVED =
  "This conversation has moved to another machine. Files that earlier turns wrote are on the machine below, not here: look before you rely on a file.";
const said = (what: string, lines: readonly string[]) =>
  lines.length ? `[System note: ${what}]\n${lines.join("\n")}` : "";

const NOTHING: LocalNote = { processes: [] };
const noteOf = (session: string) => `local/${session}`;
const parsed = (value: unknown): LocalNote => noteShape.safeParse(value).data ?? NOTHING;
