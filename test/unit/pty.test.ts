import { existsSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import { makePlace, type Place } from "../fakes/hermes.ts";
import { onTerminal, type Screen, startShell } from "../fakes/pty.ts";

let place: Place;
beforeEach(() => {
  place = makePlace();
});
afterEach(() => place.clear());

const sh = (script: string, size: { cols?: number; rows?: number } = {}) =>
  onTerminal(place, ["-c", script], { command: ["sh"], ...size });
/** A terminal in raw mode, and a program that says what it gets byte by byte. */
const listener = (before = "") => sh(`stty raw -echo; printf '${before}ready\\r\\n'; exec cat -v`);

test("what is typed is echoed, and the cursor is where it should be", async () => {
  // Behind a shell: cat alone closes the terminal before it ends, and now and then the hang-up came first (SIGHUP, not 0).
  const screen = sh("cat; exit 0");
  screen.type("hello");
  await screen.shows("hello");
  expect(screen.cursor()).toEqual({ row: 0, col: 5, hidden: false });
  screen.key("enter");
  await screen.until(() => screen.rows()[1] === "hello");
  screen.key("ctrl+d");
  expect(await screen.exit).toBe(0);
  expect(screen.rows()).toHaveLength(24);
  expect(screen.lines()).toEqual(["hello", "hello"]);
});

test("the program itself runs on it, with a home of its own", async () => {
  const screen = onTerminal(place, ["--version"]);
  expect(await screen.exit).toBe(0);
  expect(screen.text().trim()).toMatch(/^\d+\.\d+\.\d+$/);
});

test("it says how the process ended", async () => {
  expect(await sh("exit 7").exit).toBe(7);
  const screen = sh("echo ready; exec sleep 60");
  await screen.shows("ready");
  screen.kill("SIGTERM");
  expect(await screen.exit).toBe("SIGTERM");
  screen.kill("SIGTERM"); // too late, and no matter
  screen.type("nobody reads this");
});

test("what never comes is refused with a picture, when the process ends or patience does", async () => {
  const ended = sh("echo something else; exit 1");
  await expect(ended.shows("the thing")).rejects.toThrow(/ended without the thing:\n─+\nsomething else\n/);
  const silent = sh("echo quiet; exec sleep 60");
  await expect(silent.shows(/loud/, 300)).rejects.toThrow(/not within 300 ms: \/loud\/\n─+\nquiet\n/);
  const broken = () => {
    throw new Error("my own mistake");
  };
  await expect(silent.until(broken)).rejects.toThrow("my own mistake");
});

test("long lines wrap on the screen and are whole in the lines, also above the screen", async () => {
  const long = "0123456789".repeat(3);
  const screen = sh(`echo ${long}; for i in 1 2 3 4 5 6; do echo line $i; done; printf '日本語テスト日本語'`, {
    cols: 13,
    rows: 5,
  });
  await screen.exit;
  expect(screen.rows()).toEqual(["line 4", "line 5", "line 6", "日本語テスト", "日本語"]);
  expect(screen.lines()).toEqual([long, ...[1, 2, 3, 4, 5, 6].map((i) => `line ${i}`), "日本語テスト日本語"]);
});

test.each([
  ["é", 1],
  ["e\u0301", 1],
  ["…", 1],
  ["│", 1],
  ["日", 2],
  ["한", 2],
  ["ａ", 2],
  ["😀", 2],
  ["👍🏽", 2],
  ["❤", 1],
  ["❤️", 2],
  ["1️⃣", 2],
  ["👨‍👩‍👧", 2],
  ["🇩🇪", 2],
  ["🇩🇪🇫🇷", 4],
  ["a\u200bb", 2],
])("%s is as wide as in a terminal of today: %i", async (text, width) => {
  const screen = sh(`printf '%s' '${text}'`);
  await screen.exit;
  expect(screen.cursor().col).toBe(width);
  expect(screen.rows()[0]).toBe(text);
});

test("a paste comes in brackets if the program asked for them, and plainly otherwise", async () => {
  const plain = listener();
  await plain.shows("ready");
  plain.paste("one\ntwo");
  await plain.shows("one^Mtwo");
  expect(plain.text()).not.toContain("200~");
  const asked = listener("\\033[?2004h");
  await asked.shows("ready");
  asked.paste("one\ntwo");
  await asked.shows("^[[200~one^Mtwo^[[201~");
});

test("keys are what xterm sends for them", async () => {
  const screen = listener();
  await screen.shows("ready");
  const keys = ["enter", "esc", "backspace", "tab", "shift+tab", "up", "alt+up", "ctrl+left", "delete", "pageup", "x"];
  for (const name of [...keys, "ctrl+c", "ctrl+z", "alt+enter", "alt+b"]) screen.key(name);
  await screen.shows("^M^[^?\t^[[Z^[[A^[[1;3A^[[1;5D^[[3~^[[5~x^C^Z^[^M^[b".replace("\t", "  "));
  for (const name of ["shift+enter", "ctrl+enter", "hyper+x", "entre"])
    expect(() => screen.key(name)).toThrow(`no such key: ${name}`);
  const application = listener("\\033[?1h");
  await application.shows("ready");
  application.key("up");
  await application.shows("^[OA");
});

test("the terminal answers what the program asks it", async () => {
  const screen = sh(`stty raw -echo; printf '\\033[c'; head -c 7 | cat -v`);
  await screen.shows("^[[?1;2c");
});

test("a new size is told to the program, and the screen has it too", async () => {
  const program = `process.stdout.on("resize", () => console.log("now", process.stdout.columns, process.stdout.rows));
    console.log("x".repeat(50)); process.stdin.resume();`;
  const screen = onTerminal(place, ["-e", program], { command: [process.execPath], cols: 60, rows: 10 });
  await screen.shows("x".repeat(50));
  await screen.resize(40, 12);
  expect(screen.rows()).toHaveLength(12);
  expect(screen.rows().slice(0, 2)).toEqual(["x".repeat(40), "x".repeat(10)]);
  await screen.shows("now 40 12");
});

test("closing the window ends the process by the terminal going away", async () => {
  const program = `process.on("SIGHUP", () => process.exit(3)); console.log("ready"); setInterval(() => {}, 1000);`;
  const screen = onTerminal(place, ["-e", program], { command: [process.execPath] });
  await screen.shows("ready");
  screen.close();
  screen.type("into the void");
  expect(await screen.exit).toBe(3);
  const simple = sh("echo ready; exec sleep 60");
  await simple.shows("ready");
  simple.close();
  expect(await simple.exit).toBe("SIGHUP");
});

test("a frame is never seen half drawn", async () => {
  const screen = sh(`stty -echo; printf '\\033[?2026hhalf'; read go; printf ' whole\\033[?2026l'; read go`);
  const seen: string[] = [];
  const watched = screen.until(({ text }) => seen.push(text().trim()) > 0 && text().includes("half"));
  await parsed(screen, "half");
  screen.type("\n");
  await watched;
  expect(seen.filter((text) => text !== "")).toEqual(["half whole"]);
});

test("a hidden cursor is known", async () => {
  const screen = sh(`printf '\\033[?25l'; echo hidden; read go; printf '\\033[?25h'; echo shown; read go`);
  await screen.shows("hidden");
  expect(screen.cursor().hidden).toBe(true);
  screen.key("enter");
  await screen.shows("shown");
  expect(screen.cursor().hidden).toBe(false);
});

test("in a shell one sees the settings a program has left, and can stop it and go on", async () => {
  const shell = startShell(place, { cols: 60, rows: 12 });
  await shell.shows(/^\$$/);
  expect(shell.settings()).toEqual(expect.arrayContaining(["icanon", "echo", "isig"]));
  shell.type("stty -echo; echo $?\n");
  await shell.shows(/^0$/m);
  expect(shell.settings()).toContain("-echo");
  shell.type("stty echo; echo on; cat\n");
  await shell.shows(/^\$ on$/m);
  expect(shell.settings()).toContain("echo");
  shell.type("typed\n");
  await shell.shows(/typed\ntyped/);
  shell.key("ctrl+z");
  await shell.shows(/Stopped/);
  shell.type("fg\n");
  await shell.shows(/fg\ncat/);
  shell.type("again\n");
  await shell.shows(/again\nagain/);
  shell.key("ctrl+d");
  shell.type("hermes --version; echo code=$?\n");
  await shell.shows(/\d+\.\d+\.\d+\ncode=0/);
  shell.type("exit 5\n");
  expect(await shell.exit).toBe(5);
  expect(() => shell.settings()).toThrow("startShell");
});

test("ten megabytes are read as they come, and what went by is still found", async () => {
  const screen = sh(`yes 'nothing to see here' | head -c 5000000; echo; echo needle
    yes 'nor here' | head -c 5000000; echo; echo the end`);
  await Promise.all([screen.shows("needle", 80_000), screen.shows("the end", 80_000)]);
  expect(await screen.exit).toBe(0);
  expect(screen.raw().length).toBeGreaterThan(10_000_000);
  expect(screen.lines().length).toBeGreaterThan(50_000);
}, 90_000); // two seconds, and ten times that on a machine that is busy with something else

test("the last words of a process are not lost on a busy reader", async () => {
  const screen = sh("yes abcdefg | head -c 12000; echo the end");
  const busy = () => {
    for (const end = performance.now() + 300; performance.now() < end; );
  };
  screen.emulator.onWriteParsed(busy);
  busy(); // it has ended before a byte of it is read
  expect(await screen.exit).toBe(0);
  expect(screen.raw()).toBe(`${"abcdefg\r\n".repeat(1500)}the end\r\n`);
});

test("a megabyte can be pasted into a program that prints as much meanwhile", async () => {
  const screen = sh(`stty raw -echo; printf 'ready\\r\\n'; exec cat`);
  await screen.shows("ready");
  screen.paste(`${"all work and no play\n".repeat(50_000)}the end`);
  await screen.shows("the end");
  expect(screen.raw().length).toBe("ready\r\n".length + 21 * 50_000 + "the end".length);
});

test("what still runs is killed when its place is cleared", async () => {
  const screen = sh("trap '' HUP TERM; echo ready; while read go; do :; done");
  await screen.shows("ready");
  place.clear();
  expect(await screen.exit).toBe("SIGKILL");
  expect(existsSync(place.dir)).toBe(false);
});

const parsed = (screen: Screen, what: string) =>
  new Promise<void>((resolve) => {
    const look = () => screen.raw().includes(what) && resolve();
    screen.emulator.onWriteParsed(look);
    look();
  });
