// What the pages of the console share: their frame, reading from a route, and buttons that act.
import type { ComponentChildren, ComponentProps } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, remove, wordsOf } from "./server.ts";

export function Page({ title, about, children }: { title: string; about?: string; children: ComponentChildren }) {
  return (
    <div class="page grow">
      <header>
        <h1>{title}</h1>
        {about && <p class="soft">{about}</p>}
      </header>
      {children}
    </div>
  );
}

export type Reading<T> = { value: T | null; error: string; again(): void };

/** What the route answers, read again whenever `when` changes. */
export function useRoute<T>(path: string, when: unknown = null): Reading<T> {
  const [read, setRead] = useState<{ value: T | null; error: string }>({ value: null, error: "" });
  const [count, setCount] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    get<T>(path).then(
      (value) => isCurrent && setRead({ value, error: "" }),
      (error: unknown) => isCurrent && setRead(({ value }) => ({ value, error: wordsOf(error) })),
    );
    return () => {
      isCurrent = false;
    };
  }, [path, when, count]);
  return { ...read, again: () => setCount(count + 1) };
}

/** Says when it could not be done. `asks`: a second press is needed. */
export function Act(props: {
  children: ComponentChildren;
  act(): Promise<unknown>;
  kind?: string;
  label?: string;
  asks?: boolean;
  disabled?: boolean;
}) {
  const { act, kind = "", label, asks = false, disabled = false, children } = props;
  const [state, setState] = useState<"" | "sure" | "busy">("");
  const [error, setError] = useState("");
  const press = async () => {
    if (asks && state === "") return setState("sure");
    setState("busy");
    try {
      await act();
      setError("");
    } catch (cause) {
      setError(wordsOf(cause));
    }
    return setState("");
  };
  return (
    <>
      <button
        type="button"
        class={state === "sure" ? `${kind} danger` : kind}
        aria-label={state === "sure" ? `Really? ${label ?? ""}` : label}
        disabled={disabled || state === "busy"}
        onBlur={() => state === "sure" && setState("")}
        onClick={() => void press()}
      >
        {state === "sure" ? "Really?" : children}
      </button>
      {error && (
        <span class="error" role="alert">
          {error}
        </span>
      )}
    </>
  );
}

type DeleteProps = { path: string; again(): void; label: string; children: ComponentChildren };

/** Deletes what is at that path of the API. */
export const Delete = ({ path, again, label, children }: DeleteProps) => (
  <Act kind="danger" asks label={label} act={() => remove(path).finally(again)}>
    {children}
  </Act>
);

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty soft">{children}</p>;

/** `empty`: what is said where the list in it was read and has nothing. */
export const Section = (props: { title: string; empty?: string; children: ComponentChildren }) => (
  <section aria-label={props.title}>
    <h2 class="soft">{props.title}</h2>
    {Array.isArray(props.children) && !props.children.length ? <Empty>{props.empty}</Empty> : props.children}
  </section>
);

type RowProps = { name: ComponentChildren; href?: string; about: ComponentChildren; isBad?: boolean };

/** One thing of a list: its name, what is to be said of it, and buttons. */
export const Row = ({ name, href, about, isBad = false, children }: RowProps & { children?: ComponentChildren }) => (
  <article class="row line">
    <div class="what grow">
      {href ? <a href={href}>{name}</a> : <b>{name}</b>}
      <p class={isBad ? "error small long" : "soft small long"}>{about}</p>
    </div>
    {children}
  </article>
);

/** Said at once, also to people who cannot see it. */
export const Alert = ({ text }: { text: string }) => (
  <p class="error" role="alert">
    {text}
  </p>
);

type EditButtonsProps = { text: string; edited: string | null; setEdited(text: string | null): void };

/** `edited`: the new text; null: nobody edits it. */
export function EditButtons({ text, edited, setEdited, save }: EditButtonsProps & { save(): Promise<unknown> }) {
  const isEdited = edited !== null;
  return (
    <>
      {isEdited && (
        <Act kind="primary" act={() => save().then(() => setEdited(null))}>
          Save
        </Act>
      )}
      <button type="button" onClick={() => setEdited(isEdited ? null : text)}>
        {isEdited ? "Cancel" : "Edit"}
      </button>
    </>
  );
}

type TextAreaProps = { label: string; value: string; set(text: string): void; rows: number };

/** Several lines to write. */
export const TextArea = ({
  label,
  set,
  ...rest
}: TextAreaProps & Pick<ComponentProps<"textarea">, "class" | "placeholder">) => (
  <textarea aria-label={label} onInput={(event) => set(event.currentTarget.value)} {...rest} />
);

type SelectProps = { label: string; value: string; set(value: string): void; class?: string };

/** `names`: what can be chosen, and what a person reads. */
export const Select = ({ label, set, names, ...rest }: SelectProps & { names: readonly (readonly string[])[] }) => (
  <select aria-label={label} onChange={(event) => set(event.currentTarget.value)} {...rest}>
    {names.map(([value = "", name]) => (
      <option key={value} value={value}>
        {name}
      </option>
    ))}
  </select>
);

/** For a form that stays where it is. */
export const submits = (act: () => unknown) => (event: SubmitEvent) => {
  event.preventDefault();
  act();
};
