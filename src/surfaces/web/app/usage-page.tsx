// Tokens and cost of model calls: by day as a plot, by model and by conversation as tables with bars.
import { useEffect, useRef, useState } from "preact/hooks";
import { counted, nameOf, short } from "./format.ts";
import { Empty, Page, Section, useRoute } from "./page.tsx";
import { linkTo } from "./route.ts";

type UsageRow = {
  day: string;
  model: string;
  session_id: string;
  title: string;
  calls: number;
  input_tokens: number;
  output_tokens: number;
  cost: number | null;
};
type UsageSum = { key: string; name: string; calls: number; input: number; output: number; cost: number | null };

type Measure = "tokens" | "cost";

const RANGES = [7, 30, 90, 365];
const MEASURES: readonly Measure[] = ["tokens", "cost"];
const MOST_ROWS = 20;
/** Of the models, in their order. */
const COLOURS = ["#4f5fd8", "#1f9a7d", "#d0922a", "#a066c9", "#c9556b", "#6b7f93"];
/** Days with their date below the plot. */
const MOST_DATES = 6;

export function UsagePage() {
  const [days, setDays] = useState(30);
  const [measure, setMeasure] = useState<Measure>("tokens");
  const offset = -new Date().getTimezoneOffset();
  const usage = useRoute<{ data: UsageRow[]; left: number }>(`/api/usage?days=${days}&offset=${offset}`);
  const { data: rows = [], left = 0 } = usage.value ?? {};
  const before = useRef(Number.POSITIVE_INFINITY);
  useEffect(() => {
    // Until all is counted, or the server gets no further.
    if (left > 0 && left < before.current) usage.again();
    before.current = left || Number.POSITIVE_INFINITY;
  }, [usage.value]);
  const total = sumOf("", "", rows);
  const models = sums(rows, ({ model }) => ({ key: model, name: model }));
  const sessions = sums(rows, ({ session_id: key, title }) => ({ key, name: nameOf(key, title) }));
  const shown = total.cost === null ? "tokens" : measure;
  return (
    <Page
      title="Usage"
      about={
        usage.value
          ? `${short(total.input)} tokens in, ${short(total.output)} out, ${counted(total.calls, "model call")}${costText(total)}`
          : "Counting…"
      }
    >
      <div class="choosing wrap">
        <Choice name="Days" all={RANGES} chosen={days} choose={setDays} label={(range) => `${range} days`} />
        {total.cost !== null && (
          <Choice name="Measure" all={MEASURES} chosen={measure} choose={setMeasure} label={(one) => one} />
        )}
      </div>
      {usage.error && <p class="error">{usage.error}</p>}
      {left > 0 && (
        <p class="aside" role="status">
          Counting: {counted(left, "entry", "entries")} of the journal left.
        </p>
      )}
      {usage.value && left === 0 && rows.length === 0 && <Empty>No model was called in this time.</Empty>}
      {rows.length > 0 && (
        <>
          <section aria-label="By day">
            <h2 class="soft">{shown === "cost" ? "Cost by day" : "Tokens by day"}</h2>
            <Plot rows={rows} days={days} models={models.map(({ key }) => key)} measure={shown} />
          </section>
          <UsageTable title="By model" sums={models} measure={shown} />
          <UsageTable title="By conversation" sums={sessions} measure={shown} links />
        </>
      )}
    </Page>
  );
}

type ChoiceProps<T> = {
  name: string;
  all: readonly T[];
  chosen: T;
  choose(one: NoInfer<T>): void;
  label(one: T): string;
};

const Choice = <T,>({ name, all, chosen, choose, label }: ChoiceProps<T>) => (
  <fieldset class="modes" aria-label={name}>
    {all.map((one) => (
      <label key={one}>
        <input type="radio" name={name} checked={chosen === one} onChange={() => choose(one)} />
        <span>{label(one)}</span>
      </label>
    ))}
  </fieldset>
);

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

const sums = (rows: readonly UsageRow[], by: (row: UsageRow) => Pick<UsageSum, "key" | "name">) =>
  [...Map.groupBy(rows, (row) => by(row).key)]
    .map(([key, some]) => sumOf(key, some[0] ? by(some[0]).name : key, some))
    .sort((a, b) => b.input + b.output - a.input - a.output);

const amountOf = ({ input, output, cost }: UsageSum, measure: Measure): number =>
  measure === "cost" ? (cost ?? 0) : input + output;
const amountText = (amount: number, measure: Measure): string =>
  measure === "cost" ? `$${amount.toFixed(amount < 10 ? 2 : 0)}` : short(Math.round(amount));

type PlotProps = { rows: readonly UsageRow[]; days: number; models: readonly string[]; measure: Measure };

/** One bar a day, in parts by model. */
function Plot({ rows, days, models, measure }: PlotProps) {
  const today = new Date();
  const all = Array.from(
    { length: days },
    (_, back) => new Date(today.getFullYear(), today.getMonth(), today.getDate() - (days - 1 - back), 12),
  );
  const byDay = Map.groupBy(rows, ({ day }) => day);
  const most = Math.max(...[...byDay.values()].map((some) => amountOf(sumOf("", "", some), measure))) || 1;
  const every = Math.ceil(days / MOST_DATES);
  const colour = (nth: number) => COLOURS[nth % COLOURS.length];
  const percent = (amount: number) => `${((amount / most) * 100).toFixed(2)}%`;
  return (
    <div class="picture">
      <div
        class={days > 60 ? "plot dense" : "plot"}
        role="img"
        aria-label={`${measure === "cost" ? "Cost" : "Tokens"} by day; at most ${amountText(most, measure)} on one day`}
      >
        {[1, 0.5, 0].map((part) => (
          <i key={part} class="level soft" style={{ bottom: `${part * 100}%` }}>
            {amountText(most * part, measure)}
          </i>
        ))}
        {all.map((date, at) => {
          const day = dayOf(date);
          const byModel = Map.groupBy(byDay.get(day) ?? [], ({ model }) => model);
          return (
            <div key={day} class="day grow">
              {models.map((model, nth) => {
                const amount = amountOf(sumOf(model, model, byModel.get(model) ?? []), measure);
                const title = `${day}, ${model}: ${measure === "cost" ? `$${amount.toFixed(4)}` : `${amount.toLocaleString()} tokens`}`;
                return (
                  amount > 0 && (
                    <i key={model} title={title} style={{ background: colour(nth), height: percent(amount) }} />
                  )
                );
              })}
              {(days - 1 - at) % every === 0 && (
                <span class={(days - 1 - at) % (2 * every) ? "soft second" : "soft"}>
                  {date.toLocaleDateString(undefined, { day: "numeric", month: "short" })}
                </span>
              )}
            </div>
          );
        })}
      </div>
      <ul class="legend soft small">
        {models.slice(0, COLOURS.length).map((model, nth) => (
          <li key={model}>
            <i class="swatch" style={{ background: colour(nth) }} /> {model}
          </li>
        ))}
      </ul>
    </div>
  );
}

const dayOf = (date: Date): string =>
  [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");

type TableProps = { title: string; sums: readonly UsageSum[]; measure: Measure; links?: boolean };

function UsageTable({ title, sums: all, measure, links = false }: TableProps) {
  const amount = (sum: UsageSum) => amountOf(sum, measure);
  const largest = all.toSorted((a, b) => amount(b) - amount(a)).slice(0, MOST_ROWS);
  const most = Math.max(...largest.map(amount)) || 1;
  return (
    <Section title={title}>
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
            {largest.map((sum) => (
              <tr key={sum.key}>
                <td class="long">
                  {links ? <a href={linkTo("conversations", sum.key)}>{sum.name}</a> : sum.name}
                  <i class="share" style={{ width: `${((amount(sum) / most) * 100).toFixed(2)}%` }} />
                </td>
                <td class="to-right">{sum.calls.toLocaleString()}</td>
                <td class="to-right">{sum.input.toLocaleString()}</td>
                <td class="to-right">{sum.output.toLocaleString()}</td>
                <td class="to-right">{sum.cost === null ? "–" : `$${sum.cost.toFixed(4)}`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}
