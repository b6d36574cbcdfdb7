// Where the page is: the part of the address behind #, so that a link to a place works, and the server never sees it.
import { signal } from "@preact/signals";

const PAGES = ["now", "conversations", "turn", "schedules", "memory", "skills", "people", "usage", "health"] as const;
export type PageName = (typeof PAGES)[number];
type PageLocation = { page: PageName; id: string };

export const here = signal<PageLocation>(read());
globalThis.addEventListener("hashchange", () => {
  here.value = read();
});

function read(): PageLocation {
  const [, name = "", id = ""] = /^#\/([a-z]+)(?:\/(.*))?$/.exec(location.hash) ?? [];
  const page = PAGES.find((one) => one === name);
  return { page: page ?? "conversations", id: page ? decode(id) : "" };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

export const linkTo = (page: PageName, id = ""): string => `#/${page}${id && `/${encodeURIComponent(id)}`}`;
export const go = (page: PageName, id = ""): void => {
  location.hash = linkTo(page, id);
  here.value = read(); // at once: what is typed next belongs there
};
