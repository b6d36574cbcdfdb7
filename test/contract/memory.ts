// What every memory must do, whatever it keeps its things in. Run on each provider by memory.test.ts.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { MemoryProvider, Whose } from "../../src/memory/provider.ts";

export type Kept = {
  /** The same place each time: what was kept is there after a restart. */
  open(): Promise<MemoryProvider>;
  /** One fact into it. `key` is the same when the same is told again. */
  tell(provider: MemoryProvider, fact: string, whose: Whose, key: string): Promise<unknown>;
  /** What the model would see. */
  ask(provider: MemoryProvider, question: string, whose: Whose): Promise<string | undefined>;
  close(): Promise<unknown>;
};

const ANN = { scope: "telegram:1", session: "agent:main:telegram:dm:1" };
const BOB = { scope: "telegram:12", session: "agent:main:telegram:dm:12" };
const never = () => new AbortController().signal;

/** `place` makes an empty place. */
export function memoryContract(name: string, place: () => Promise<Kept>) {
  describe(name, () => {
    let kept: Kept;
    let provider: MemoryProvider;
    beforeEach(async () => {
      kept = await place();
      provider = await kept.open();
      await provider.initialize?.(never());
    });
    afterEach(async () => {
      await provider.shutdown?.(never());
      await kept.close();
    });
    const tell = (fact: string, whose: Whose, key = Buffer.from(fact).toString("hex")) =>
      kept.tell(provider, fact, whose, key);
    const ask = (question: string, whose: Whose) => kept.ask(provider, question, whose);
    async function restart() {
      await provider.shutdown?.(never());
      provider = await kept.open();
      await provider.initialize?.(never());
    }

    test("has a name, is available, and knows nothing at first", async () => {
      expect(provider.name).toMatch(/^[a-z]+$/);
      expect(provider.isAvailable()).toBe(true);
      expect(await ask("where is the teapot", ANN)).toBe("");
    });

    test("what was told is known, also after a restart", async () => {
      await tell("the teapot is on the top shelf", ANN);
      expect(await ask("where is the teapot", ANN)).toContain("top shelf");
      await restart();
      expect(await ask("where is the teapot", ANN)).toContain("top shelf");
    });

    test("nobody is told what is another's, although their names begin alike", async () => {
      await tell("the teapot of ann is blue", ANN);
      await tell("the teapot of bob is red", BOB);
      expect(await ask("what colour is the teapot", ANN)).toMatch(/^(?!.*red)[\s\S]*blue/);
      expect(await ask("what colour is the teapot", BOB)).toMatch(/^(?!.*blue)[\s\S]*red/);
      expect(await ask("what colour is the teapot", { scope: "telegram:3", session: "agent:main:telegram:dm:3" })).toBe(
        "",
      );
    });

    test("what is told twice is there once, also when a restart comes between", async () => {
      await tell("the teapot is on the top shelf", ANN, "key 1");
      await tell("the teapot is on the top shelf", ANN, "key 1");
      await restart();
      await tell("the teapot is on the top shelf", ANN, "key 1");
      expect((await ask("where is the teapot", ANN))?.split("top shelf")).toHaveLength(2);
    });

    test("many facts told one after another are all there", async () => {
      const facts = ["the teapot is blue", "the kettle is black", "the spoons are silver"];
      for (const fact of facts) await tell(fact, ANN);
      for (const [i, thing] of ["teapot", "kettle", "spoons"].entries())
        expect(await ask(`what about the ${thing}, please`, ANN)).toContain(facts[i]);
    });

    test("words of any language, and words that look like code, come back as they were", async () => {
      const fact = 'Jörgs Teekanne 茶壶 "blau" <b>&amp; C:\\tea\\n {"a":1}';
      await tell(fact, ANN);
      expect(await ask("Jörgs Teekanne", ANN)).toContain(fact);
    });

    test("nothing hangs when nobody waits any more", async () => {
      const gone = AbortSignal.abort();
      const calls = [
        async () => provider.prefetch?.("where is the teapot", ANN, gone),
        async () => provider.systemPromptBlock?.(ANN, gone),
        async () => provider.onSessionEnd?.(ANN, gone),
      ];
      expect(await Promise.allSettled(calls.map((call) => call()))).toHaveLength(3);
    });

    test("the end of a session, and being ended twice, are no trouble", async () => {
      await provider.onSessionEnd?.(ANN, never());
      await provider.shutdown?.(never());
      await provider.shutdown?.(never());
    });

    test("its tools have names and schemas that every model takes, in one array", () => {
      const tools = provider.toolSchemas?.() ?? [];
      for (const { name, description, schema } of tools) {
        expect(name).toMatch(/^memory(_[a-z0-9_]{1,50})?$/);
        expect(description).not.toBe("");
        expect(schema).toMatchObject({ type: "object" });
      }
      expect(provider.toolSchemas?.() ?? tools).toBe(tools);
    });
  });
}
