// What an editor is shown of a tool call: a title, its kind, the files it is about, and the change it makes to them.
import { resolve } from "node:path";
import type { ToolCall, ToolCallContent, ToolKind } from "@agentclientprotocol/sdk";
import { recordOf } from "../../conversation/calls.ts";
import { fenced } from "../../conversation/export.ts";
import { atMost, plain } from "../../platform/fence.ts";

export type ProposedTool = { id: string; tool: string; args: unknown };
type CallShown = Pick<ToolCall, "title" | "kind" | "locations" | "content" | "rawInput">;

const KINDS: Readonly<Record<string, ToolKind>> = {
  read_file: "read",
  skill_view: "read",
  search_files: "search",
  session_search: "search",
  patch: "edit",
  write_file: "edit",
  terminal: "execute",
  process: "execute",
  web_fetch: "fetch",
  web_search: "fetch",
  todo: "think",
};
const LONGEST = { title: 200, output: 50_000 };

/** `dir`: where relative paths of the call start. */
export function describeCall({ tool, args }: ProposedTool, dir: string): CallShown {
  const fields = recordOf(args);
  const content = diffsOf(fields, dir);
  const paths = new Set([
    ...content.flatMap((part) => (part.type === "diff" ? [part.path] : [])),
    ...(typeof fields["path"] === "string" ? [resolve(dir, fields["path"])] : []),
  ]);
  const { offset } = fields;
  const line = typeof offset === "number" ? { line: offset } : {};
  return {
    title: titleOf(tool, fields, [...paths]),
    kind: KINDS[tool] ?? "other",
    locations: Array.from(paths, (path) => ({ path, ...line })),
    content,
    rawInput: args,
  };
}

function titleOf(tool: string, fields: Record<string, unknown>, paths: string[]): string {
  const about = ["command", "url", "query", "pattern", "goal", "name", "action", "question"]
    .map((name) => fields[name])
    .find((value) => typeof value === "string");
  if (tool === "terminal" && about) return `\`${oneLine(about).replaceAll("`", "'")}\``;
  return oneLine([tool, about ?? paths.join(", ")].filter(Boolean).join(" "));
}

const oneLine = (text: string) => plain(text).replaceAll(/\s+/g, " ").slice(0, LONGEST.title);

function diffsOf(fields: Record<string, unknown>, dir: string): ToolCallContent[] {
  const { path, content, edits, diff } = fields;
  const change = (file: string, oldText: string | null, newText: string): ToolCallContent => ({
    type: "diff",
    path: resolve(dir, file),
    oldText,
    newText,
  });
  if (typeof path === "string" && typeof content === "string") return [change(path, null, content)];
  if (typeof diff === "string") return hunksOf(diff).map(({ file, before, after }) => change(file, before, after));
  return (Array.isArray(edits) ? edits : []).flatMap((edit) => {
    const { path: file, old_text: before, new_text: after } = recordOf(edit);
    const isEdit = typeof file === "string" && typeof before === "string" && typeof after === "string";
    return isEdit ? [change(file, before, after)] : [];
  });
}

/** Each hunk of a unified diff as the text before and after it. */
function hunksOf(diff: string): { file: string; before: string; after: string }[] {
  const hunks: { file: string; before: string; after: string }[] = [];
  let from = "";
  let file = "";
  for (const line of diff.split("\n")) {
    const [, sign = "", name = ""] = /^(---|\+\+\+) (?:[ab]\/)?([^\t]*)/.exec(line) ?? [];
    const last = hunks.at(-1);
    if (sign === "---") from = name;
    else if (sign) file = name === "/dev/null" ? from : name;
    else if (line.startsWith("@@")) hunks.push({ file, before: "", after: "" });
    else if (last && /^[-+ ]/.test(line)) {
      if (line[0] !== "+") last.before += `${line.slice(1)}\n`;
      if (line[0] !== "-") last.after += `${line.slice(1)}\n`;
    }
  }
  return hunks;
}

/** What a tool printed or returned, as a block that its own words cannot end. */
export function outputOf(text: string): ToolCallContent[] {
  const shown = atMost(plain(text), LONGEST.output).trimEnd();
  return shown ? [{ type: "content", content: { type: "text", text: fenced("", shown) } }] : [];
}
