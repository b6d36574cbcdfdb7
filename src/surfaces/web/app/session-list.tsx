// The list of conversations over all surfaces, the one that changed last first, with search.
import { useEffect, useState } from "preact/hooks";
import type { RemoteRow } from "../../../client/remote.ts";
import { changeCount, nowState } from "./changes.ts";
import { ago, nameOf, sourceOf } from "./format.ts";
import { Icon, IconButton } from "./icons.tsx";
import { go, here, linkTo } from "./route.ts";
import { get, wordsOf } from "./server.ts";
import { newSession } from "./talk.ts";

type SessionLines = { data: RemoteRow[]; next: string | null };

const PAGE = 50;
const TYPING_MS = 200;

export function SessionList() {
  const [words, setWords] = useState("");
  const [children, setChildren] = useState(false);
  const [lines, setLines] = useState<RemoteRow[] | null>(null);
  const [next, setNext] = useState<string | null>(null);
  const [error, setError] = useState("");
  const { value: change } = changeCount;

  const read = async (more: Record<string, string>): Promise<SessionLines> => {
    const query = new URLSearchParams({ q: words.trim(), children: String(children), ...more });
    return get<SessionLines>(`/api/sessions?${query.toString()}`);
  };
  useEffect(() => {
    let isCurrent = true;
    const refresh = async () => {
      try {
        const limit = String(Math.min(200, Math.max(PAGE, lines?.length ?? 0)));
        const page = await read({ limit });
        if (!isCurrent) return;
        setLines(page.data);
        setNext(page.next);
        setError("");
      } catch (cause) {
        if (isCurrent) setError(wordsOf(cause));
      }
    };
    const timer = setTimeout(() => void refresh(), words ? TYPING_MS : 0);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [words, children, change]);

  const more = async () => {
    const page = await read({ limit: String(PAGE), after: next ?? "" });
    setLines([...(lines ?? []), ...page.data]);
    setNext(page.next);
  };
  const asks = new Set(nowState.value?.data.filter(({ status }) => status.asking.length).map(({ id }) => id));
  const Heading = here.value.id ? "h2" : "h1";
  return (
    <nav class="sessions stack" aria-label="Conversations">
      <header class="line">
        <Heading>Conversations</Heading>
        <IconButton icon="plus" label="New conversation" onClick={() => go("conversations", newSession())} />
      </header>
      <search>
        <Icon name="search" />
        <input
          type="search"
          value={words}
          placeholder="Search titles and texts"
          aria-label="Search conversations"
          onInput={(event) => setWords(event.currentTarget.value)}
        />
      </search>
      <label class="check line soft small">
        <input type="checkbox" checked={children} onChange={(event) => setChildren(event.currentTarget.checked)} />
        Include child conversations
      </label>
      {error && <p class="error">{error}</p>}
      <ul class="grow">
        {lines?.map((line) => (
          <li key={line.id}>
            <a href={linkTo("conversations", line.id)} aria-current={here.value.id === line.id ? "page" : undefined}>
              <span class="title cut">
                {line.active && (
                  <span
                    class={asks.has(line.id) ? "dot asks" : "dot"}
                    role="img"
                    aria-label={asks.has(line.id) ? "asks" : "works"}
                  />
                )}
                {nameOf(line.id, line.title)}
              </span>
              <span class="about soft">
                <span class="tag soft">{sourceOf(line.id)}</span>
                <time>{ago(line.updated_at * 1_000)}</time>
              </span>
              {line.snippet && <span class="snippet soft small long">{line.snippet}</span>}
            </a>
          </li>
        ))}
      </ul>
      {lines?.length === 0 && (
        <p class="empty soft">{words ? "Nothing found. Try other words." : "No conversations yet."}</p>
      )}
      {next && (
        <button type="button" class="quiet soft" onClick={() => void more()}>
          Show more
        </button>
      )}
    </nav>
  );
}
