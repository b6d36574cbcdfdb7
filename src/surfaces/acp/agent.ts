// The agent's side of the Agent Client Protocol: an editor starts us and talks over our input and output.
import { randomBytes, randomUUID } from "node:crypto";
import { isAbsolute } from "node:path";
import {
  type AgentConnection,
  agent,
  type McpServer,
  methods,
  PROTOCOL_VERSION,
  RequestError,
  type SessionInfo,
  type Stream,
} from "@agentclientprotocol/sdk";
import { fullName, shortName, TERMINAL } from "../../core/session-key.ts";
import type { SessionPlace } from "../../core/store.ts";
import { clock } from "../../platform/clock.ts";
import { realInside, within } from "../../platform/confined.ts";
import { failure, refused } from "./prompt.ts";
import { type AcpSession, type AcpShared, createAcpSession } from "./session.ts";

/** A runtime for an editor, ours or that of the process that owns this home. */
type AcpRuntime = Omit<AcpShared, "client" | "closed" | "newKey" | "now"> & {
  /** Directories besides the workspace in which the agent may write. */
  writable: readonly string[];
  /** MCP servers of the editor that are connected, by name. */
  servers: readonly string[];
};
/** An MCP server of the editor, as in `mcp_servers`. */
type EditorServer =
  | { name: string; command: string[]; env: Record<string, string> }
  | { name: string; url: string; headers: Record<string, string> };
/** `resumes`: it takes up turns that were left unfinished. */
export type WantedRuntime = { cwd: string; servers: EditorServer[]; resumes: boolean };
type AcpOptions = {
  stream: Stream;
  version: string;
  /** Called with the folder of the first conversation. Called again, it takes the place of the one before. */
  open(wanted: WantedRuntime): Promise<AcpRuntime>;
};

const A_PAGE = 50;

/** Returns when the editor is gone. */
export function serveAcp({ stream, version, open }: AcpOptions): AgentConnection {
  const sessions = new Map<string, AcpSession>();
  let opening: Promise<AcpRuntime> | null = null;
  /** The open runtime only lists conversations: it works in whatever directory the editor started this process. */
  let isForLists = false;

  function runtimeFor(wanted: WantedRuntime): Promise<AcpRuntime> {
    opening ??= open(wanted).catch((error: unknown) => {
      opening = null; // whatever was in the way may be gone at the next try
      throw failure(error);
    });
    return opening;
  }

  function runtimeIn(cwd: string, servers: EditorServer[]): Promise<AcpRuntime> {
    if (isForLists) opening = null; // a conversation works in its own folder
    isForLists = false;
    return runtimeFor({ cwd, servers, resumes: true });
  }

  function runtimeForLists(): Promise<AcpRuntime> {
    isForLists ||= opening === null;
    return runtimeFor({ cwd: process.cwd(), servers: [], resumes: false });
  }

  async function openSession(session: string, request: OpenRequest, how: "new" | "load" | "resume") {
    const servers = (request.mcpServers ?? []).map(serverOf);
    const opened = await runtimeIn(request.cwd, servers);
    const place = await placeIn(opened, request.cwd);
    if (how !== "new" && !(await opened.runtime.summary(session)))
      throw RequestError.resourceNotFound(shortName(session));
    sessions.get(session)?.close();
    const one = createAcpSession({
      ...opened,
      client: connection.client,
      closed: connection.signal,
      session,
      instructions: place === opened.workspace ? "" : folderText(place),
      newKey: randomUUID,
      now: clock.now,
    });
    sessions.set(session, one);
    await one.open(how === "load");
    const unused = servers.map(({ name }) => name).filter((name) => !opened.servers.includes(name));
    // After the answer to this request: before it, the editor does not know the session.
    void clock.sleep(0).then(() => one.introduce(unused.length ? unusedText(unused) : ""));
    return one;
  }

  function openedAs(id: string): AcpSession {
    const found = sessions.get(fullName(id));
    if (!found) throw RequestError.resourceNotFound(id);
    return found;
  }

  function close(id: string): void {
    openedAs(id).close();
    sessions.delete(fullName(id));
  }

  const { session } = methods.agent;
  const app = agent({ name: "hermes" })
    .onRequest(methods.agent.initialize, () => ({
      protocolVersion: PROTOCOL_VERSION,
      agentInfo: { name: "hermes", title: "Hermes", version },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, embeddedContext: true },
        mcpCapabilities: { http: true },
        sessionCapabilities: { list: {}, delete: {}, resume: {}, close: {} },
      },
      authMethods: [],
    }))
    .onRequest(session.new, async ({ params }) => {
      const id = randomBytes(4).toString("hex");
      const one = await openSession(fullName(id), params, "new");
      return { sessionId: id, ...one.settings() };
    })
    .onRequest(session.load, async ({ params }) =>
      (await openSession(fullName(params.sessionId), params, "load")).settings(),
    )
    .onRequest(session.resume, async ({ params }) =>
      (await openSession(fullName(params.sessionId), params, "resume")).settings(),
    )
    .onRequest(session.list, async ({ params: { cwd, cursor } }) => {
      const { runtime, workspace } = await runtimeForLists();
      const after = cursor ? placeFrom(cursor) : undefined;
      const rows = await runtime.sessions({ prefix: TERMINAL, top: true, limit: A_PAGE, ...(after && { after }) });
      const listed = rows.map(({ session: key, title, updatedAt: at }): SessionInfo => {
        return { sessionId: shortName(key), cwd: cwd ?? workspace, title, updatedAt: new Date(at).toISOString() };
      });
      const last = rows.length === A_PAGE ? rows.at(-1) : undefined;
      return { sessions: listed, ...(last && { nextCursor: JSON.stringify([last.updatedAt, last.session]) }) };
    })
    .onRequest(session.delete, async ({ params: { sessionId } }) => {
      const { runtime } = await runtimeForLists();
      if (sessions.has(fullName(sessionId))) close(sessionId);
      const forgotten = await runtime.forget(fullName(sessionId));
      if (forgotten === "busy") throw refused("The conversation is at work: stop it first.");
      if (forgotten === "unknown") throw RequestError.resourceNotFound(sessionId);
      return {};
    })
    .onRequest(session.close, async ({ params: { sessionId } }) => {
      await openedAs(sessionId).cancel();
      close(sessionId);
      return {};
    })
    .onRequest(session.setMode, async ({ params: { sessionId, modeId } }) => {
      await openedAs(sessionId).setMode(modeId);
      return {};
    })
    .onRequest(session.setConfigOption, async ({ params }) => ({
      configOptions: await openedAs(params.sessionId).setOption(params.configId, params.value),
    }))
    .onRequest(session.prompt, ({ params, signal }) =>
      openedAs(params.sessionId)
        .prompt(params.prompt, signal)
        .catch((error: unknown) => {
          throw failure(error);
        }),
    )
    .onNotification(session.cancel, async ({ params }) => {
      await sessions.get(fullName(params.sessionId))?.cancel();
    });
  const connection = app.connect(stream);
  return connection;
}

type OpenRequest = { cwd: string; mcpServers?: McpServer[] };

/** The real path of the editor's folder. The tools of one runtime work in one workspace: a folder outside of it is refused here,
 *  since the agent would read and change files of another project. */
async function placeIn({ workspace, writable }: AcpRuntime, cwd: string): Promise<string> {
  if (!isAbsolute(cwd)) throw refused(`cwd must be an absolute path: ${cwd}`);
  const real = (path: string) => realInside(path, []).catch(() => path);
  const place = await real(cwd);
  const roots = await Promise.all([workspace, ...writable].map(real));
  if (place === roots[0]) return workspace;
  if (roots.some((root) => within(root, place))) return place;
  throw refused(
    `The hermes that runs for this HERMES_HOME works in ${workspace}, and this folder is ${cwd}. Start it in a directory ` +
      "that contains both (terminal.cwd), add the folder to terminal.writable, or give this editor a HERMES_HOME of its own.",
  );
}

const folderText = (place: string): string =>
  `The user works in an editor that has the folder ${place} open: what they call the project is this folder, and relative ` +
  `paths that they write start there. Give file tools absolute paths, and run commands with workdir ${place}.`;

const unusedText = (names: readonly string[]): string =>
  `MCP servers of the editor that are not connected: ${names.join(", ")}. hermes connects those of the first conversation ` +
  "after its start; for others, add them to mcp_servers in config.yaml.\n";

function serverOf(server: McpServer): EditorServer {
  const pairs = (list: readonly { name: string; value: string }[]) =>
    Object.fromEntries(list.map(({ name, value }) => [name, value]));
  const name = server.name.replaceAll(/[^\w-]/g, "_");
  if (!("type" in server)) return { name, command: [server.command, ...server.args], env: pairs(server.env) };
  if (server.type === "sse") throw refused(`The MCP server ${server.name} uses SSE, which is not supported; use HTTP.`);
  return { name, url: server.url, headers: pairs(server.headers) };
}

function placeFrom(cursor: string): SessionPlace {
  try {
    const [updatedAt, session]: unknown[] = JSON.parse(cursor);
    if (typeof updatedAt === "number" && typeof session === "string") return { updatedAt, session };
  } catch {
    // no cursor of ours
  }
  throw refused("cursor: unknown");
}
