// Two real engines on the shared store in memory, each behind a router: what is asked of one is done where the session lives.
import { describe, expect, it } from "vitest";
import { Refusal } from "../../src/core/errors.ts";
import type { AcceptRequest, Peer, Runtime, Update } from "../../src/core/runtime.ts";
import type { Store } from "../../src/core/store.ts";
import { createRouter } from "../../src/engine/router.ts";
import { asStore, createMemoryStore } from "../fakes/memory-store.ts";
import { type Booted, bootEngine, handClock, scriptedModel } from "../fakes/scripted.ts";

type Node = Booted & { model: ReturnType<typeof scriptedModel>; runtime: Runtime };

const said = (text: string, key: string, session = "garden"): AcceptRequest => {
  return { session, source: "test", key, text, mode: "queue", reply: "pull" };
};
const never = new Promise<never>(() => {});

/** `asked`: stands between the nodes. */
async function twoNodes(asked: (peer: Peer, address: string) => Peer = (peer) => peer) {
  const clock = handClock();
  const disk = createMemoryStore({ shared: true, now: clock.now });
  const store = asStore(disk);
  const engines = new Map<string, Peer>();
  const boot = async (address: string): Promise<Node> => {
    const model = scriptedModel();
    const booted = await bootEngine({ disk, clock, model, node: { address, version: "1" } });
    engines.set(address, booted.engine);
    const peerOf = (other: string) => asked(engines.get(other) ?? unreachable, other);
    const { nodes, journal } = store;
    return {
      ...booted,
      model,
      runtime: createRouter({ engine: booted.engine, nodes, journal, peerOf, clock, log: () => {} }),
    };
  };
  return { clock, disk, a: await boot("a"), b: await boot("b") };
}

const lost = () => Promise.reject(new Refusal("store_unavailable", "nothing was heard"));
const unreachable: Peer = {
  accept: lost,
  stop: lost,
  answer: lost,
  grants: lost,
  revoke: lost,
  withdraw: lost,
  move: lost,
  status: lost,
  create: lost,
  fork: lost,
  restoreFiles: lost,
  fileChanges: lost,
  forget: lost,
  follow: async function* () {
    yield await lost();
  },
};

/** What a viewer has seen so far. */
function watch(runtime: Runtime, session: string) {
  const seen: Update[] = [];
  const leave = new AbortController();
  const watching = (async () => {
    for await (const update of runtime.follow(session, "", leave.signal)) seen.push(update);
  })();
  watching.catch(() => {});
  return { seen, watching, leave: () => leave.abort() };
}
const entriesIn = (seen: readonly Update[]) => seen.flatMap((one) => ("entry" in one ? [one.entry.seq] : []));

describe("a session whose node is gone", () => {
  it("may have said anything, until another node has taken it up: a viewer who saw more than is stored is not refused", async () => {
    const clock = handClock();
    const disk = createMemoryStore({ shared: true, now: clock.now });
    const model = scriptedModel();
    let claims = false;
    const between = ({ nodes, ...store }: Store): Store => {
      return { ...store, nodes: { ...nodes, claim: async (...of) => (claims ? nodes.claim(...of) : []) } };
    };
    const a = await bootEngine({ disk, clock, model, node: { address: "a", version: "1" } });
    const { engine } = await bootEngine({ disk, clock, between, node: { address: "b", version: "1" } });
    await a.send("garden", "plan");
    (await model.next()).say("so far");
    expect(await a.engine.status("garden")).toMatchObject({ said: 6 });
    a.kill();
    await clock.pass(10_000);
    expect(await engine.status("garden")).toMatchObject({ turn: { phase: "thinking" }, said: null });
    claims = true;
    await clock.pass(2_000);
    expect(await engine.status("garden")).toMatchObject({ turn: { recoveries: 1 }, said: 0 });
  });
});

describe("a session at work on another node", () => {
  it("takes messages, says how it is, is watched with its live words, and is stopped there", async () => {
    const { clock, disk, a, b } = await twoNodes();
    const { id } = await a.runtime.accept(said("plan", "1"));
    const asked = await a.model.next();
    const viewer = watch(b.runtime, "garden");
    asked.say("so far");
    const next = await b.runtime.accept(said("and the shed", "2"));
    expect(next).toMatchObject({ applied: "queue", replayed: false });
    expect(await b.runtime.status("garden")).toMatchObject({ turn: { id }, inbox: [{ id: next.id }] });
    await clock.pass(1);
    expect(viewer.seen).toContainEqual(expect.objectContaining({ delta: "so far" }));
    expect(await b.runtime.stop({ session: "garden", turn: id })).toBe("stopping");
    expect(asked.signal.aborted).toBe(true);
    (await a.model.next()).answer("the shed");
    await clock.pass(10);
    expect(entriesIn(viewer.seen)).toEqual(disk.all("garden").map(({ seq }) => seq));
    viewer.leave();
    await viewer.watching;
  });

  it("goes on here when that node is gone, and its stream with no gap and no double", async () => {
    const { clock, disk, a, b } = await twoNodes();
    const { id } = await a.runtime.accept(said("plan", "1"));
    await a.model.next();
    const viewer = watch(b.runtime, "garden");
    await clock.pass(10);
    a.kill();
    await clock.pass(10_000);
    (await b.model.next()).answer("whole");
    await clock.pass(10);
    expect(await b.runtime.run(id)).toMatchObject({ status: "completed", output: "whole" });
    expect(entriesIn(viewer.seen)).toEqual(disk.all("garden").map(({ seq }) => seq));
    viewer.leave();
    await viewer.watching;
  });

  it("that hangs: a message is held until it is taken over, and accepted once", async () => {
    let hangs = false;
    const { clock, disk, a, b } = await twoNodes((peer) =>
      hangs ? { ...peer, accept: () => never, follow: () => silence() } : peer,
    );
    await a.runtime.accept(said("plan", "1"));
    await a.model.next();
    hangs = true;
    a.kill();
    const accepting = b.runtime.accept(said("and the shed", "2"));
    await clock.pass(8_000);
    expect(await accepting).toMatchObject({ applied: "queue", replayed: false });
    expect(disk.all("garden").filter(({ kind }) => kind === "accepted")).toHaveLength(2);
  });

  it("that cannot be reached though it lives: refused by name after eight seconds", async () => {
    const { clock, a, b } = await twoNodes(() => unreachable);
    await a.runtime.accept(said("plan", "1"));
    await a.model.next();
    const refused = expect(b.runtime.accept(said("and the shed", "2"))).rejects.toMatchObject({
      code: "store_unavailable",
      message: "nothing was heard. Nobody else has taken over yet; try again.",
    });
    await clock.pass(9_000);
    await refused;
    expect((await b.runtime.accept(said("elsewhere", "3", "yard"))).applied).toBe("began");
  });

  it("whose answer was lost on the way has accepted the message once", async () => {
    let losing = true;
    const { clock, disk, a, b } = await twoNodes((peer) => ({
      ...peer,
      async accept(request) {
        const receipt = await peer.accept(request);
        if (!losing) return receipt;
        losing = false;
        return lost();
      },
    }));
    await a.runtime.accept(said("plan", "1"));
    await a.model.next();
    const accepting = b.runtime.accept(said("and the shed", "2"));
    await clock.pass(100);
    expect(await accepting).toMatchObject({ replayed: true });
    expect(disk.all("garden").filter(({ kind }) => kind === "accepted")).toHaveLength(2);
  });
});

async function* silence(): AsyncGenerator<Update> {
  yield await never;
}

describe("a session that was deleted on another node", () => {
  it("and has begun anew there is not known any more by those who knew it", async () => {
    const { clock, a, b } = await twoNodes();
    const talk = async (node: Node, text: string) => {
      await node.runtime.accept(said(text, text));
      const asked = await node.model.next();
      asked.answer(`you said ${text}`);
      await clock.pass(10);
      return asked.request.messages.flatMap((message) => (message.role === "user" ? [message.text] : []));
    };
    for (const text of ["one", "two", "three"]) await talk(b, text);
    expect(await a.runtime.forget("garden")).toBe("forgotten");
    await talk(a, "four");
    expect(await talk(b, "five")).toEqual(["four", "five"]);
  });
});
