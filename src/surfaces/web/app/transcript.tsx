// A conversation, drawn turn by turn. Turns that are far from what can be seen are left out, and leave their height behind.
import { useComputed } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { bodyOf, headOf } from "../../../conversation/calls.ts";
import { lasting } from "../../../conversation/updates.ts";
import { Code, diffLines } from "./code.tsx";
import type { CallItem, CallState, ConversationView, Item, TurnGroup } from "./conversation.ts";
import { clockOf, dotted, timeOf } from "./format.ts";
import { Markdown } from "./markdown.tsx";
import { linkTo } from "./route.ts";

/** Pixels beyond what can be seen that are drawn too. */
const MARGIN = 1_500;
/** So near to the end, new words are followed. */
const NEAR_END = 80;
const LONGEST_RESULT = 20_000;
/** Of what a command prints while it runs. */
const SHOWN_LINES = 6;

export function Transcript({ conversation }: { conversation: ConversationView }) {
  const { groups, hasEarlier, loadEarlier } = conversation;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const lastTop = useRef(0);
  const observer = useVisibility(scroller);

  useLayoutEffect(() => {
    const [box, inner] = [scroller.current, content.current];
    if (!box || !inner) return;
    follows.current = true;
    const toEnd = () => {
      if (follows.current) box.scrollTop = box.scrollHeight;
    };
    const grown = new ResizeObserver(toEnd);
    grown.observe(inner);
    grown.observe(box);
    toEnd();
    return () => grown.disconnect();
  }, [conversation]);

  const scrolled = () => {
    const box = scroller.current;
    if (!box) return;
    // Only a person scrolls up. Content that has grown since the scrolling is no reason to stop: its growth is followed a moment later.
    if (box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END) follows.current = true;
    else if (box.scrollTop < lastTop.current) follows.current = false;
    lastTop.current = box.scrollTop;
    if (box.scrollTop > MARGIN || !hasEarlier.value) return;
    if (box.scrollTop === 0) box.scrollTop = 1; // at the very top a browser does not hold its place
    void loadEarlier();
  };

  return (
    <div class="transcript grow" ref={scroller} onScroll={scrolled} tabIndex={0} role="region" aria-label="Transcript">
      <div class="column" ref={content}>
        {hasEarlier.value && (
          <button type="button" class="quiet earlier soft" onClick={() => void loadEarlier()}>
            Show earlier
          </button>
        )}
        {groups.value.map((group, at) => (
          <Turn
            key={`${group.id}.${group.seq}`}
            group={group}
            observer={observer}
            isLast={at === groups.value.length - 1}
          />
        ))}
      </div>
    </div>
  );
}

/** Tells turns when they come near to what can be seen, and when they leave. */
function useVisibility(root: { current: HTMLElement | null }) {
  return useMemo(() => {
    const watchers = new Map<Element, (seen: boolean, height: number) => void>();
    let observer: IntersectionObserver | null = null;
    return {
      watch(element: Element, tell: (seen: boolean, height: number) => void) {
        observer ??= new IntersectionObserver(
          (changes) => {
            for (const { target, isIntersecting, boundingClientRect } of changes)
              watchers.get(target)?.(isIntersecting, boundingClientRect.height);
          },
          { root: root.current, rootMargin: `${MARGIN}px 0px` },
        );
        watchers.set(element, tell);
        observer.observe(element);
        return () => {
          watchers.delete(element);
          observer?.unobserve(element);
        };
      },
    };
  }, []);
}

type TurnProps = { group: TurnGroup; observer: ReturnType<typeof useVisibility>; isLast: boolean };

const Turn = memo(({ group, observer, isLast }: TurnProps) => {
  const box = useRef<HTMLElement>(null);
  const [hidden, setHidden] = useState<number | null>(null);
  useEffect(() => {
    if (box.current) return observer.watch(box.current, (seen, height) => setHidden(seen ? null : height));
    return undefined;
  }, [group]);
  const left = hidden !== null && !isLast;
  return (
    <article
      class="turn"
      ref={box}
      style={left ? { height: `${hidden}px` } : {}}
      aria-label={`Turn, ${timeOf(group.at)}`}
    >
      {!left && <TurnItems group={group} isLast={isLast} />}
    </article>
  );
});

function TurnItems({ group, isLast }: { group: TurnGroup; isLast: boolean }) {
  const version = useComputed(() => group.version.value).value;
  const { items, end, id, at } = group;
  return (
    <div data-version={version}>
      {items.map((item, index) => (
        <ItemView key={index} item={item} version={isLast || end === null ? version : 0} />
      ))}
      {id && (end || !isLast) && (
        <footer class="soft small">
          {end && end.outcome !== "completed" && <b class={end.outcome}>{OUTCOMES[end.outcome]}</b>}
          <a href={linkTo("turn", id)} title={`${timeOf(at)}: the course of this turn`}>
            {dotted(clockOf(at), end && lasting(end.ms), end?.model)}
          </a>
        </footer>
      )}
    </div>
  );
}

const OUTCOMES = { completed: "Done", failed: "Failed", cancelled: "Stopped", interrupted: "Interrupted" };

/** `version`: items are changed in place. */
function ItemView({ item, version }: { item: Item; version: number }) {
  switch (item.kind) {
    case "message":
      return (
        <div class="message">
          {item.by && item.by !== "web" && <span class="by soft">{item.by}</span>}
          {item.images.map(({ mime, data }, at) => (
            <img key={at} src={`data:${mime};base64,${data}`} alt={`Attached ${at + 1}`} />
          ))}
          <p class="as-is">{item.text}</p>
        </div>
      );
    case "answer":
      return (
        <div class={item.live ? "answer live" : "answer"}>
          <Markdown text={item.text} live={item.live} />
        </div>
      );
    case "reasoning":
      return (
        <details class="reasoning">
          <summary class="soft small">{item.live ? "Thinking…" : "Thought"}</summary>
          <p class="soft as-is">{item.text}</p>
        </details>
      );
    case "call":
      return <Call item={item} version={version} />;
    case "decided":
      return (
        <p class="aside">
          {item.allow ? "✓ Allowed" : "✗ Not allowed"}
          {item.text && ` · ${item.text}`}
        </p>
      );
    case "aside":
      return <p class="aside">{item.text}</p>;
  }
}

const STATES: Record<CallState, { mark: string; words: string }> = {
  proposed: { mark: "○", words: "waits" },
  asking: { mark: "?", words: "waits for you" },
  running: { mark: "●", words: "runs" },
  ok: { mark: "✓", words: "done" },
  error: { mark: "✗", words: "failed" },
  denied: { mark: "✗", words: "not allowed" },
  cancelled: { mark: "■", words: "stopped" },
  unknown: { mark: "?", words: "outcome unknown" },
  skipped: { mark: "■", words: "skipped" },
};

/** One line; opened, the arguments and what came of it. */
function Call({ item }: { item: CallItem; version: number }) {
  const { state, tool, args, text, ms, printed } = item;
  const outcome = state === "proposed" || state === "asking" || state === "running" ? undefined : state;
  const head = headOf({ tool, args, ...(outcome && { outcome, text }) });
  const { mark, words } = STATES[state];
  const isDiff = tool === "patch" || tool === "write_file";
  return (
    <div class={`call ${state}`}>
      <details open={isDiff && state === "ok"}>
        <summary>
          <span class="mark" role="img" aria-label={words}>
            {mark}
          </span>
          <b>{head.name}</b>
          <code class="soft cut grow">{head.about}</code>
          <span class="counts soft">{dotted(head.counts, ms !== null && lasting(ms))}</span>
        </summary>
        <div class="result">
          {outcome ? (
            <Result item={{ ...item, outcome, ms: ms ?? 0 }} />
          ) : (
            <Code text={JSON.stringify(args, null, 2)} language="json" />
          )}
        </div>
      </details>
      {!outcome && printed && <pre class="printed as-is soft">{lastLines(printed, SHOWN_LINES)}</pre>}
    </div>
  );
}

function Result({ item }: { item: Parameters<typeof bodyOf>[0] }) {
  const { kind, lines } = bodyOf(item);
  const text = lines.join("\n");
  const cut = text.length > LONGEST_RESULT;
  const shown = cut ? `${text.slice(0, LONGEST_RESULT)}\n[… ${text.length - LONGEST_RESULT} more characters …]` : text;
  return (
    <>
      {kind !== "diff" && <Code text={JSON.stringify(item.args, null, 2)} language="json" />}
      <pre class={`${kind} as-is`} tabIndex={0}>
        {kind === "diff" ? diffLines(lines) : shown}
      </pre>
    </>
  );
}

const lastLines = (text: string, count: number): string => text.trimEnd().split("\n").slice(-count).join("\n");
