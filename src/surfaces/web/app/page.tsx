// What the pages of the console share: their frame, reading from a route, and buttons that act.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, wordsOf } from "./server.ts";

export function Page({ title, about, children }: { title: string; about?: string; children: ComponentChildren }) {
  return (
    <div class="page">
      <header>
        <h1>{title}</h1>
        {about && <p>{about}</p>}
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

export const Empty = ({ children }: { children: ComponentChildren }) => <p class="empty">{children}</p>;
