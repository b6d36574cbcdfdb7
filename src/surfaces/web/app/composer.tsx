// Where a message is written: kept through a reload, with pictures by paste or drop, and with the choice of what it does to a turn that
// runs.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { WEB_COMMANDS } from "../../../conversation/commands/commands.ts";
import { MODE } from "../../../conversation/modes.ts";
import { type Image, MODES } from "../../../core/session.ts";
import type { ConversationView } from "./conversation.ts";
import { Icon, IconButton } from "./icons.tsx";
import { Alert, submits } from "./page.tsx";
import { newId, runtime } from "./server.ts";
import {
  busyMode,
  type Draft,
  draftChanged,
  draftOf,
  keepDraft,
  putBack,
  setMode,
  stop,
  submit,
  takeUpUnsure,
} from "./talk.ts";

const TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const LARGEST = 5_000_000;
const MOST_IMAGES = 10;

export function Composer({ conversation }: { conversation: ConversationView }) {
  const { session, facts } = conversation;
  const [draft, setDraft] = useState<Draft>(() => draftOf(session));
  const [images, setImages] = useState<Image[]>([]);
  const [refused, setRefused] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  const { turn = null, waiting = [] } = facts.value ?? {};
  const isBusy = turn !== null || waiting.length > 0;
  const { value: outside } = draftChanged;

  useEffect(() => {
    takeUpUnsure(session);
    setDraft(draftOf(session));
    // A phone would cover half of the conversation with its keyboard.
    if (matchMedia("(pointer: fine)").matches) area.current?.focus({ preventScroll: true });
  }, [session, outside]);
  useLayoutEffect(() => {
    const box = area.current;
    if (!box) return;
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, 320)}px`;
  }, [draft.text]);

  const change = (text: string) => {
    const next = { text, key: newId() };
    setDraft(next);
    keepDraft(session, next);
  };
  const send = () => {
    if (!draft.text.trim() && !images.length) return;
    submit(conversation, draft, images, busyMode.value);
    setImages([]);
    change("");
  };
  const attach = async (files: Iterable<File>) => {
    const all = [...files];
    const good = all.filter(({ type, size }) => TYPES.includes(type) && size <= LARGEST);
    setRefused(good.length < all.length ? "Only pictures (PNG, JPEG, GIF, WebP) of at most 5 MB can be attached." : "");
    const read = await Promise.all(good.map(pictureOf));
    setImages([...images, ...read].slice(0, MOST_IMAGES));
  };
  const [, typed] = /^\/([a-z]*)$/.exec(draft.text) ?? [];
  const offered = typed === undefined ? [] : WEB_COMMANDS.filter(({ name }) => name.startsWith(typed));

  return (
    <div
      class="composer"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void attach(event.dataTransfer?.files ?? []);
      }}
    >
      <Queue conversation={conversation} />
      {offered.length > 0 && (
        <ul class="commands options" aria-label="Commands">
          {offered.map(({ name, argument, description }) => (
            <li key={name}>
              <button
                type="button"
                onClick={() => {
                  change(`/${name} `);
                  area.current?.focus();
                }}
              >
                <b>/{name}</b> <i class="soft">{argument}</i> <span class="soft cut">{description}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
      {refused && <Alert text={refused} />}
      {images.length > 0 && (
        <div class="pictures">
          {images.map(({ mime, data }, at) => (
            <button
              key={at}
              type="button"
              aria-label={`Remove picture ${at + 1}`}
              onClick={() => setImages(images.toSpliced(at, 1))}
            >
              <img src={`data:${mime};base64,${data}`} alt="" />
              <Icon name="close" />
            </button>
          ))}
        </div>
      )}
      <form onSubmit={submits(send)}>
        <textarea
          ref={area}
          rows={1}
          value={draft.text}
          aria-label="Message"
          placeholder={isBusy ? "Write while it works…" : "Write a message, or / for commands"}
          onInput={(event) => change(event.currentTarget.value)}
          onPaste={(event) => {
            const files = [...(event.clipboardData?.files ?? [])];
            if (files.length) void attach(files);
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              send();
            }
            const [first] = offered;
            if (event.key === "Tab" && !event.shiftKey && first) {
              event.preventDefault();
              change(`/${first.name} `);
            }
            if (event.key === "Escape" && turn) void stop(conversation, "turn");
          }}
        />
        <div class="bar line">
          <label class="button quiet soft" title="Attach pictures">
            <Icon name="picture" />
            <input
              type="file"
              class="unseen"
              accept={TYPES.join(",")}
              multiple
              aria-label="Attach pictures"
              onChange={(event) => void attach(event.currentTarget.files ?? [])}
            />
          </label>
          <span class="grow" />
          {isBusy && (
            <fieldset class="modes" aria-label="What your message does while a turn runs">
              {MODES.map((mode) => (
                <label key={mode} title={MODE[mode].does}>
                  <input type="radio" name="mode" checked={busyMode.value === mode} onChange={() => setMode(mode)} />
                  <span>{mode}</span>
                </label>
              ))}
            </fieldset>
          )}
          {turn && (
            <button
              type="button"
              class="stop"
              title="Stop the turn (Esc)"
              onClick={() => void stop(conversation, "turn")}
            >
              <Icon name="stop" /> Stop
            </button>
          )}
          <button
            type="submit"
            class="primary send"
            disabled={!draft.text.trim() && !images.length}
            aria-label={isBusy ? `Send (${busyMode.value})` : "Send"}
          >
            <Icon name="send" />
          </button>
        </div>
      </form>
    </div>
  );
}

/** What waits for its turn. */
function Queue({ conversation: { session, facts } }: { conversation: ConversationView }) {
  const waiting = (facts.value?.waiting ?? []).filter(({ id }) => id !== facts.value?.turn?.id);
  const [gone, setGone] = useState("");
  if (!waiting.length || !facts.value?.turn) return null;
  const move = (id: string, to: number) => runtime.move(session, id, to);
  const withdraw = async (id: string, text: string, edit: boolean) => {
    const withdrawn = await runtime.withdraw(session, id).catch(() => false);
    if (withdrawn && edit) putBack(session, { text, key: newId() });
    setGone(withdrawn ? "" : "It does not wait any more.");
  };
  return (
    <section class="queue" aria-label="Waiting messages">
      <ol>
        {waiting.map(({ id, mode, text }, at) => (
          <li key={id} class="line">
            <span class="tag soft">{mode}</span>
            <span class="text cut grow">{text}</span>
            <IconButton icon="up" label="Move up" disabled={at === 0} onClick={() => void move(id, at - 1)} />
            <IconButton
              icon="down"
              label="Move down"
              disabled={at === waiting.length - 1}
              onClick={() => void move(id, at + 1)}
            />
            <IconButton icon="edit" label="Edit" onClick={() => void withdraw(id, text, true)} />
            <IconButton icon="close" label="Withdraw" onClick={() => void withdraw(id, text, false)} />
          </li>
        ))}
      </ol>
      {gone && <p class="error">{gone}</p>}
    </section>
  );
}

async function pictureOf(file: File): Promise<Image> {
  const reader = new FileReader();
  const read = new Promise((done) => reader.addEventListener("loadend", done));
  reader.readAsDataURL(file);
  await read;
  if (typeof reader.result !== "string") throw reader.error ?? new Error("The picture cannot be read.");
  return { mime: file.type, data: reader.result.slice(reader.result.indexOf(",") + 1) };
}
