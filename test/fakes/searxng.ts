// A SearXNG server, by its published search API (https://docs.searxng.org/dev/search_api.html): what it would refuse is refused.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const PARAMETERS = new Set(
  "q categories engines language pageno time_range format results_on_new_tab image_proxy autocomplete safesearch theme enabled_plugins disabled_plugins enabled_engines disabled_engines".split(
    " ",
  ),
);

export type FakeSearxng = AsyncDisposable & {
  url: string;
  /** What was searched for. */
  asked: URLSearchParams[];
};

/** `hold`: nothing is answered before. `formats`: as in its settings.yml, where `json` is off unless somebody adds it. `raw`: its whole answer, whatever is asked. */
export async function startSearxng({
  results = [] as unknown[],
  formats = ["html", "json"],
  raw = undefined as string | undefined,
  path = "/search",
  hold = Promise.resolve(),
} = {}): Promise<FakeSearxng> {
  const asked: URLSearchParams[] = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams: query } = new URL(request.url ?? "", "http://searxng");
    const q = query.get("q") ?? "";
    const format = query.get("format") ?? "html";
    const unknown = [...query.keys()].some((name) => !PARAMETERS.has(name));
    const range = query.get("time_range");
    const status =
      pathname !== path
        ? 404
        : !["GET", "POST"].includes(request.method ?? "")
          ? 405
          : !formats.includes(format)
            ? 403
            : !q.trim() || unknown || (range !== null && !["day", "month", "year"].includes(range))
              ? 400
              : 200;
    if (status === 200) asked.push(query);
    const type = { "content-type": status === 200 ? "application/json" : "text/html" };
    const answer = {
      query: q,
      number_of_results: 0,
      results,
      answers: [],
      corrections: [q],
      infoboxes: [],
      suggestions: [q],
    };
    const text =
      status === 200 ? (raw ?? JSON.stringify({ ...answer, unresponsive_engines: [] })) : `<h1>${status}</h1>`;
    void hold.then(() => response.writeHead(status, type).end(text));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}${path.replace(/\/search$/, "")}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
