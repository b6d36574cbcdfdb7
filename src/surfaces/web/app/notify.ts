// Tells a person who looks elsewhere that something waits for them: in the title, and as a notification if they allow it.
import { signal } from "@preact/signals";
import type { NowState } from "./changes.ts";
import { questionName } from "./conversation.ts";
import { nameOf } from "./format.ts";
import { go } from "./route.ts";

/** Not there over plain HTTP from another machine. */
const CAN = "Notification" in globalThis;
export const notifying = signal(CAN ? Notification.permission : "denied");

export async function allowNotifications(): Promise<void> {
  notifying.value = await Notification.requestPermission();
}

const told = new Set<string>();

export function notifyOf({ data }: NowState): void {
  const asking = data.flatMap((row) => row.status.asking.map((question) => ({ row, question })));
  document.title = asking.length ? `(${asking.length}) hermes` : "hermes";
  for (const { row, question } of asking) {
    if (told.has(question.call)) continue;
    told.add(question.call);
    if (!document.hidden || notifying.value !== "granted") continue;
    // Under its tag: of several tabs, the browser shows one.
    const shown = new Notification(questionName(question), {
      body: `${nameOf(row.id, row.title)}\n${question.text.slice(0, 200)}`,
      tag: question.call,
    });
    shown.addEventListener("click", () => {
      focus();
      go("conversations", row.id);
    });
  }
}
