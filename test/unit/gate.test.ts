// Room for turns in flight.
import { describe, expect, it } from "vitest";
import { createGate } from "../../src/engine/gate.ts";

/** Sessions that want to work on one turn after another; `came` is the order in which turns got in. */
function street(room: number) {
  const want = new Map<string, string>();
  const came: string[] = [];
  const inside = new Set<string>();
  const gate = createGate(room, (session) => ask(session));
  function ask(session: string) {
    const turn = want.get(session);
    if (turn === undefined) return;
    const admitted = gate.admit(session, turn, true);
    if (admitted && !inside.has(turn)) came.push(turn);
    if (admitted) inside.add(turn);
  }
  return {
    gate,
    came,
    begins(session: string, turn: string) {
      inside.delete(want.get(session) ?? "");
      want.set(session, turn);
      ask(session);
    },
    /** Waits for a person, or dies. */
    rests(session: string) {
      const turn = want.get(session) ?? "";
      inside.delete(turn);
      expect(gate.admit(session, turn, false)).toBe(true);
    },
    works: (session: string) => ask(session),
    ends(session: string) {
      inside.delete(want.get(session) ?? "");
      want.delete(session);
      expect(gate.admit(session, null, false)).toBe(true);
    },
  };
}

describe("the gate", () => {
  it("lets in as many as there is room for, and holds the others", () => {
    const { gate, begins, came } = street(2);
    for (const session of ["a", "b", "c"]) begins(session, `${session}1`);
    expect(came).toEqual(["a1", "b1"]);
    expect(["a", "b", "c"].map(gate.holds)).toEqual([false, false, true]);
  });

  it("lets in first who came first", () => {
    const { begins, ends, came } = street(1);
    for (const session of ["a", "b", "c", "d"]) begins(session, `${session}1`);
    for (const session of ["a", "b", "c"]) ends(session);
    expect(came).toEqual(["a1", "b1", "c1", "d1"]);
  });

  it("says yes again to the turn that is inside", () => {
    const { gate, begins } = street(1);
    begins("a", "a1");
    begins("b", "b1");
    expect(gate.admit("a", "a1", true)).toBe(true);
    expect(gate.admit("b", "b1", true)).toBe(false);
  });

  it("sends a session with its next turn to the back of the line", () => {
    const { begins, came } = street(1);
    for (const session of ["a", "b", "c"]) begins(session, `${session}1`);
    begins("a", "a2");
    begins("b", "b2");
    begins("c", "c2");
    expect(came).toEqual(["a1", "b1", "c1", "a2"]);
  });

  it("lets a session go on with its next turn when nobody waits", () => {
    const { begins, came } = street(1);
    begins("a", "a1");
    begins("a", "a2");
    expect(came).toEqual(["a1", "a2"]);
  });

  it("gives the place of a turn that waits for a person to the next, and takes it back in line", () => {
    const { gate, begins, rests, works, ends, came } = street(1);
    begins("a", "a1");
    begins("b", "b1");
    rests("a");
    expect(came).toEqual(["a1", "b1"]);
    works("a");
    expect(gate.holds("a")).toBe(true);
    ends("b");
    expect(came).toEqual(["a1", "b1", "a1"]);
  });

  it("forgets one that leaves the line", () => {
    const { gate, begins, ends, came } = street(1);
    for (const session of ["a", "b", "c"]) begins(session, `${session}1`);
    ends("b");
    expect(gate.holds("b")).toBe(false);
    ends("a");
    expect(came).toEqual(["a1", "c1"]);
  });

  it("fills every place that becomes free at once", () => {
    const { begins, rests, came } = street(3);
    for (const session of ["a", "b", "c", "d", "e", "f"]) begins(session, `${session}1`);
    for (const session of ["a", "b", "c"]) rests(session);
    expect(came).toEqual(["a1", "b1", "c1", "d1", "e1", "f1"]);
  });

  it("that is closed lets nobody in who has not worked before", () => {
    const { gate, begins, ends, came } = street(1);
    begins("a", "a1");
    begins("b", "b1");
    gate.close();
    ends("a");
    begins("c", "c1");
    expect(came).toEqual(["a1"]);
    expect(["b", "c"].map(gate.holds)).toEqual([true, true]);
  });

  it("that is closed does not let a session begin its next turn", () => {
    const { gate, begins, came } = street(2);
    begins("a", "a1");
    gate.close();
    begins("a", "a2");
    expect(came).toEqual(["a1"]);
  });

  it("that is closed lets a turn finish that waited for a person, past those who never worked", () => {
    const { gate, begins, rests, works, came } = street(2);
    begins("a", "a1");
    begins("b", "b1");
    begins("c", "c1");
    begins("d", "d1");
    rests("a");
    gate.close();
    rests("b");
    works("a");
    expect(came).toEqual(["a1", "b1", "c1", "a1"]);
  });
});
