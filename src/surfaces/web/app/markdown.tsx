// Markdown as elements, never as markup: what a model says can become text, and links that a person may follow, and nothing else. Raw HTML
// stays text, pictures become links, and a link to this server or with another scheme stays text.
import { lexer, type MarkedToken, type Token, type Tokens } from "marked";
import type { ComponentChildren } from "preact";
import { memo } from "preact/compat";
import { Code } from "./code.tsx";

export const Markdown = memo(({ text, live = false }: { text: string; live?: boolean }) => {
  const at = live ? settledUpTo(text) : 0;
  return (
    <div class="markdown">
      {at > 0 && <Blocks text={text.slice(0, at)} />}
      <Blocks text={text.slice(at)} />
    </div>
  );
});

/** The part of a growing text that is complete is read once, not once a frame. */
const Blocks = memo(({ text }: { text: string }) => <>{blocks(lexer(text, { gfm: true, breaks: true }))}</>);

/** Before the last paragraph that stands outside of a fence and is no part of a list. */
function settledUpTo(text: string): number {
  let at = text.lastIndexOf("\n\n");
  for (; at > 0; at = text.lastIndexOf("\n\n", at - 1)) {
    const before = text.slice(0, at);
    const fences = before.match(/^ {0,3}(?:```|~~~)/gm)?.length ?? 0;
    if (fences % 2 === 0 && /^\n\n[^\s\-*+\d>|]/.test(text.slice(at, at + 3))) return at + 2;
  }
  return 0;
}

const blocks = (tokens: readonly Token[]): ComponentChildren[] => tokens.map(block);

function block(given: Token): ComponentChildren {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- without extensions marked makes no others
  const token = given as MarkedToken;
  switch (token.type) {
    case "heading": {
      const Heading = HEADINGS[token.depth] ?? "h6";
      return <Heading>{inline(token.tokens)}</Heading>;
    }
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return token.tokens ? <>{inline(token.tokens)}</> : token.text;
    case "code":
      return <Code text={token.text} language={token.lang ?? ""} />;
    case "blockquote":
      return <blockquote class="soft">{blocks(token.tokens)}</blockquote>;
    case "list":
      return token.ordered ? (
        <ol start={Number(token.start) || 1}>{token.items.map(item)}</ol>
      ) : (
        <ul>{token.items.map(item)}</ul>
      );
    case "table":
      return table(token);
    case "hr":
      return <hr />;
    case "html":
      return <p>{token.text}</p>;
    case "space":
    case "def":
      return null;
    default:
      return inline([token]);
  }
}

/** Below the headings of the page itself. */
const HEADINGS: Record<number, "h3" | "h4" | "h5" | "h6"> = { 1: "h3", 2: "h4", 3: "h5" };

const item = ({ task, checked, tokens }: Tokens.ListItem) => (
  <li class={task ? "task" : ""}>
    {task && <span aria-label={checked ? "done" : "open"}>{checked ? "☑ " : "☐ "}</span>}
    {blocks(tokens.filter(({ type }) => type !== "checkbox"))}
  </li>
);

const table = ({ header, rows }: Tokens.Table) => (
  <div class="table" tabIndex={0} role="region" aria-label="Table">
    <table>
      <thead>
        <tr>
          {header.map((cell) => (
            <th class={`to-${cell.align ?? "start"}`}>{inline(cell.tokens)}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr>
            {row.map((cell) => (
              <td class={`to-${cell.align ?? "start"}`}>{inline(cell.tokens)}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

const inline = (tokens: readonly Token[]): ComponentChildren[] =>
  tokens.map((given) => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as above
    const token = given as MarkedToken;
    switch (token.type) {
      case "strong":
        return <strong>{inline(token.tokens)}</strong>;
      case "em":
        return <em>{inline(token.tokens)}</em>;
      case "del":
        return <del>{inline(token.tokens)}</del>;
      case "codespan":
        return <code>{token.text}</code>;
      case "br":
        return <br />;
      case "link":
        return <OutsideLink href={token.href}>{inline(token.tokens)}</OutsideLink>;
      case "image":
        return <OutsideLink href={token.href}>{`🖼 ${token.text || token.href}`}</OutsideLink>;
      case "text":
        return token.tokens ? inline(token.tokens) : token.text;
      case "escape":
      case "html":
        return token.text;
      default:
        return token.raw;
    }
  });

/** To another host, in a tab of its own that learns nothing of this one. Where it leads is always shown on hovering. */
function OutsideLink({ href, children }: { href: string; children: ComponentChildren }) {
  const url = URL.canParse(href) ? new URL(href) : null;
  if (!url || !["http:", "https:", "mailto:"].includes(url.protocol) || url.origin === location.origin)
    return <span title={href}>{children}</span>;
  return (
    <a href={url.href} title={url.href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}
