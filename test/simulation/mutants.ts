// Planted bugs. A simulator is only as good as what it catches: each of these is put into the source as it is loaded,
// and must be found. An edit's text stands in its file exactly once, so a bug that the code has outgrown is noticed.
/** `nodes`: only several nodes can meet it. */
export type Mutant = { name: string; nodes?: boolean; edits: { file: string; find: string; plant: string }[] };

const bug = (name: string, file: string, ...edits: [string, string, string?][]): Mutant => ({
  name,
  edits: edits.map(([find, plant, other]) => ({ file: other ?? file, find, plant })),
});

/** Looked for where several nodes share a store. */
const OF_SEVERAL_NODES: Mutant[] = [
  bug("a node that was reaped claims", "test/fakes/memory-store/nodes.ts", [
    "if (!node || node.leaving) return [];",
    "if (node?.leaving) return [];",
  ]),
  bug("a claim gives what another node has taken meanwhile", "test/fakes/memory-store/nodes.ts", [
    "kept.active && (!kept.owner || (kept.owner === id && kept.writer !== id))",
    "kept.active && kept.writer !== id",
  ]),
  bug("a node is reaped by another one's clock", "test/fakes/memory-store/nodes.ts", [
    "leaseUntil < now() ?",
    "leaseUntil < now() + 3_000 ?",
  ]),
  bug("a lease counts from its answer, and is not shorter than the store's", "engine/membership.ts", [
    "const VALID_MS = 4_000;",
    "const VALID_MS = 6_000;",
  ]),
  bug(
    "a lease by the node's wall clock",
    "engine/membership.ts",
    ["const sent = clock.monotonic();\n    const joined", "const sent = clock.now();\n    const joined"],
    ["const sent = clock.monotonic();\n    const beat", "const sent = clock.now();\n    const beat"],
    ["validUntil - clock.monotonic()", "validUntil - clock.now()"],
    ["clock.monotonic() < validUntil", "clock.now() < validUntil"],
  ),
  bug("a lease that is over aborts nothing", "engine/moves.ts", ["    slot.inflight.reconcile([]);\n", ""]),
  bug("work that died before its node joined again stands for the same work begun since", "engine/dispatch.ts", [
    "(flies() ? null : {",
    "(flies() === undefined ? null : {",
  ]),
  bug("a reply forgets that it was sent, since a lease was over for a moment", "engine/dispatch.ts", [
    "for (let attempt = 0; member.shared && !member.isValid() && !isOver(); attempt++) await pause(attempt, signal);",
    "if (member.shared && !member.isValid()) return false;",
  ]),
  bug("a node that joins again keeps what it knew", "engine/moves.ts", [
    "for (const slot of slots.values()) drop(slot);",
    "for (const slot of slots.values()) slot.inflight.reconcile([]);",
  ]),
  bug("a hint that is lost is never looked for", "engine/membership.ts", [
    "const found = await nodes.claim(self, world.room());",
    "if (!look.signal.aborted) return;\n    const found = await nodes.claim(self, world.room());",
  ]),
  bug("a beat that is not answered keeps the lease", "engine/membership.ts", [
    "      else await lose();\n",
    "      else await clock.sleep(LOOK_MS, over.signal);\n",
  ]),
  bug("a delivery does not look at the lease", "agent/deliver.ts", [
    "if (!(await cx.owned()) || cx.signal.aborted)",
    "if (cx.signal.aborted)",
  ]),
  bug("an unknown commit is judged by its version alone", "engine/commit.ts", [
    "row?.version === version + 1 && row.writer === node",
    "row?.version === version + 1",
  ]),
  bug("a session that was handed over keeps its step", "core/turn.ts", [
    "const again = { ...s, step: s.step + 1 }; // what the dead process had in flight is void",
    "const again = s;",
  ]),
  bug("a session is handed over in the middle of a tool that cannot be repeated", "engine/moves.ts", [
    `if (effect.do !== "act") return effect.do === "deliver";`,
    "if (effect) return false;",
  ]),
  bug("a session at rest is free before its memory is told", "engine/dispatch.ts", [
    "hasWork(state) || unsaved(state, rules).length > 0;",
    "hasWork(state);",
  ]),
  bug("a no is said from what was known long ago", "engine/dispatch.ts", [
    `const certain = !slot.row || isOurs(slot.row) || options.look === "cached";`,
    "const certain = true;",
  ]),
  bug("what a look found is not taken up", "engine/moves.ts", [
    "          if (!isOurs(slot.row)) forgetRow(slot);",
    "          if (isOurs(slot.row)) return;",
  ]),
  bug(
    "a router sends to a dead owner for ever",
    "engine/router.ts",
    [
      "const began = clock.monotonic();\n    for",
      "const began = Number.POSITIVE_INFINITY;\n    let known: unknown;\n    for",
    ],
    ["return await call(engine);", "if (known) throw known;\n        return await call(engine);"],
    [
      "const owner = error instanceof Elsewhere ? error : null;",
      "const owner = error instanceof Elsewhere ? error : null;\n        known = owner;",
    ],
  ),
  bug("a router accepts twice when the first answer was lost", "engine/router.ts", [
    "accept: ({ admit, ...request }) =>\n      at((node) => node.accept(node === engine && admit ? { ...request, admit } : request)),",
    `accept: (request) => {
      let tries = 0;
      const named = () => ({ ...request, key: tries++ ? \`\${request.key} again\` : request.key });
      return at((node) => node.accept(node === engine ? request : named()));
    },`,
  ]),
  bug("a stream that is cut on one node resumes on another with a gap", "engine/router.ts", [
    "why = messageOf(broken);",
    `why = messageOf(broken);
            place = String(Number.parseInt(place || "0", 10) + 1);`,
  ]),
  bug("a viewer waits for a node that is gone", "engine/router.ts", ["if (!living.has(node)) {", "if (!living) {"]),
  bug("a conversation is kept that was deleted on another node", "engine/dispatch.ts", [
    "    if (isAnother) slot.transcript = null;\n",
    "",
  ]),
  bug(
    "the address of a session is kept when its node changes",
    "engine/moves.ts",
    ["const address = addresses.get(owner);", "const address = addresses.get(slot.key);"],
    ["addresses.set(found.node, found.address);", "addresses.set(slot.key, found.address);"],
  ),
  bug("a node that stood still shows words that are over", "engine/stream.ts", [
    "isBehind ? null : source.live()",
    "source.live()",
  ]),
  bug("a viewer does not hear that its session was taken up here", "engine/moves.ts", [
    "if (!isOurs(slot.row)) forgetRow(slot);",
    "if (!isOurs(slot.row)) slot.row = null;",
  ]),
  bug("a run that was deleted on another node is shown", "engine/engine.ts", [
    "sessions.isOurs(row) ? recent?.turn(id) : null",
    "recent?.turn(id)",
  ]),
  bug("a read is shared with those who know of another node's change", "engine/shared-reads.ts", [
    "const known = alone() ? reading.get(id) : undefined;",
    "const known = reading.get(id);",
  ]),
].map((mutant) => ({ ...mutant, nodes: true }));

export const MUTANTS: Mutant[] = [
  // The machine
  bug(
    "a late result counts",
    "core/turn.ts",
    [`if ("step" in e && e.step !== s.step) return s; // T2`, ""],
    // The engine drops it too: T2 is for the one that slips through.
    [`if (flight.state === "dying") return`, `if (flight.state === "dying" && !event) return`, "engine/inflight.ts"],
    ["if (cx.signal.aborted) return null; // whatever it ended with: that was us (I12)", "", "agent/attempts.ts"],
  ),
  bug("a turn ends before its work is dead", "core/turn.ts", [
    "if (!alive.length) return end(s, turn, outcome, cx);",
    "if (alive) return end(s, turn, outcome, cx);",
  ]),
  bug("an interrupting message waits at the end", "core/turn.ts", [
    `if (input.mode !== "interrupt" || !first) return`,
    "if (input) return",
  ]),
  bug("a newer message that interrupts waits for the older one's turn", "core/turn.ts", [
    "inbox: [input, ...rest.toSpliced(at < 0 ? rest.length : at, 0, first)] };",
    "inbox: [first, ...rest.toSpliced(at < 0 ? rest.length : at, 0, input)] };",
  ]),
  bug("a steer joins an answer that is made", "core/turn.ts", [
    `return conclude(s, thought, "completed", from, cx);\n    }\n    case "acted"`,
    `return s.inbox.some((w) => w.mode === "steer") ? think(s, thought, cx) : conclude(s, thought, "completed", from, cx);
    }
    case "acted"`,
  ]),
  bug("an interrupt hits the turn it brings", "core/turn.ts", [
    `const phase: Phase = { at: task === "compress" ? "compacting" : "thinking" };`,
    `const phase: Phase = first.mode === "interrupt"
      ? { at: "stopping", outcome: "cancelled", alive: [\`think:\${s.step + 1}\`] } : { at: "thinking" };`,
  ]),
  bug("a stop hits whatever turn runs", "core/turn.ts", [
    "if (turn?.id === e.turn && phase && busy(phase)) return stop(",
    "if (turn && phase && busy(phase)) return stop(",
  ]),
  bug("what is stopped before its start runs", "core/turn.ts", [
    "return withdraw(s, e.turn, cx); // a stop before the start (I8)",
    "return s; // a stop before the start (I8)",
  ]),
  bug("no result for a crashed call", "core/turn.ts", [`lose(turn.id, resume ? crashed : phase.calls, cx); // T7`, ""]),
  bug("a crashed call runs again", "core/turn.ts", [
    `const crashed = phase.calls.filter((c) => c.status === "running" && !(c.repeatable && resume));`,
    `const crashed = phase.calls.filter((c) => c.status === "running" && !resume);`,
  ]),
  bug("no result for a cancelled call", "core/turn.ts", [
    `finishCalls(turn.id, turn.phase.calls, "cancelled",`,
    `finishCalls(turn.id, [], "cancelled",`,
  ]),
  bug("attempts at recovery are not counted", "core/turn.ts", [
    "const counted = { ...turn, recoveries: attempt }; // T9",
    "const counted = turn;",
  ]),
  bug("a crash loop is never parked", "core/turn.ts", [
    "if (attempt > cx.rules.recoveries) {",
    "if (attempt > 1_000) {",
  ]),
  bug("a parked session stays parked", "core/turn.ts", [
    "enqueue({ ...s, parked: false }, input)",
    "enqueue(s, input)",
  ]),
  bug("of a pause and a resume either stands", "engine/engine.ts", ["pausing.then(work)", "work()"]),
  bug("a full inbox keeps a parked session asleep", "engine/engine.ts", [
    "limits.inbox && (state.turn || !state.parked)",
    "limits.inbox",
  ]),
  bug("a parked session takes one more while its last reply is on its way", "engine/engine.ts", [
    "limits.inbox && (state.turn || !state.parked)",
    "limits.inbox + Number(state.parked)",
  ]),
  bug("a steer that comes too late is lost", "core/turn.ts", [
    `s.inbox.map((w): Waiting => (w.mode === "steer" ? { ...w, mode: "queue" } : w));`,
    `s.inbox.filter((w): w is Waiting => w.mode !== "steer");`,
  ]),
  bug("an approval is decided twice", "core/turn.ts", [
    `phase.calls.find((c) => c.id === e.call && c.status === "asking"); // T8`,
    "phase.calls.find((c) => c.id === e.call && c.ask); // T8",
  ]),
  bug("a denied call runs", "core/turn.ts", [
    `if (allow && call.ask?.kind === "approval") return "waiting";`,
    `if (call.ask?.kind === "approval") return "waiting";`,
  ]),
  bug("a turn in which nobody can be asked waits for a person", "core/turn.ts", [
    "if (!unattended) return calls;",
    "if (calls.length) return calls;",
  ]),
  bug("a call of the client's tool is decided without its client", "core/turn.ts", [
    `if (call.status !== "asking" || isForClient(call, unattended)) return call;`,
    `if (call.status !== "asking") return call;`,
  ]),
  bug("a client's result runs the call here as well", "core/turn.ts", [
    `if (allow && call.ask?.kind === "approval") return "waiting";`,
    `if (allow && call.ask?.kind !== "question") return "waiting";`,
  ]),
  bug("what waited in the inbox forgets that nobody can be asked", "core/turn.ts", [
    "const input = { id, mode, reply, seq, ...givenTo(e.input) };",
    `const input: Waiting = { id, mode, reply, seq, ...givenTo(e.input) };
      if (turn) delete input.unattended;`,
  ]),
  bug("nobody says yes", "core/turn.ts", [
    `const allow = unattended === "allow" && call.ask?.kind === "approval";`,
    `const allow = call.ask?.kind === "approval";`,
  ]),
  bug("a steer changes who can be asked", "core/turn.ts", [
    `return { ...s, step: s.step + 1, inbox, turn: { ...turn, phase: { at: "thinking" } } };`,
    `const steer = s.inbox.find((w) => w.mode === "steer");
  return { ...s, step: s.step + 1, inbox, turn: { ...turn, ...(steer && givenTo(steer)), phase: { at: "thinking" } } };`,
  ]),
  bug("a tool that must be alone has company", "core/turn.ts", [" && !others.some((c) => c.alone);", ";"]),
  bug("the next turn waits for another message", "core/turn.ts", [
    "return begin({ ...s, step: s.step + 1, inbox, turn: null, ended, remembered }, cx); // T4",
    "return { ...s, step: s.step + 1, inbox, turn: null, ended, remembered };",
  ]),
  bug("a stop counts as a restart", "core/transcript.ts", [
    `transcript.unread = ending === "lost" && last === "tool";`,
    `transcript.unread = last === "tool";`,
  ]),
  bug("the note after a crash is repeated", "core/transcript.ts", [
    'push({ role: "user", text, ...(images && { images }) });',
    `push({ role: "user", text: transcript.begun.unread ? \`\${UNREAD_RESULTS}\\n\\n\${text}\` : text });`,
  ]),
  bug("a turn without an answer leaves no sign", "core/transcript.ts", [
    `if (!transcript.unread) push({ role: "assistant"`,
    `if (transcript.seq < 0) push({ role: "assistant"`,
  ]),

  // The engine
  bug("acknowledged before the commit", "engine/dispatch.ts", [
    "const verdict = await commit(made, orphan ? {} : options);",
    `const verdict = "done" as Verdict; commit(made, orphan ? {} : options).catch(() => {});`,
  ]),
  bug("started before the commit", "engine/dispatch.ts", [
    "const at = clock.now();",
    "const at = clock.now(); slot.inflight.reconcile(work(state, rules));",
  ]),
  bug("a dead process's turn is taken up uncounted", "engine/dispatch.ts", [
    "const isOrphan = (row: StoredRow) => row.writer !== member.id() && hasWork(row.state);",
    "const isOrphan = (row: StoredRow) => row.writer === null && hasWork(row.state);",
  ]),
  bug("no dedupe", "engine/commit.ts", ["accepted: accepted ? [accepted] : [],", "accepted: [],"]),
  bug("no fencing", "engine/dispatch.ts", [
    "const made = { session: slot.key, node,",
    "const made = { session: slot.key, node: (await nodes.list())[0]?.id ?? node,",
  ]),
  bug("an unknown commit is taken for done", "engine/commit.ts", ["return await look(made, error);", `return "done";`]),
  bug("text after a stop", "engine/dispatch.ts", [
    "if (state.step !== row.state.step) hold(",
    "if (state.step < 0) hold(",
  ]),
  bug("a drain starts new turns", "engine/engine.ts", ["    sessions.admitNoMore();\n", ""]),
  bug("a drain interrupts", "engine/engine.ts", [
    'const waits = draining || (isPaused && request.mode === "interrupt");',
    'const waits = isPaused && request.mode === "interrupt";',
  ]),
  bug("a pause starts new turns", "engine/gate.ts", ["open && !paused", "open"]),
  bug("a pause does not survive", "engine/engine.ts", [
    "await sessions.start(mine, async () => void (await inOrder(paused)));",
    "await sessions.start(mine, async () => {});",
  ]),
  bug("a resume leaves turns in line", "engine/gate.ts", ["      if (!on) next();\n", ""]),
  bug("an inbox without end", "engine/engine.ts", [
    "if (state.inbox.length >= limits.inbox &&",
    "if (state.inbox.length > 1e9 &&",
  ]),
  bug("a stop that waits for what never started", "engine/dispatch.ts", [
    "if (!slot.inflight.flights.has(key)) settle(slot, key, false);",
    "{}",
  ]),
  bug("one failed read refuses a session for ever", "engine/line.ts", [
    "slot.line.trouble = null; // it was this one's",
    "// it was this one's",
  ]),
  bug("a memory that is gone keeps its sessions", "engine/dispatch.ts", [
    `if (hasWork(state)) return "busy";`,
    `if (hasWork(state) || unsaved(state, rules).length) return "busy";`,
  ]),
  bug("a memory is told of what was deleted", "engine/dispatch.ts", ["            know(slot, NEW);\n", ""]),
  bug("work that throws is tried for ever", "engine/dispatch.ts", ["const TRIES = 5;", "const TRIES = 1e9;"]),
  bug("an observer that throws fails what has landed", "engine/dispatch.ts", [
    `log("error", "observer.threw",`,
    `throw error; log("error", "observer.threw",`,
  ]),
  bug("no limit of turns in flight", "engine/gate.ts", ["if (!may || inside.size >= room) {", "if (!may) {"]),
  bug("a place in the line is never given up", "engine/gate.ts", ["    if (left) next();\n", ""]),
  bug("a turn that waits for the network keeps its place", "engine/dispatch.ts", [
    "HEAVY[effect.do] && withoutPlace.get(effect.key) !== null)",
    "HEAVY[effect.do])",
  ]),
  bug("a turn takes its place again without asking", "engine/place-wait.ts", [
    "    if (!signal.aborted) await placeAgain(slot, effect, signal);\n",
    "",
  ]),
  bug("a turn never gets its place again", "engine/dispatch.ts", [
    "    if (admitted) for (const goOn of withoutPlace.values()) goOn?.();\n",
    "",
  ]),
  bug("a turn that waits in line for its place is begun anew", "engine/dispatch.ts", [
    "admitted || !HEAVY[e.do] || withoutPlace.has(e.key)",
    "admitted || !HEAVY[e.do]",
  ]),
  bug("finished work is started again", "engine/inflight.ts", [
    `flight.state = "returned";`,
    `flight.state = "returned"; flights.delete(flight.effect.key);`,
  ]),
  bug("one abort for all", "engine/inflight.ts", [
    "    flight.abort.abort();\n    void world",
    "    for (const f of flights.values()) f.abort.abort();\n    void world",
  ]),
  bug("no bound on the wait for the dead", "engine/inflight.ts", [
    "world.clock.sleep(world.graceMs,",
    "world.clock.sleep(1e9,",
  ]),
  bug("a viewer that comes back starts the text over", "engine/stream.ts", [
    "return { seq, chars, heard,",
    "return { seq, chars: 0, heard,",
  ]),
  bug("text of a dead call is kept", "engine/stream.ts", [
    `if ((entry.kind === "restarted" || entry.kind === "retracted") && chars) {`,
    `if (entry.kind === "retracted" && chars) {`,
  ]),
  bug("words of a stream that broke are kept", "engine/stream.ts", [
    ` || entry.kind === "retracted") && chars`,
    ") && chars",
  ]),
  bug(
    "a conversation is kept that was deleted",
    "engine/dispatch.ts",
    ["    if (isAnother) slot.transcript = null;\n", ""],
    [
      "if (row === NEW) slot.transcript = emptyTranscript();",
      "if (row === NEW) slot.transcript ??= emptyTranscript();",
    ],
  ),
  bug("a read is shared with those who know of a later change", "engine/shared-reads.ts", [
    "          for (const { turn } of change.entries) reading.delete(turn);\n",
    "",
  ]),
  bug("an entry is not added to the newest ones", "engine/dispatch.ts", [
    "slot.view.recent.add(entries);",
    "slot.view.recent.add(entries.slice(0, -1));",
  ]),
  bug("the newest entries are those of what was known before", "engine/dispatch.ts", [
    "    slot.view.recent.clear();\n",
    "",
  ]),
  bug(
    "of the newest entries the last ones are dropped",
    "engine/journal-tail.ts",
    ["const MOST_ENTRIES = 64;", "const MOST_ENTRIES = 8;"],
    ["entries.splice(0, 1)", "entries.splice(-1, 1)"],
  ),
  bug(
    "older entries than the newest ones are taken for none",
    "engine/journal-tail.ts",
    ["const MOST_ENTRIES = 64;", "const MOST_ENTRIES = 8;"],
    [
      "first && first.seq <= seq + 1 ? entries.slice(seq + 1 - first.seq) : []",
      "entries.filter((entry) => entry.seq > seq)",
    ],
  ),
  bug(
    "the end of a turn is taken for all of it",
    "engine/journal-tail.ts",
    ["const MOST_ENTRIES = 64;", "const MOST_ENTRIES = 8;"],
    [`entry.kind === "accepted" && entry.turn === id`, "entry.turn === id"],
  ),

  ...OF_SEVERAL_NODES,

  // The effects
  bug(
    "a retry of our own abort",
    "agent/attempts.ts",
    ["if (!(await cx.owned()) || cx.signal.aborted) return null;", ""],
    [`  if (signal.aborted) return { end: "aborted" };\n`, "", "agent/watchdog.ts"],
    ["    if (cx.signal.aborted) return null; // whatever it ended with: that was us (I12)\n", ""],
  ),
  bug("a retry behind visible text", "agent/attempts.ts", ["    if (wanted.spoke()) return last;\n", ""]),
  bug("a stream that breaks is begun again for ever", "agent/faults.ts", ["MOST_BREAKS = 3;", "MOST_BREAKS = 1_000;"]),
  bug("somebody is kept waiting for a night", "agent/faults.ts", [
    "network: { attended: { ms: 2 * MINUTE_MS }",
    "network: { attended: { ms: DEADLINE_MS }",
  ]),
  bug("given up after minutes, though nobody waits", "agent/faults.ts", [
    "unattended: { ms: DEADLINE_MS }",
    "unattended: { ms: 2 * MINUTE_MS }",
  ]),
  bug("a retry of what cannot succeed", "agent/faults.ts", [
    "auth: { ...NONE, fallback: true }",
    "auth: { attended: { tries: 3 }, unattended: { tries: 3 }, fallback: true }",
  ]),
  bug(
    "cancellation shared between calls",
    "agent/watchdog.ts",
    ["const call = linked([signal]);", `signal.addEventListener("abort", () => SHARED.abort()); const call = SHARED;`],
    ["const DEAF_MS = 2_000;", "const DEAF_MS = 2_000; const SHARED = linked([]);"],
  ),
  bug("a summary parts a call from its result", "agent/compact.ts", [
    `while (at < messages.length && messages[at]?.role === "tool") at++;`,
    "",
  ]),
  bug("a summary without end", "agent/compact.ts", [
    "return at === 0 || upTo <= history.summarised ? null : { at, upTo };",
    "return { at, upTo };",
  ]),
  bug("a tool that threw is run again", "agent/act.ts", [
    "return { ok: false, text: `The tool failed: ${messageOf(error)}` };",
    "throw error;",
  ]),
  bug("a replaced process runs a tool", "agent/act.ts", [
    "if (!(await cx.owned()) || cx.signal.aborted)",
    "if (cx.signal.aborted)",
  ]),
  bug("a second copy that does not say so", "agent/deliver.ts", ["effect.again || attempt > 0;", "effect.again;"]),
  bug("a lost reply counts as sent", "agent/deliver.ts", [`step, how: "undelivered" }`, `step, how: "sent" }`]),
  bug("memory out of order", "agent/remember.ts", ["page.find((entry)", "page.findLast((entry)"]),
  bug("memory without the words of its session", "agent/remember.ts", [
    "await agent.memory.remember(effect.by, turn, ended.turn, cx.signal);",
    "await agent.memory.remember(effect.by, { ...turn, user: turn.session }, ended.turn, cx.signal);",
  ]),
];

/** From the root of the project. The stores are fakes here: what holds of them is shown for the databases by their contract suites. */
export const pathOf = (file: string): string => (file.startsWith("test/") ? file : `src/${file}`);

/** The source of a file with the bug in it. */
export function planted({ name, edits }: Mutant, file: string, source: string): string {
  return edits
    .filter((edit) => edit.file === file)
    .reduce((text, { find, plant }) => {
      if (text.split(find).length !== 2)
        throw new Error(`"${name}": this must be in ${pathOf(file)} exactly once:\n${find}`);
      return text.replace(find, () => plant);
    }, source);
}
