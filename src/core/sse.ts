// Server-sent events out of bytes, however those are cut.

export type Frame = { id: string; event: string; data: string };
export type Heard = Frame | { comment: string } | { retry: number };

/** Characters of one event: a server that never ends one must not fill the memory. */
const LONGEST = 64_000_000;

/** Takes the next bytes and tells what is complete with them. What the end cuts off is never told. */
export function createSseParser(): (bytes: Uint8Array) => Heard[] {
  // Holds back half a character. It leaves byte order marks alone: cut inside one, Node's takes away a second one too.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  let begun = false;
  let line = "";
  let afterReturn = false; // a line feed that follows belongs to it
  let size = 0;
  let id = "";
  let event = "";
  let data: string[] = [];

  function take(whole: string, heard: Heard[]): void {
    if (whole === "") {
      if (data.length > 0) heard.push({ id, event, data: data.join("\n") });
      event = "";
      data = [];
      size = 0;
      return;
    }
    const colon = whole.indexOf(":");
    const field = colon < 0 ? whole : whole.slice(0, colon);
    const value = colon < 0 ? "" : whole.slice(whole[colon + 1] === " " ? colon + 2 : colon + 1);
    size += whole.length;
    if (colon === 0) heard.push({ comment: value });
    else if (field === "data") data.push(value);
    else if (field === "event") event = value;
    else if (field === "id" && !value.includes("\0")) id = value;
    else if (field === "retry" && /^\d+$/.test(value)) heard.push({ retry: Number(value) });
  }

  return (bytes) => {
    const heard: Heard[] = [];
    const given = decoder.decode(bytes, { stream: true });
    if (given === "") return heard;
    const decoded = begun || !given.startsWith("\uFEFF") ? given : given.slice(1);
    begun = true;
    const text = afterReturn && decoded.startsWith("\n") ? decoded.slice(1) : decoded;
    afterReturn = decoded.endsWith("\r");
    const [first = "", ...others] = text.split(/\r\n|\n|\r/);
    line += first;
    for (const next of others) {
      take(line, heard);
      line = next;
    }
    if (size + line.length > LONGEST) throw new Error(`An event of the stream has more than ${LONGEST} characters.`);
    return heard;
  };
}
