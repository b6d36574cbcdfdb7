// `node gateway-bare.ts DIR PLATFORM PROVIDER REQUEST` : a bot with nothing but the I/O of ours. It polls; a message is one commit
// before it is confirmed, one when it is answered and one when the reply is sent, by the same SQL in a thread; a streaming request
// to the provider with the settings, the tools and the system prompt of the file REQUEST and the chat's messages; and two calls to
// the platform: somebody is typing, and the reply.
import { readFileSync } from "node:fs";
import { fetch } from "undici";
import { openThread, type Row } from "./bare.ts";

type Message = { role: string; content: string };
type Update = { update_id: number; message: { message_id: number; chat: { id: number }; text: string } };

const [dir = "", platform = "", provider = "", requestFile = ""] = process.argv.slice(2);
const { messages: usual, ...request } = JSON.parse(readFileSync(requestFile, "utf8")) as { messages: Message[] };
const system = usual.filter(({ role }) => role === "system");
const conversations = new Map<number, Message[]>();
const thread = await openThread(dir);
console.log("ready");
let offset = 0;
for (;;) {
  const updates = (await call("getUpdates", { offset, timeout: 30, limit: 100 })) as Update[];
  await Promise.all(updates.map(take));
  offset = (updates.at(-1)?.update_id ?? offset - 1) + 1;
}

async function take({ message }: Update): Promise<void> {
  const session = `${message.chat.id}.${message.message_id}`;
  await thread.commit(rowOf(session, 0, message.text));
  void answer(session, message);
}

async function answer(session: string, { chat, text }: Update["message"]): Promise<void> {
  const conversation = conversations.get(chat.id) ?? [];
  conversations.set(chat.id, conversation);
  void call("sendChatAction", { chat_id: chat.id, action: "typing" });
  conversation.push({ role: "user", content: text });
  const said = await ask([...system, ...conversation]);
  conversation.push({ role: "assistant", content: said });
  await thread.commit(rowOf(session, 1, said));
  await call("sendMessage", { chat_id: chat.id, text: said });
  await thread.commit(rowOf(session, 2, ""));
}

async function ask(messages: Message[]): Promise<string> {
  const { body } = await post(`${provider}/v1/chat/completions`, { ...request, messages });
  const decoder = new TextDecoder();
  let said = "";
  let rest = "";
  for await (const bytes of body ?? []) {
    const lines = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const { choices } = JSON.parse(line.slice(6)) as { choices: { delta?: { content?: string } }[] };
      said += choices[0]?.delta?.content ?? "";
    }
  }
  return said;
}

async function call(method: string, params: object): Promise<unknown> {
  const answer = await post(`${platform}/${method}`, params);
  return ((await answer.json()) as { result: unknown }).result;
}

function post(url: string, body: object) {
  return fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** What our own rows of a turn weigh: two entries when it comes, two when it is answered, two when that is sent. */
function rowOf(session: string, version: number, text: string): Row {
  const at = Date.now();
  const fact = JSON.stringify({ kind: "thought", text, calls: [] });
  const first = version * 2 + 1;
  const isNew = version === 0;
  return {
    session,
    node: "1",
    version,
    active: isNew,
    parent: null,
    at,
    state: JSON.stringify({ v: 2, seq: first + 1, step: 1, inbox: [], turn: null, ended: 0, remembered: {} }),
    entries: [first, first + 1].map((seq) => ({ seq, turn: session, at, fact })),
    accepted: isNew ? [{ id: session, digest: "0".repeat(64) }] : [],
    taken: isNew ? [{ id: session, turn: session }] : [],
  };
}
