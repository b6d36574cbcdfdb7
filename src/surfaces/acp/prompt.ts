// A prompt of an editor as the text and the pictures of one message.
import { fileURLToPath } from "node:url";
import { type ContentBlock, RequestError } from "@agentclientprotocol/sdk";
import { messageOf } from "../../core/errors.ts";
import type { Image } from "../../core/session.ts";
import { asData, atMost } from "../../platform/fence.ts";

const MOST = { pictures: 20, pictureBytes: 5_000_000, resource: 200_000 };
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** Throws when a part of it cannot be sent: nothing of a prompt is left out silently. */
export function messageIn(prompt: readonly ContentBlock[]): { text: string; images: Image[] } {
  const images = prompt.flatMap((block) => (block.type === "image" ? [imageOf(block)] : []));
  if (images.length > MOST.pictures) throw refused(`A prompt may have ${MOST.pictures} pictures.`);
  const resources = prompt.flatMap((block) => (block.type === "resource" ? [resourceOf(block.resource)] : []));
  return { text: [inlineOf(prompt), ...resources].filter(Boolean).join("\n\n"), images };
}

/** Text and mentions of files as one sentence. Editors send a mention as a block between two texts. */
function inlineOf(prompt: readonly ContentBlock[]): string {
  let text = "";
  for (const block of prompt) {
    const next = wordsOf(block);
    const glued = !text || /\s$/.test(text) || /^(?:$|[\s.,;:!?)])/.test(next);
    text += glued ? next : ` ${next}`;
  }
  return text.trim();
}

function wordsOf(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return block.text;
    case "resource_link":
      return placeOfUri(block.uri);
    case "resource":
      return placeOfUri(block.resource.uri);
    case "image":
      return "";
    case "audio":
      throw refused("Sound cannot be sent to the model.");
    default:
      block satisfies never;
      return "";
  }
}

/** A file of this machine by its path, anything else by its address. */
function placeOfUri(uri: string): string {
  try {
    const url = new URL(uri);
    return url.protocol === "file:" ? fileURLToPath(url) + url.hash : uri;
  } catch {
    return uri;
  }
}

type EmbeddedContent = Extract<ContentBlock, { type: "resource" }>["resource"];

function resourceOf(resource: EmbeddedContent): string {
  if (!("text" in resource)) throw refused(`${resource.uri} is not text: mention the file instead.`);
  return asData(`from the user's editor: ${placeOfUri(resource.uri)}`, atMost(resource.text, MOST.resource));
}

function imageOf({ mimeType, data }: { mimeType: string; data: string }): Image {
  if (!PICTURES.has(mimeType)) throw refused(`${mimeType}: only PNG, JPEG, GIF and WebP pictures can be sent.`);
  if (data.length * 0.75 > MOST.pictureBytes) throw refused("A picture may have 5 MB: make it smaller.");
  return { mime: mimeType, data };
}

export const refused = (message: string): RequestError => new RequestError(-32602, message);

/** What went wrong, for the person at the editor. */
export const failure = (error: unknown): RequestError =>
  error instanceof RequestError ? error : new RequestError(-32603, messageOf(error));
