// /v1/conversations: the sessions that responses name with `conversation`, and what was said in them. The metadata is a note: the
// journal has no place for it.
import * as z from "zod";
import { pagesOf } from "../../../core/pages.ts";
import type { Runtime } from "../../../core/runtime.ts";
import { titleOf } from "../../../core/title.ts";
import { missing, problem } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged } from "../server/route.ts";
import { createOutput, historyItems, inputItems, itemPage, type ListedItem, PAGE_QUERY, pageOf } from "./items.ts";
import { toHistory } from "./messages.ts";
import { CONVERSATION, items, metadata } from "./response-request.ts";

const route = routeTagged("openai");
const noteOf = (id: string) => `conversation/${id}`;
const sessionOf = (id: string) => `${CONVERSATION}${id}`;
const noted = z.looseObject({ metadata: z.record(z.string(), z.string()) }).catch({ metadata: {} });

const aConversation = z.looseObject({
  id: z.string(),
  object: z.literal("conversation"),
  created_at: z.int(),
  metadata: z.record(z.string(), z.string()),
});

export function conversationRoutes({ runtime, newKey }: Api): Route[] {
  async function found(id: string) {
    const summary = await runtime.summary(sessionOf(id));
    if (summary) return summary;
    throw missing("conversation", id);
  }

  async function shown(id: string) {
    const { createdAt } = await found(id);
    const note = noted.parse((await runtime.notes.get(noteOf(id))) ?? {});
    return { id, object: "conversation", created_at: Math.floor(createdAt / 1_000), metadata: note.metadata };
  }

  return [
    route("POST", "/v1/conversations", {
      summary: "Create a conversation, empty or with messages; a response continues it by its id",
      body: z.looseObject({ items: items.nullish().describe("The first messages"), metadata }),
      example: { items: [{ role: "user", content: "Hello" }] },
      answers: { 200: "The conversation", 400: "A field is wrong" },
      gives: aConversation,
      async handle({ body }) {
        const id = `conv_${newKey().replaceAll("-", "")}`;
        const messages = toHistory((body.items ?? []).flat(), "items");
        const title = titleOf(messages.find(({ role }) => role === "user")?.text ?? "");
        await runtime.create({ session: sessionOf(id), title, messages });
        if (body.metadata) await runtime.notes.set(noteOf(id), { metadata: body.metadata });
        return ok(await shown(id));
      },
    }),

    route("GET", "/v1/conversations/:id", {
      summary: "Read a conversation",
      answers: { 200: "The conversation", 404: "No conversation has this id" },
      gives: aConversation,
      handle: async ({ params: { id = "" } }) => ok(await shown(id)),
    }),

    route("POST", "/v1/conversations/:id", {
      summary: "Change the metadata of a conversation",
      body: z.looseObject({ metadata }),
      example: { metadata: { project: "demo" } },
      answers: { 200: "The conversation", 400: "A field is wrong", 404: "No conversation has this id" },
      gives: aConversation,
      async handle({ params: { id = "" }, body }) {
        await found(id);
        await runtime.notes.set(noteOf(id), { metadata: body.metadata ?? {} });
        return ok(await shown(id));
      },
    }),

    route("DELETE", "/v1/conversations/:id", {
      summary: "Delete a conversation with its messages",
      answers: {
        200: "It is forgotten",
        404: "No conversation has this id",
        409: "A response is being made in it",
      },
      async handle({ params: { id = "" } }) {
        await found(id);
        if ((await runtime.forget(sessionOf(id))) === "busy")
          throw problem(409, "conversation_busy", "A response is being made in it; wait for it, or cancel it.");
        await runtime.notes.set(noteOf(id), undefined);
        return ok({ id, object: "conversation.deleted", deleted: true });
      },
    }),

    route("GET", "/v1/conversations/:id/items", {
      summary: "List the messages and tool calls of a conversation",
      query: PAGE_QUERY,
      answers: { 200: "The list", 404: "No conversation has this id" },
      gives: itemPage,
      async handle({ params: { id = "" }, query }) {
        await found(id);
        return ok(pageOf(await itemsIn(runtime, sessionOf(id)), query));
      },
    }),
  ];
}

async function itemsIn(runtime: Runtime, session: string): Promise<ListedItem[]> {
  const before: ListedItem[] = [];
  const turns = new Map<string, { input: ListedItem[]; output: ReturnType<typeof createOutput> }>();
  for await (const page of pagesOf(runtime, session))
    for (const entry of page) {
      if (entry.kind === "forked") before.push(...historyItems(session, entry.messages));
      if (entry.kind === "accepted")
        turns.set(entry.turn, { input: inputItems(entry.input), output: createOutput({ id: entry.turn }) });
      turns.get(entry.turn)?.output.take(entry);
    }
  return [...before, ...[...turns.values()].flatMap(({ input, output }) => [...input, ...output.items])];
}
