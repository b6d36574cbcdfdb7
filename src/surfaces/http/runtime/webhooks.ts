// The ends of runs that nobody could be told of: to look at, to try again, to forget.
import type { Announcement } from "../../../core/store.ts";
import { problem, wrongField } from "../server/problem.ts";
import { type Api, ok, type Route, routeTagged } from "../server/route.ts";

const route = routeTagged("webhooks");

const USUAL = 50;
const MOST = 500;

export function webhookRoutes({ runtime }: Pick<Api, "runtime">): Route[] {
  async function dead(id: string): Promise<Announcement> {
    const number = /^\d{1,15}$/.test(id) ? Number(id) : 0;
    const [row] = await runtime.announcements.list({ dead: true, after: number - 1, limit: 1 });
    if (row?.id === number) return row;
    throw problem(404, "webhook_not_found", `There is no dead delivery ${JSON.stringify(id.slice(0, 20))}.`);
  }

  return [
    route("GET", "/api/webhooks/dead", {
      summary: "List failed webhook deliveries, oldest first",
      query: { after: "Only deliveries after this id", limit: `The number of deliveries, up to ${MOST}` },
      answers: { 200: "The list", 400: "after or limit is not a number" },
      async handle({ query }) {
        const limit = Math.min(MOST, whole(query, "limit", USUAL));
        const after = whole(query, "after", 0);
        const rows = await runtime.announcements.list({ dead: true, after, limit: limit + 1 });
        return ok({ object: "list", data: rows.slice(0, limit).map(shown), has_more: rows.length > limit });
      },
    }),
    route("POST", "/api/webhooks/dead/:id/retry", {
      summary: "Send a failed delivery again, with the same id",
      answers: { 200: "Queued; it is sent within seconds", 404: "No delivery has this id" },
      async handle({ params: { id = "" } }) {
        const row = await dead(id);
        await runtime.announcements.update(row.id, { attempts: 0, due: 0, error: row.error, dead: false });
        return ok({ object: "hermes.webhook.delivery", id: row.id, status: "waiting" });
      },
    }),
    route("DELETE", "/api/webhooks/dead/:id", {
      summary: "Delete a failed delivery",
      answers: { 200: "Deleted", 404: "No delivery has this id" },
      async handle({ params: { id = "" } }) {
        const row = await dead(id);
        await runtime.announcements.update(row.id, null);
        return ok({ object: "hermes.webhook.delivery", id: row.id, deleted: true });
      },
    }),
  ];
}

const shown = ({ id, to, session, turn, at, attempts, due, error }: Announcement) => ({
  object: "hermes.webhook.delivery",
  id,
  url: shownUrl(to),
  run_id: turn,
  session_id: session,
  attempts,
  error,
  created_at: at / 1_000,
  failed_at: due / 1_000,
});

/** The address without its query, which is often a secret. */
function shownUrl(url: string): string {
  if (!URL.canParse(url)) return "";
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function whole(query: URLSearchParams, name: string, usual: number): number {
  const given = query.get(name) ?? "";
  if (given === "") return usual;
  if (/^\d{1,15}$/.test(given)) return Number(given);
  throw wrongField(name, "must be a whole number", "invalid_query");
}
