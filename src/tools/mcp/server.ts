// One MCP server and its connection: made when there is something to connect to, made again when it is lost.
import { homedir } from "node:os";
import { join } from "node:path";
import type { Client, jsonSchemaValidator, Tool as Offer, Progress, Transport } from "@modelcontextprotocol/client";
import { messageOf } from "../../core/errors.ts";
import type { Log, ToolCall, ToolResult } from "../../core/ports.ts";
import { backoff, linked, onAbort, unlessAborted, within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { asData, atMost, plain } from "../../platform/fence.ts";
import { makeDir } from "../../platform/home.ts";
import { secretPlaces } from "../../platform/secret-places.ts";
import { failed } from "../define.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { probeSandbox } from "../shell/exec.ts";
import { complaintOf } from "./arguments.ts";
import { fileNameOf, savedAuth } from "./auth.ts";
import { createHttp, isStreamEnd, wasRefused } from "./http.ts";
import { readResult } from "./result.ts";
import { createStdio, NotDelivered, type Stdio } from "./stdio.ts";

/** As in `mcp_servers`. */
export type McpServer = {
  readonly command?: readonly string[] | undefined;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where a program starts; without one, in a directory of its own. */
  readonly cwd?: string | undefined;
  /** Whether it runs in a sandbox, where it can write in that directory only, and whether it has a network there. */
  readonly sandbox?: boolean;
  /** What it may read there although it lies in something hidden: a program of its own in /tmp. */
  readonly readable?: readonly string[];
  readonly network?: boolean;
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  readonly enabled?: boolean;
  readonly tools?: { readonly include: readonly string[]; readonly exclude: readonly string[] };
};
export type Offered = {
  offer: Offer /** What is wrong with the arguments; null: nothing. */;
  complaint(args: unknown): string | null;
};
export type McpLink = ReturnType<typeof createLink>;
type CallOptions = Pick<ToolCall, "signal" | "print">;
/** `lost`: it is given up, and the next one is waited for. */
type McpConnection = { client: Client; transport: Transport; lost: Promise<void> };
export type LinkOptions = {
  name: string;
  server: McpServer;
  /** HERMES_HOME: programs start in `mcp/<name>` there. */
  home: string;
  /** Where the agent may write: no program is looked up there. */
  roots: readonly string[];
  /** `ownerHere(home)`, by which leftovers of programs are found. */
  owner: string;
  log: Log;
  timeoutMs: number;
  onOffers(offers: Offered[]): void;
};

const CONNECT_MS = 30_000;
/** How long a call waits for a server that is being started again. */
const PATIENCE_MS = 10_000;
const BACKOFF_MS = { first: 500, most: 60_000 };
/** One that lives this long was not broken from the start. */
const HEALTHY_MS = 10_000;
const LONGEST_RESULT = 100_000;
/** A call that reports progress may take longer than its time limit, but not for ever. */
const LONGEST_CALL_MS = 30 * 60_000;
const LONGEST_PROGRESS = 500;
/** For the content of a resource that a result only names. */
const LINK_MS = 10_000;
/** Of a call that was never delivered. */
const ATTEMPTS = 3;

export function createLink({ name, server, home, roots, owner, log, timeoutMs, onOffers }: LinkOptions) {
  const over = new AbortController();
  const first = Promise.withResolvers<void>();
  let up = Promise.withResolvers<McpConnection>();
  let why = "it has not answered";
  /** Cuts a wait before the next try short. */
  let wake = () => {};
  up.promise.catch(() => {});

  async function keep(): Promise<void> {
    for (let failures = 0; !over.signal.aborted; ) {
      const began = performance.now();
      await hold();
      if (over.signal.aborted) break;
      failures = performance.now() - began > HEALTHY_MS ? 0 : failures + 1;
      // The first time at once: most servers that die do so over one call, and the next call wants them back.
      const wait = failures <= 1 ? 0 : backoff(failures - 2, BACKOFF_MS);
      const early = linked([over.signal]);
      wake = () => early.abort();
      await clock.sleep(wait, early.signal);
      early.release();
    }
  }

  /** From here on the next connection is waited for; whoever waits for this one hears that it will not come. */
  function lose(reason: string): void {
    why = reason;
    if (!over.signal.aborted) log("warn", "mcp.lost", { server: name, why });
    first.resolve();
    up.reject(new Error(reason));
    up = Promise.withResolvers();
    up.promise.catch(() => {});
  }

  /** Connects and stays until the connection is gone. */
  async function hold(): Promise<void> {
    let client: Client | null = null;
    let transport: Transport | null = null;
    const gone = Promise.withResolvers<void>();
    const close = () => gone.resolve();
    const release = onAbort(over.signal, close);
    const because = (reason: string) => (isStdio(transport) && transport.ended()) || reason;
    try {
      const lib = await import("@modelcontextprotocol/client");
      transport = await transportOf(lib);
      client = new lib.Client(
        { name: "hermes-ts", version: "0.1.0" },
        {
          listChanged: { tools: { onChanged: (_, tools) => void (tools && offer(tools)) } },
          // By default the library runs a server's own patterns over what it says.
          jsonSchemaValidator: UNCHECKED,
        },
      );
      const onerror = (error: Error) => log("debug", "mcp.error", { server: name, error: messageOf(error) });
      Object.assign(client, { onclose: close, onerror });
      // One that never answers must not keep us from leaving.
      await unlessAborted(client.connect(transport, { timeout: CONNECT_MS }), over.signal);
      const { tools } = await unlessAborted(client.listTools(undefined, { timeout: CONNECT_MS }), over.signal);
      offer(tools);
      const lost = Promise.withResolvers<void>();
      up.resolve({ client, transport, lost: lost.promise });
      first.resolve();
      await gone.promise;
      lose(because("the connection was closed"));
      lost.resolve();
    } catch (error) {
      lose(because(reasonOf(error)));
    }
    release();
    if (transport && "terminateSession" in transport) await politely(transport);
    await client?.close().catch(() => {});
    await transport?.close().catch(() => {}); // also where the client had not begun
  }

  async function transportOf(lib: typeof import("@modelcontextprotocol/client")): Promise<Transport> {
    const { command, args = [], env = {}, url, headers = {} } = server;
    if (url !== undefined) {
      const isKeyed = Object.keys(headers).some((header) => header.toLowerCase() === "authorization");
      const authProvider = isKeyed ? undefined : savedAuth(lib, { home, name, url });
      return createHttp(lib, url, { headers, authProvider });
    }
    const onStderr = (text: string) => log("debug", "mcp.stderr", { server: name, text: plain(text).slice(0, 2_000) });
    // Not where the agent writes: what it puts there (`node_modules`, `.npmrc`) would run with the server's keys.
    const cwd = server.cwd ?? makeDir(join(home, "mcp", fileNameOf(name)));
    const how = { env, cwd, roots, owner, onStderr, sandbox: server.sandbox ? await sandboxFor(cwd) : null };
    return createStdio({ command: [...(command ?? []), ...args], ...how }, lib.deserializeMessage);
  }

  async function sandboxFor(cwd: string): Promise<Sandbox> {
    const probe = await (probing ??= probeSandbox());
    if (!probe.usable) throw new Error(`it must run in a sandbox (mcp_servers.${name}.sandbox), and ${probe.why}`);
    const { readable = [], network = true } = server;
    return { writable: [cwd], readable, hidden: [...secretPlaces(homedir()), home], hostNetwork: network };
  }

  const offer = (tools: Offer[]) =>
    onOffers(tools.map((offer) => ({ offer, complaint: complaintOf(offer.inputSchema) })));

  /** What stands before its words must not be its words. */
  const titleOf = (tool: string) => `MCP server "${name}", tool "${tool.replaceAll(/[^\w./-]/g, "_").slice(0, 64)}"`;

  async function call(tool: string, args: Record<string, unknown>, how: CallOptions): Promise<ToolResult> {
    const { signal } = how;
    const stopping = new AbortController();
    const release = onAbort(signal, () => stopping.abort(new Error("stopped"))); // the server is told this reason
    let connection: McpConnection | null = null;
    try {
      for (let attempt = 1; ; attempt += 1) {
        connection = await connected(signal);
        if (connection === null)
          return failed(`Not run: the MCP server "${name}" is not running (${why}). It is tried again.`);
        try {
          return await ask(connection, { name: tool, arguments: args }, how, stopping.signal);
        } catch (error) {
          const isRefused = error instanceof NotDelivered || wasRefused(error);
          if (!isRefused || attempt === ATTEMPTS || signal.aborted) throw error;
          await drop(connection);
        }
      }
    } catch (error) {
      if (signal.aborted || connection === null) return failed("Stopped. Whether the server had done it is not known.");
      return await notDone(error, connection, tool);
    } finally {
      release();
    }
  }

  async function ask(
    { client }: McpConnection,
    request: { name: string; arguments: Record<string, unknown> },
    { print }: CallOptions,
    stopping: AbortSignal,
  ): Promise<ToolResult> {
    // The library tells the server that it is cancelled. Its word is not waited for.
    const asked = client.callTool(request, {
      signal: stopping,
      timeout: timeoutMs,
      resetTimeoutOnProgress: true,
      maxTotalTimeout: Math.max(timeoutMs, LONGEST_CALL_MS),
      onprogress: (progress) => print?.(progressLine(progress)),
    });
    const { content, structuredContent, isError = false } = await unlessAborted(asked, stopping);
    const { text, images } = await readResult(content, (uri) => {
      const reading = client.readResource({ uri }, { signal: stopping, timeout: LINK_MS });
      return unlessAborted(reading, stopping).then(({ contents }) => contents);
    });
    const words = text || (structuredContent ? JSON.stringify(structuredContent, null, 2) : "");
    const said = asData(titleOf(request.name), atMost(words, LONGEST_RESULT));
    return { ok: !isError, text: said, ...(images.length && { images }) };
  }

  /** Returns when the next connection can be waited for. */
  async function drop({ client, lost }: McpConnection): Promise<void> {
    await client.close().catch(() => {}); // an HTTP connection is known to be lost only when it is used
    await lost;
  }

  async function notDone(problem: unknown, connection: McpConnection, tool: string): Promise<ToolResult> {
    const { transport } = connection;
    const { ProtocolError, SdkError, SdkErrorCode } = await import("@modelcontextprotocol/client");
    const said = atMost(messageOf(problem), 2_000);
    if (problem instanceof ProtocolError && !isStreamEnd(problem))
      return failed(asData(`${titleOf(tool)}, refused`, said));
    if (problem instanceof SdkError && problem.code === SdkErrorCode.RequestTimeout)
      return failed(
        `The MCP server "${name}" did not answer within ${timeoutMs / 1000} s. Whether it was done is not known.`,
      );
    await drop(connection);
    const lost = (isStdio(transport) && transport.ended()) || reasonOf(problem);
    return failed(
      `The MCP server "${name}" was lost during this call (${lost}). Whether it was done is not known; look before doing it again. ` +
        "The server is being started again.",
    );
  }

  /** Null: it is not there, and was waited for. */
  async function connected(signal: AbortSignal): Promise<McpConnection | null> {
    wake();
    const enough = linked([signal, over.signal]);
    const connection = up.promise.catch(() => null);
    const found = await within(clock, PATIENCE_MS, connection, enough.signal);
    enough.release();
    return found ?? null;
  }

  const kept = keep();
  return {
    /** When it has answered for the first time, or failed to. */
    first: first.promise,
    call,
    close: () => {
      over.abort(new Error("closed"));
      return kept;
    },
  };
}

/** With what the libraries keep beside their message: an HTTP status, the system's code. */
function reasonOf(error: unknown): string {
  const status = error instanceof Error && "status" in error ? `HTTP ${String(error.status)}` : "";
  const { cause } = error instanceof Error ? error : {};
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return plain([messageOf(error), status, code].filter(Boolean).join(" ")).slice(0, 300);
}

const isStdio = (transport: Transport | null): transport is Stdio => transport !== null && "ended" in transport;

/** Lets an HTTP server forget the session, if it does so at once. */
async function politely(transport: object): Promise<void> {
  if (!("terminateSession" in transport) || typeof transport.terminateSession !== "function") return;
  const told = Promise.resolve<unknown>(transport.terminateSession()).catch(() => {});
  await within(clock, 1_000, told);
}

/** Once for all servers: two at the same time would end each other. */
let probing: ReturnType<typeof probeSandbox> | null = null;

const UNCHECKED: jsonSchemaValidator = {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it is is for whoever reads it to find out
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

const progressLine = ({ progress, total, message = "" }: Progress): string =>
  `${plain(`${progress}${total === undefined ? "" : `/${total}`} ${message}`).slice(0, LONGEST_PROGRESS)}\n`;
