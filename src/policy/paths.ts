// Paths as text: what a written path means, and which paths matter. Nothing here accesses the disk.
import { UNKNOWN } from "./possible.ts";
import { wordsOf } from "./table.ts";
import type { CommandPlace } from "./types.ts";

/** Paths whose loss is the loss of the machine. `/*` at the end means every entry. */
const VITAL = [
  "/",
  ..."bin boot dev etc home lib lib32 lib64 libx32 media mnt nix opt proc root run sbin snap srv sys usr var"
    .split(" ")
    .map((name) => `/${name}`),
  ..."bin sbin lib lib64 libexec local share include local/bin local/lib local/sbin"
    .split(" ")
    .map((name) => `/usr/${name}`),
  ..."lib db mail spool lib/dpkg lib/docker lib/mysql lib/postgresql".split(" ").map((name) => `/var/${name}`),
  ..."Applications Library System Users Volumes private private/etc private/var nix/store"
    .split(" ")
    .map((name) => `/${name}`),
  "/home/*",
  "/Users/*",
];
/** A last segment that matches everything in the directory. */
const EVERYTHING = /^(?:\*+|\.\*|\?\*|\*\?|\*\.\*|\.\[!?\^?\.\]\*|\.\?\?\*|\[!?\^?[^\]]*\]\*)$/;

/** Absolute, without `.`, `..` and double slashes; null if only the shell knows. */
export const absolute = (path: string, { cwd, home }: CommandPlace): string | null => {
  const full = path.startsWith("~/") || path === "~" ? (home ?? "/home/user") + path.slice(1) : path;
  const from = full.startsWith("/") ? full : cwd === undefined ? null : `${cwd}/${full}`;
  if (from === null) return null;
  const segments: string[] = [];
  for (const segment of from.split("/")) {
    if (segment === "..") segments.pop();
    else if (segment !== "" && segment !== ".") segments.push(segment);
  }
  return `/${segments.join("/")}`;
};

/** Whether removing this path would remove a system or home directory, or everything in one. */
export const isVital = (path: string, place: CommandPlace): boolean => {
  const full = absolute(path, place);
  if (full === null || path === "") return false;
  const home = place.home === undefined ? null : absolute(place.home, {});
  const parent = full.slice(0, full.lastIndexOf("/")) || "/";
  const all = EVERYTHING.test(full.slice(full.lastIndexOf("/") + 1));
  return [full, ...(all ? [parent] : [])].some(
    (dir) => dir === home || VITAL.some((vital) => (vital === "/" ? dir === "/" : sameShape(dir, vital))),
  );
};

const sameShape = (path: string, vital: string): boolean => {
  const mine = path.split("/");
  const its = vital.split("/");
  return (
    mine.length === its.length &&
    mine.every((segment, index) => its[index] === "*" || matches(segment, its[index] ?? ""))
  );
};

/** A longer pattern is treated as if it could match anything. */
export const LONGEST = 500;

/** Shell patterns within one segment; linear, so that no pattern takes forever. */
export const matches = (pattern: string, name: string): boolean => {
  if (pattern === name) return true;
  if (!/[*?[\uFFFF]/.test(pattern)) return false;
  // A leading dot is matched only by a dot.
  if (name.startsWith(".") && /^[*?[]/.test(pattern)) return false;
  if (pattern.length > LONGEST) return true;
  let reach = new Set([0]);
  for (const token of pattern.match(/\[[!^]?\]?[^\]]*\]|[^]/g) ?? []) {
    const next = new Set<number>();
    for (const at of reach) {
      if (token === "*" || token === UNKNOWN) for (let to = at; to <= name.length; to++) next.add(to);
      else if (at < name.length && one(token, name.charAt(at))) next.add(at + 1);
    }
    reach = next;
  }
  return reach.has(name.length);
};

const one = (token: string, char: string): boolean => {
  if (token === "?") return true;
  if (!token.startsWith("[") || token.length < 2) return token === char;
  const negated = /^\[[!^]/.test(token);
  const body = token.slice(negated ? 2 : 1, -1);
  let inside = /\[:/.test(body);
  for (let at = 0; at < body.length && !inside; at++) {
    const to = body[at + 1] === "-" ? body[at + 2] : undefined;
    inside = to === undefined ? body[at] === char : (body[at] ?? "") <= char && char <= to;
    if (to !== undefined) at += 2;
  }
  return inside !== negated;
};

/** Disks, memory and switches of the machine. */
const DEVICES = wordsOf(String.raw`
  [shv]d[a-z*?\[${UNKNOWN}] xvd nvme mmcblk r?disk dm- md\d mapper/ loop\d sr\d ram\d zd\d nbd\d block/ mtd
  k?mem$ port$`);
const RAW = new RegExp(`^/dev/(?:${DEVICES.join("|")})|^/proc/(?:sysrq-trigger|kcore)|^/sys/power/`);

export const isRawDevice = (path: string, place: CommandPlace): boolean => RAW.test(absolute(path, place) ?? "");
