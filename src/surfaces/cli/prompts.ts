// The questions of `hermes setup`, on a terminal. Ctrl+C or Esc leaves at any of them.
import { autocomplete, type CANCEL_SYMBOL, intro, isCancel, log, outro, password, select, text } from "@clack/prompts";
import { checkModel } from "../../core/model-names.ts";
import { PROVIDERS, type Provider, providerNamed } from "../../core/providers.ts";
import { printable } from "../../platform/logline.ts";
import { type Answers, type Current, problemOfKey } from "./answers.ts";
import type { ShownEndpoint } from "./models.ts";
import type { SetupFlags, Teller } from "./setup.ts";

type SetupPrompts = {
  flags: SetupFlags;
  clean(text: string): string;
  /** The endpoint that these answers would give. */
  primaryOf(answers: Answers): ShownEndpoint;
};
type Before = Omit<Answers, "key"> & { key?: string };

const LIST_MS = 5_000;
const OTHER = "";

class Left extends Error {}

export function openPrompts({ flags, clean, primaryOf }: SetupPrompts) {
  intro("hermes setup");
  const teller: Teller = {
    step: (line) => log.step(clean(line)),
    success: (line) => log.success(clean(line)),
    warn: (line) => log.warn(clean(line)),
  };

  async function ask({ endpoint, guards }: Current, again?: Answers): Promise<Answers | null> {
    try {
      const before: Before | null = again ?? (endpoint && { ...endpoint, guards });
      const answers = await askModel(before);
      return { ...answers, guards: await askGuards(again?.guards ?? guards) };
    } catch (error) {
      if (error instanceof Left) return null;
      throw error;
    }
  }

  async function askModel(before: Before | null): Promise<Answers> {
    const known = before && before.provider.format !== "demo" ? before.provider : undefined;
    const first = providerNamed(flags.provider) ?? known;
    const provider = answered(
      await select<Provider>({
        message: "Choose a model provider",
        options: PROVIDERS.map((value) => ({ value, label: value.label, hint: value.hint })),
        ...(first && { initialValue: first }),
      }),
    );
    const same = before?.provider === provider ? before : null;
    if (provider.format === "demo") return { provider, baseUrl: "", model: "", key: "" };
    const vendor = provider.usual;
    const given = flags.baseUrl ?? same?.baseUrl ?? vendor?.baseUrl ?? "";
    const baseUrl = vendor ? given : await askAddress(given);
    const usual = flags.model ?? (same?.baseUrl === baseUrl ? same.model : (vendor?.model ?? ""));
    const answers = { provider, baseUrl, model: usual || "unnamed", key: same?.key ?? "" };
    const key = (await askKey(primaryOf(answers).apiKey !== "", vendor !== undefined)) || answers.key;
    return { ...answers, key, model: await askName({ ...answers, key }, usual) };
  }

  const askAddress = async (given: string) =>
    answered(
      await text({
        message: "Address of the server",
        placeholder: "http://127.0.0.1:11434/v1",
        initialValue: given,
        validate: (value = "") =>
          /^https?:\/\/[^\s/]+/.test(value) ? undefined : "Give an address such as http://127.0.0.1:11434/v1",
      }),
    );

  const askKey = async (known: boolean, needed: boolean) =>
    answered(
      await password({
        message: `API key${known ? " (Enter keeps the present one)" : needed ? "" : " (Enter: none)"}`,
        validate: (value = "") => (value || known || !needed ? problemOfKey(value) : "A key is needed."),
      }),
    );

  async function askName(answers: Answers, usual: string): Promise<string> {
    const endpoint = primaryOf(answers);
    log.step(clean(`Asking ${endpoint.baseUrl} for its list of models …`));
    const found = await endpoint.list(LIST_MS);
    if (!Array.isArray(found)) teller.warn(`The list is not available: ${found.reason}`);
    const listed = Array.isArray(found) ? { names: found.map(({ id }) => id) } : { names: [], unread: found.reason };
    const names = [...new Set([...(usual ? [usual] : []), ...listed.names])];
    const chosen =
      Array.isArray(found) && names.length > 0
        ? answered(
            await autocomplete({
              message: "Choose a model",
              placeholder: "type to search",
              maxItems: 10,
              options: [
                ...names.map((value) => ({ value, label: printable(value) })),
                { value: OTHER, label: "another model …" },
              ],
              filter: (typed, { value }) => value === OTHER || value.toLowerCase().includes(typed.toLowerCase()),
            }),
          )
        : OTHER;
    if (chosen !== OTHER) return chosen;
    const typed = await text({
      message: "Name of the model",
      initialValue: usual,
      validate: (value = "") => (value.trim() ? checkModel(listed, value.trim()).refused : "The model needs a name."),
    });
    return answered(typed).trim();
  }

  return {
    teller,
    ask,
    async askWhatNow(failure: string): Promise<"again" | "save" | "leave"> {
      log.error(clean(failure));
      const next = await select({
        message: "What now?",
        options: [
          { value: "again" as const, label: "Change something" },
          { value: "save" as const, label: "Save anyway" },
          { value: "leave" as const, label: "Leave without changes" },
        ],
      });
      return isCancel(next) ? "leave" : next;
    },
    end(line: string, code: number): number {
      outro(line);
      return code;
    },
  };
}

async function askGuards(before: Current["guards"]): Promise<Current["guards"]> {
  const approvals = answered(
    await select({
      message: "Before a risky command",
      options: [
        { value: "manual" as const, label: "ask me", hint: "no answer counts as no" },
        { value: "off" as const, label: "never ask", hint: "commands that are never allowed are still refused" },
      ],
      initialValue: before.approvals,
    }),
  );
  const sandbox = answered(
    await select({
      message: "Run commands in a sandbox",
      options: [
        { value: "auto" as const, label: "if the system supports it" },
        { value: "required" as const, label: "always", hint: "without a sandbox no command runs" },
        { value: "off" as const, label: "never", hint: "commands can do whatever you can" },
      ],
      initialValue: before.sandbox,
    }),
  );
  return { approvals, sandbox };
}

function answered<T>(value: T | typeof CANCEL_SYMBOL): T {
  if (isCancel(value)) throw new Left();
  return value;
}
