// The result of an MCP tool as a model gets it: text, and pictures that really are pictures. All of it is bounded.
import type { CallToolResult } from "@modelcontextprotocol/client";
import type { Image } from "../../core/session.ts";
import { atMost } from "../../platform/fence.ts";
import { trueType } from "../../platform/image-type.ts";

type McpContent = CallToolResult["content"][number];
type ResourceContent = Extract<McpContent, { type: "resource" }>["resource"];
/** `data` is base64. */
type Blob64 = { data: string; mime: string; name: string };

const MOST = { pictures: 4, links: 5 };
/** Characters of base64 of one picture, which is what providers take (5 MB), and of one resource that is only named. */
const LONGEST = { picture: 6_600_000, link: 20_000 };

/** `read` gives what a resource holds that the result only names. */
export async function readResult(
  content: readonly McpContent[],
  read: (uri: string) => Promise<readonly ResourceContent[]>,
): Promise<{ text: string; images: Image[] }> {
  const images: Image[] = [];
  let links = 0;

  function shown({ data, mime, name }: Blob64): string {
    const type = data.length <= LONGEST.picture ? trueType(data) : null;
    if (!type || images.length === MOST.pictures) return `[${name}, ${mime}, not shown]`;
    images.push({ mime: type, data });
    return `[${name}, ${type}: picture ${images.length} of this result]`;
  }
  const resource = (one: ResourceContent): string =>
    "text" in one
      ? `[resource ${one.uri}]\n${one.text}`
      : shown({ data: one.blob, mime: one.mimeType ?? "unknown type", name: `resource ${one.uri}` });

  async function textOf(one: McpContent): Promise<string> {
    switch (one.type) {
      case "text":
        return one.text;
      case "image":
        return shown({ data: one.data, mime: one.mimeType, name: "image" });
      case "resource":
        return resource(one.resource);
      case "resource_link": {
        links += 1;
        const contents = links <= MOST.links ? await read(one.uri).catch(() => []) : [];
        return contents.map((part) => atMost(resource(part), LONGEST.link)).join("\n") || `[resource ${one.uri}]`;
      }
      case "audio":
        return `[audio, ${one.mimeType}]`;
      default:
        one satisfies never;
        return "[unknown content]";
    }
  }

  const texts: string[] = [];
  for (const one of content) texts.push(await textOf(one)); // in order, one after the other: a server may be slow
  return { text: texts.join("\n"), images };
}
