// An editor: `hermes acp` as a real process behind the client of the protocol's own SDK.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import {
  type ClientContext,
  client,
  methods,
  ndJsonStream,
  PROTOCOL_VERSION,
  type PromptResponse,
  type RequestPermissionRequest,
  type SessionUpdate,
} from "@agentclientprotocol/sdk";
import { type Place, program } from "../fakes/hermes.ts";

export type Editor = {
  agent: ClientContext;
  /** All updates of all sessions so far. */
  updates: SessionUpdate[];
  /** All questions so far. Without `permit`, each is answered with "cancelled". */
  asked: RequestPermissionRequest[];
  /** Resolves when there is such an update. */
  sees(what: (update: SessionUpdate) => boolean): Promise<SessionUpdate>;
  /** A new conversation in `cwd`. */
  begin(cwd?: string): Promise<string>;
  prompt(sessionId: string, text: string): Promise<PromptResponse>;
  /** What the agent has said so far. */
  text(): string;
  /** Everything that was printed on stdout and is no message. */
  stray(): string;
  /** As an editor that is closed. Returns the exit code. */
  hangUp(): Promise<number | null>;
};

export async function openEditor(
  place: Place,
  { permit, cwd = place.dir }: { permit?: (request: RequestPermissionRequest) => string; cwd?: string } = {},
): Promise<Editor> {
  const child = spawn(program, ["acp"], { cwd, env: place.env(), stdio: ["pipe", "pipe", "pipe"] });
  const exit = once(child, "exit").then(([code]: (number | null)[]) => code ?? null);
  place.adopt({ kill: (signal) => void child.kill(signal), exit: exit.then((code) => code ?? "SIGKILL") });
  let stray = "";
  child.stdout.on("data", (chunk: Buffer) => {
    for (const line of chunk.toString().split("\n")) if (line && !/^[{]|[}]$/.test(line)) stray += line;
  });
  child.stderr.resume();
  const updates: SessionUpdate[] = [];
  const asked: RequestPermissionRequest[] = [];
  const waiting = new Set<() => void>();
  const connection = client({ name: "test editor" })
    .onNotification(methods.client.session.update, ({ params }) => {
      updates.push(params.update);
      for (const look of waiting) look();
    })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
      asked.push(params);
      const optionId = permit?.(params);
      return { outcome: optionId ? { outcome: "selected", optionId } : { outcome: "cancelled" } };
    })
    .connect(ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
  const { agent } = connection;
  await agent.request(methods.agent.initialize, { protocolVersion: PROTOCOL_VERSION, clientCapabilities: {} });
  return {
    agent,
    updates,
    asked,
    sees: (what) =>
      new Promise((resolve) => {
        const look = () => {
          const found = updates.find(what);
          if (!found) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    begin: async (cwd = place.dir) =>
      (await agent.request(methods.agent.session.new, { cwd, mcpServers: [] })).sessionId,
    prompt: (sessionId, text) =>
      agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] }),
    text: () =>
      updates
        .map((one) =>
          one.sessionUpdate === "agent_message_chunk" && one.content.type === "text" ? one.content.text : "",
        )
        .join(""),
    stray: () => stray,
    hangUp: () => {
      child.stdin.end();
      return exit;
    },
  };
}
