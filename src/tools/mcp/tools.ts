// Tools of MCP servers, as if they were ours: `mcp_<server>_<tool>`. A server's words are data; only its hint that a tool
// changes nothing is believed, since the user chose the server.
import { createHash } from "node:crypto";
import type { Gate, Tool } from "../../core/ports.ts";
import { within } from "../../core/wait.ts";
import { clock } from "../../platform/clock.ts";
import { plain } from "../../platform/fence.ts";
import { isObject } from "../../platform/json.ts";
import { failed } from "../define.ts";
import { createLink, type LinkOptions, type McpLink, type McpServer, type Offered } from "./server.ts";

export type McpOptions = Pick<LinkOptions, "home" | "roots" | "owner" | "log"> & {
  servers: Readonly<Record<string, McpServer>>;
  /** Decides about a tool that may change something; without it a person is asked. */
  gate?: (ask: { text: string; tool: string; session: string }) => Gate | Promise<Gate>;
  /** The list of tools is another one now. */
  onChange?: (tools: Tool[]) => void;
  timeoutMs?: number;
  approvalMs?: number;
  /** How long a start waits for servers; later ones are added when they come. */
  startMs?: number;
};
export type Mcp = ReturnType<typeof createMcp>;

const TIMEOUT_MS = 120_000;
const START_MS = 5_000;
const APPROVAL_MS = 300_000;
const MOST_TOOLS = 100; // of one server: each is in every prompt
const LONGEST = { name: 64, description: 2_000, schema: 20_000 };

export function createMcp(options: McpOptions) {
  const servers = Object.fromEntries(Object.entries(options.servers).filter(([, { enabled }]) => enabled !== false));
  const { home, roots, owner, log, timeoutMs = TIMEOUT_MS } = options;
  const offered = new Map<string, Tool[]>();
  // In the order of the configuration, whoever answered first; of two with one name ("a" + "b_c", "a_b" + "c") the first.
  const tools = () => {
    const named = new Map<string, Tool>();
    for (const name of Object.keys(servers))
      for (const tool of offered.get(name) ?? []) if (!named.has(tool.name)) named.set(tool.name, tool);
    return [...named.values()];
  };
  const links = new Map(
    Object.entries(servers).map(([name, server]): [string, McpLink] => {
      const onOffers = (offers: Offered[]) => {
        const wanted = offers.filter(({ offer }) => isWanted(offer.name, server.tools));
        const usable = wanted.filter(({ offer }) => JSON.stringify(offer.inputSchema).length <= LONGEST.schema);
        const some = usable.slice(0, MOST_TOOLS);
        if (some.length < wanted.length)
          log("warn", "mcp.tools_left_out", { server: name, left: wanted.length - some.length });
        const theirs = some.map(({ offer }) => offer.name);
        const names = namesFor(name, theirs);
        const made = some.map((each, i) => toolOf(name, names[i] ?? "", each, link, options));
        offered.set(name, made);
        log("info", "mcp.tools", { server: name, tools: some.length });
        options.onChange?.(tools());
      };
      const link = createLink({ name, server, home, roots, owner, log, timeoutMs, onOffers });
      return [name, link];
    }),
  );
  const closed = new AbortController();
  const all = Promise.all([...links.values()].map((link) => link.first));
  return {
    ready: within(clock, options.startMs ?? START_MS, all, closed.signal).then(() => {}),
    tools,
    /** Ends the connections, and the servers that we started. */
    close: async () => {
      closed.abort();
      await Promise.all([...links.values()].map((link) => link.close()));
    },
    /** One tool of a server by its own name for it, for our own use. */
    call: async (server: string, tool: string, args: Record<string, unknown>, signal: AbortSignal) =>
      links.get(server)?.call(tool, args, { signal }) ?? failed(`There is no MCP server "${server}".`),
  };
}

const isWanted = (tool: string, { include, exclude } = EVERY): boolean =>
  include.length ? include.includes(tool) : !exclude.includes(tool);
const EVERY: NonNullable<McpServer["tools"]> = { include: [], exclude: [] };

function toolOf(server: string, name: string, { offer, complaint }: Offered, link: McpLink, options: McpOptions): Tool {
  const readOnly = offer.annotations?.readOnlyHint === true;
  const wrong = (args: unknown) => (isObject(args) ? complaint(args) : "they must be an object");
  return {
    name,
    description: plain(`MCP server "${server}": ${offer.description ?? offer.title ?? offer.name}`).slice(
      0,
      LONGEST.description,
    ),
    schema: { ...offer.inputSchema },
    repeatable: readOnly || offer.annotations?.idempotentHint === true,
    judge: (args, session) => {
      const problem = wrong(args);
      if (problem !== null) return { gate: "refuse", result: `Not run, the arguments do not fit: ${problem}` };
      if (readOnly) return { gate: "run" };
      // Nothing that the server says is in it: neither its description nor its spelling of the name.
      const text = `${name}\n${shown(args)}`;
      if (options.gate) return options.gate({ text, tool: name, session });
      const timeoutMs = options.approvalMs ?? APPROVAL_MS;
      return { gate: "ask", kind: "approval", text, choices: ["once", "deny"], timeoutMs };
    },
    run: async (args, how) => {
      const problem = wrong(args);
      if (problem !== null || !isObject(args)) return failed(`Not run, the arguments do not fit: ${problem}`);
      return link.call(offer.name, args, how);
    },
  };
}

/** What could draw over or turn around what a person reads is shown by its number. */
const shown = (args: unknown): string =>
  (JSON.stringify(args, null, 2) ?? "").replaceAll(
    /[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu,
    (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`,
  );

/** Legal for every provider, and different from each other. */
export function namesFor(server: string, tools: readonly string[]): string[] {
  const taken = new Set<string>();
  return tools.map((tool) => {
    const legal = `mcp_${server}_${tool}`.replaceAll(/[^A-Za-z0-9_-]/g, "_");
    const hash = createHash("sha256").update(`${server}\0${tool}`).digest("hex").slice(0, 8);
    const name =
      legal.length > LONGEST.name || taken.has(legal) ? `${legal.slice(0, LONGEST.name - 9)}_${hash}` : legal;
    taken.add(name);
    return name;
  });
}
