// Tokens and cost of model calls: by day as a plot, by model and by conversation as tables.
import { useState } from "preact/hooks";
import { nameOf, short } from "./format.ts";
import { Empty, Page, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";

type UsageRow = {
  day: string;
  model: string;
  session_id: string;
  title: string;
  calls: number;
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  cost: number | null;
};
type UsageSum = { key: string; name: string; calls: number; input: number; output: number; cost: number | null };

const RANGES = [7, 30, 90, 365];
const MOST_SESSIONS = 20;
const [WIDTH, HEIGHT, LEFT, BOTTOM] = [960, 220, 56, 26];

export function UsagePage() {
  const [days, setDays] = useState(30);
  const offset = -new Date().getTimezoneOffset();
  const usage = useRoute<{ data: UsageRow[] }>(`/api/usage?days=${days}&offset=${offset}`);
  const rows = usage.value?.data ?? [];
  const total = sumOf("", "", rows);
  const models = sums(
    rows,
    ({ model }) => model,
    ({ model }) => model,
  );
  const sessions = sums(
    rows,
    ({ session_id }) => session_id,
    ({ session_id, title }) => nameOf(session_id, title),
  );
  return (
    <Page
      title="Usage"
      about={`${short(total.input)} tokens in, ${short(total.output)} out, ${total.calls.toLocaleString()} model calls${costText(total)}`}
    >
      <fieldset class="modes ranges" aria-label="Days">
        {RANGES.map((range) => (
          <label key={range}>
            <input type="radio" name="range" checked={days === range} onChange={() => setDays(range)} />
            <span>{range} days</span>
          </label>
        ))}
      </fieldset>
      {usage.error && <p class="error">{usage.error}</p>}
      {usage.value && rows.length === 0 && <Empty>No model was called in this time.</Empty>}
      {rows.length > 0 && (
        <>
          <section aria-label="By day">
            <h2>Tokens by day</h2>
            <Plot rows={rows} days={days} models={models.map(({ key }) => key)} />
          </section>
          <UsageTable title="By model" sums={models} />
          <UsageTable title="By conversation" sums={sessions.slice(0, MOST_SESSIONS)} links />
        </>
      )}
    </Page>
  );
}

const costText = ({ cost }: UsageSum) => (cost === null ? "" : ` · $${cost.toFixed(2)}`);

function sumOf(key: string, name: string, rows: readonly UsageRow[]): UsageSum {
  const sum: UsageSum = { key, name, calls: 0, input: 0, output: 0, cost: null };
  for (const { calls, input_tokens, output_tokens, cost } of rows) {
    sum.calls += calls;
    sum.input += input_tokens;
    sum.output += output_tokens;
    if (cost !== null) sum.cost = (sum.cost ?? 0) + cost;
  }
  return sum;
}

const sums = (rows: readonly UsageRow[], keyOf: (row: UsageRow) => string, name: (row: UsageRow) => string) =>
  [...Map.groupBy(rows, keyOf)]
    .map(([key, some]) => sumOf(key, some[0] ? name(some[0]) : key, some))
    .sort((a, b) => b.input + b.output - a.input - a.output);

/** One bar a day, in parts by model. */
function Plot({ rows, days, models }: { rows: readonly UsageRow[]; days: number; models: readonly string[] }) {
  const today = new Date();
  const all = Array.from({ length: days }, (_, back) => {
    const day = new Date(today.getFullYear(), today.getMonth(), today.getDate() - (days - 1 - back), 12);
    return [day.getFullYear(), day.getMonth() + 1, day.getDate()]
      .map((part) => String(part).padStart(2, "0"))
      .join("-");
  });
  const byDay = Map.groupBy(rows, ({ day }) => day);
  const tokensOf = (some: readonly UsageRow[]) =>
    some.reduce((sum, row) => sum + row.input_tokens + row.output_tokens, 0);
  const most = Math.max(1, ...[...byDay.values()].map(tokensOf));
  const step = (WIDTH - LEFT) / days;
  const y = (tokens: number) => (tokens / most) * (HEIGHT - BOTTOM - 14);
  const every = Math.ceil(days / 8);
  return (
    <div class="picture" tabIndex={0} role="region" aria-label="Plot">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        role="img"
        aria-label={`Tokens by day; at most ${short(most)} on one day`}
      >
        {[0, 0.5, 1].map((part) => (
          <g key={part} class="tick">
            <line x1={LEFT} x2={WIDTH} y1={HEIGHT - BOTTOM - y(most * part)} y2={HEIGHT - BOTTOM - y(most * part)} />
            <text x={LEFT - 8} y={HEIGHT - BOTTOM - y(most * part) + 4} text-anchor="end">
              {short(Math.round(most * part))}
            </text>
          </g>
        ))}
        {all.map((day, at) => {
          let top = HEIGHT - BOTTOM;
          return (
            <g key={day}>
              {models.map((model, nth) => {
                const tokens = tokensOf((byDay.get(day) ?? []).filter((row) => row.model === model));
                const height = y(tokens);
                top -= height;
                return (
                  tokens > 0 && (
                    <rect
                      key={model}
                      class={`series s${nth % 6}`}
                      x={LEFT + at * step + step * 0.14}
                      y={top}
                      width={step * 0.72}
                      height={height}
                      rx={Math.min(3, step * 0.2)}
                    >
                      <title>{`${day}, ${model}: ${tokens.toLocaleString()} tokens`}</title>
                    </rect>
                  )
                );
              })}
              {at % every === 0 && (
                <text class="words" x={LEFT + at * step + step / 2} y={HEIGHT - 8} text-anchor="middle">
                  {new Date(`${day}T12:00`).toLocaleDateString(undefined, { day: "numeric", month: "short" })}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <ul class="legend">
        {models.slice(0, 6).map((model, nth) => (
          <li key={model}>
            <span class={`swatch s${nth}`} /> {model}
          </li>
        ))}
      </ul>
    </div>
  );
}

const UsageTable = ({
  title,
  sums: all,
  links = false,
}: {
  title: string;
  sums: readonly UsageSum[];
  links?: boolean;
}) => (
  <section aria-label={title}>
    <h2>{title}</h2>
    <div class="table" tabIndex={0} role="region" aria-label={`${title}, table`}>
      <table class="wide">
        <thead>
          <tr>
            <th>{links ? "Conversation" : "Model"}</th>
            <th class="to-right">Calls</th>
            <th class="to-right">Tokens in</th>
            <th class="to-right">Tokens out</th>
            <th class="to-right">Cost</th>
          </tr>
        </thead>
        <tbody>
          {all.map(({ key, name, calls, input, output, cost }) => (
            <tr key={key}>
              <td>{links ? <a href={linkTo("conversations", key)}>{name}</a> : name}</td>
              <td class="to-right">{calls.toLocaleString()}</td>
              <td class="to-right">{input.toLocaleString()}</td>
              <td class="to-right">{output.toLocaleString()}</td>
              <td class="to-right">{cost === null ? "–" : `$${cost.toFixed(4)}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </section>
);
