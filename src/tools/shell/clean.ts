// What a program prints, made plain: no control sequences (colours, OSC 52 clipboard writes, titles), a line that was
// drawn over with \r as it was last, invalid UTF-8 replaced. Works on pieces of any size and holds back one line at most.

/** A line that may still be drawn over; longer ones go out as they come, and a \r in them becomes a new line. */
const LONGEST_LINE = 4096;
const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

export function createCleaner() {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const stripper = createStripper();
  let line = "";
  /** The beginning of this line has gone out. */
  let begun = false;
  /** No character is cut in two where we are. */
  let whole = true;

  /** The text that is final now. May be a part of what was given, not a copy. */
  function push(bytes: Uint8Array): Uint8Array[] {
    const end = bytes.lastIndexOf(0x0a) + 1;
    // Plain lines, which is nearly all: without making text of it, 1 GB grows our memory by 8 MB instead of 90.
    if (end > 0 && whole && stripper.idle() && !line.includes("\r") && isPlainText(bytes)) {
      const out = [Buffer.from(line), bytes.subarray(0, end)];
      line = Buffer.from(bytes.subarray(end)).toString("latin1");
      begun = false;
      return line.length > LONGEST_LINE ? [...out, Buffer.from(add(""))] : out;
    }
    whole = (bytes.at(-1) ?? 0) < 0x80;
    return [Buffer.from(add(decoder.decode(bytes, { stream: true })))];
  }

  function add(raw: string): string {
    const text = stripper.strip(raw);
    const end = text.lastIndexOf("\n") + 1;
    let out = end === 0 ? "" : lines(line + text.slice(0, end));
    line = latest(end === 0 ? line + text : text.slice(end));
    if (line.length > LONGEST_LINE) {
      // A last \r may yet be half of \r\n.
      const cut = line.endsWith("\r") ? -1 : line.length;
      out += line.slice(0, cut);
      line = line.slice(cut);
      begun = true;
    }
    return out;
  }

  function lines(whole: string): string {
    const first = whole.indexOf("\n") + 1;
    const out = latest(whole.slice(0, first));
    begun = false;
    return final(out + latest(whole.slice(first)));
  }

  function latest(text: string): string {
    if (!text.includes("\r") && !text.includes("\b")) return text;
    const typed = text.replaceAll(/[^\b\r\n]\x08/g, "").replaceAll("\b", "");
    return begun ? typed.replaceAll(/\r+/g, brokenLine) : typed.split("\n").map(redrawn).join("\n");
  }

  return {
    push,
    /** The line that is not yet over. */
    pending: () => final(line),
    end: () => {
      const out = add(decoder.decode()) + final(line);
      line = "";
      return [Buffer.from(out)];
    },
  };
}

const final = (text: string) => text.replaceAll("\r", "");

/** What was drawn last. A \r at the end only says where it would go on. */
function redrawn(line: string): string {
  let end = line.length;
  while (end > 0 && line[end - 1] === "\r") end--;
  return line.slice(line.lastIndexOf("\r", end - 1) + 1);
}

// A function, not a look-ahead: that took seconds for 64 KB of nothing but \r.
const brokenLine = (run: string, at: number, text: string) => (/[^\n]/.test(text.charAt(at + run.length)) ? "\n" : run);

type EscapeState = "text" | "escape" | "middle" | "csi" | "string";

/** Takes out control sequences (ECMA-48) and control characters but \t \n \r \b. A line end ends any sequence. */
function createStripper(): { strip(text: string): string; idle(): boolean } {
  let state: EscapeState = "text";

  function strip(text: string): string {
    if (state === "text" && !SPECIAL.test(text)) return text;
    let out = "";
    let from = 0;
    let at = 0;
    while (at < text.length) {
      const code = text.charCodeAt(at);
      if (state === "text") {
        if (!isPlain(code)) {
          out += text.slice(from, at);
          state = opened(code);
          from = at + 1;
        }
        at++;
        continue;
      }
      const next = after(state, code);
      // What ends a sequence belongs to it, but for a line end and what no sequence may hold.
      const belongs = next !== "text" || (code !== 0x0a && (state === "string" || (code >= 0x20 && code <= 0x9f)));
      state = next;
      from = belongs ? at + 1 : at;
      at = from;
    }
    return state === "text" ? out + text.slice(from) : out;
  }

  return { strip, idle: () => state === "text" };
}

/** Only letters and the like, line ends and tabs. By four bytes at a time: one by one cost 3 s for 1 GB. */
function isPlainText(bytes: Uint8Array): boolean {
  if (bytes.byteOffset % 4 !== 0) return areLetters(bytes, 0, bytes.length);
  const count = bytes.length >> 2;
  const words = new Int32Array(bytes.buffer, bytes.byteOffset, count);
  for (let at = 0; at < count; at++) {
    const word = words[at] ?? 0;
    // The top bit of a byte is set when it is over 0x7e, or under 0x20.
    const odd = (word | (word + 0x01010101) | ((word - 0x20202020) & ~word)) & 0x80808080;
    if (odd !== 0 && !areLetters(bytes, at * 4, at * 4 + 4)) return false;
  }
  return areLetters(bytes, count * 4, bytes.length);
}

function areLetters(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const byte = bytes[at] ?? 0;
    if (byte > 0x7e || (byte < 0x20 && byte !== 0x0a && byte !== 0x09)) return false;
  }
  return true;
}

const isPlain = (code: number) =>
  code < 0x20 ? code === 0x08 || code === 0x09 || code === 0x0a || code === 0x0d : code < 0x7f || code > 0x9f;

function opened(code: number): EscapeState {
  if (code === 0x1b) return "escape";
  if (code === 0x9b) return "csi";
  return code === 0x90 || code === 0x98 || (code >= 0x9d && code <= 0x9f) ? "string" : "text";
}

function after(state: Exclude<EscapeState, "text">, code: number): EscapeState {
  if (code === 0x1b) return "escape";
  if (code === 0x0a || code === 0x18 || code === 0x1a) return "text";
  switch (state) {
    case "string":
      return code === 0x07 || code === 0x9c ? "text" : "string";
    case "csi":
      return code >= 0x20 && code < 0x40 ? "csi" : "text";
    case "middle":
      return code >= 0x20 && code < 0x30 ? "middle" : "text";
    case "escape":
      if (code >= 0x20 && code < 0x30) return "middle";
      if (code === 0x5b) return "csi";
      return [0x50, 0x58, 0x5d, 0x5e, 0x5f].includes(code) ? "string" : "text";
  }
}
