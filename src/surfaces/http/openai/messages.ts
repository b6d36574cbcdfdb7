// Messages as OpenAI's clients send them, as what we keep: the last user message is the input, what was said before it the
// past, what the system says the instructions.
import * as z from "zod";
import type { Image } from "../../../core/session.ts";
import type { Message } from "../../../core/transcript.ts";
import { wrongField } from "../server/problem.ts";

const part = z.union([
  z.looseObject({ type: z.enum(["text", "input_text", "output_text"]), text: z.string() }),
  z.looseObject({ type: z.literal("refusal"), refusal: z.string() }),
  z.looseObject({ type: z.literal("image_url"), image_url: z.union([z.string(), z.looseObject({ url: z.string() })]) }),
  z.looseObject({ type: z.literal("input_image"), image_url: z.string() }),
]);
const content = z.union([z.string(), z.array(part).max(1_000)]);
export const message = z.looseObject({
  role: z.enum(["user", "assistant", "system", "developer", "tool", "function"]).describe("Who wrote the message"),
  content: content.nullish().describe("A text, or a list of parts"),
});
export type WireMessage = z.output<typeof message>;
export const messages = z.array(message).min(1, "must not be empty").max(10_000);

export type Conversation = { text: string; images: Image[]; history: Message[]; instructions: string };

export const MOST_IMAGES = 20;
export const LARGEST_IMAGE = 7_000_000; // of base64: 5 MB, the most that providers take

/** `where` names the field in what we say when it is wrong. */
export function readConversation(list: readonly WireMessage[], where: string): Conversation {
  const last = list.findLastIndex(({ role }) => role !== "system" && role !== "developer");
  const asked = list[last];
  if (asked?.role !== "user" && asked?.role !== "tool")
    throw wrongField(where, "the last message must be the user's, or the result of a tool");
  // A result that no turn waits for is told in words.
  const { text, images } = asked.role === "tool" ? { text: resultText(asked, where), images: [] } : read(asked, where);
  if (!text.trim() && !images.length) throw wrongField(where, "the last message must not be empty");
  return {
    text: text.trim() ? text : "(see the picture)",
    images,
    history: toHistory(list.slice(0, last), where),
    instructions: list.flatMap((one) => (isSystem(one) ? [read(one, where).text] : [])).join("\n\n"),
  };
}

const isSystem = ({ role }: WireMessage) => role === "system" || role === "developer";

/** The result of a tool of the client, as text. */
const resultText = (one: WireMessage, where: string) => `[result of a tool]\n${read(one, where).text}`;

/** What the client's own tools did in the past is told in words. */
export function toHistory(list: readonly WireMessage[], where: string): Message[] {
  return list.flatMap((one): Message[] => {
    const { text, images } = read(one, where);
    switch (one.role) {
      case "user":
        return [{ role: "user", text, ...(images.length && { images }) }];
      case "assistant": {
        const calls = Array.isArray(one["tool_calls"]) ? `[called ${JSON.stringify(one["tool_calls"])}]` : "";
        const said = [text, calls].filter(Boolean).join("\n");
        return said ? [{ role: "assistant", text: said, calls: [] }] : [];
      }
      case "tool":
      case "function":
        return [{ role: "user", text: resultText(one, where) }];
      default:
        return [];
    }
  });
}

export function read({ content: given }: WireMessage, where: string): { text: string; images: Image[] } {
  if (typeof given === "string") return { text: given, images: [] };
  const texts: string[] = [];
  const images: Image[] = [];
  for (const one of given ?? []) {
    if ("text" in one && typeof one.text === "string") texts.push(one.text);
    else if ("refusal" in one && typeof one.refusal === "string") texts.push(one.refusal);
    else if ("image_url" in one) images.push(toImage(one.image_url, where));
  }
  if (images.length > MOST_IMAGES) throw wrongField(where, `at most ${MOST_IMAGES} pictures fit`, "too_many_images");
  return { text: texts.join("\n"), images };
}

const NO_IMAGE = "a picture must be a data: URL in base64 (image/png, jpeg, gif or webp); addresses are not fetched";

function toImage(given: unknown, where: string): Image {
  const named = typeof given === "object" && given !== null && "url" in given ? given.url : given;
  const url = typeof named === "string" ? named : "";
  const [, mime, data] = /^data:(image\/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=]+)$/.exec(url) ?? [];
  if (!mime || !data) throw wrongField(where, NO_IMAGE, "invalid_image");
  if (data.length > LARGEST_IMAGE)
    throw wrongField(where, "a picture has more than 5 MB; make it smaller", "image_too_large");
  return { mime, data };
}
