// Paths whose content should not go to a model unasked. This is a courtesy and not a protection: a program that runs as
// the user can read whatever the user can read.
import { secretPlaces } from "../platform/secret-places.ts";
import { absolute, LONGEST, matches } from "./paths.ts";
import { oneOf, wordsOf } from "./table.ts";
import type { CommandPlace } from "./types.ts";

const DIRECTORIES = wordsOf(".ssh .gnupg .aws .azure .kube .password-store .hermes gcloud keyrings Keychains");
const FILES = wordsOf(`
    .env .envrc .netrc .pgpass .my.cnf .git-credentials .npmrc .pypirc .vault-token .bash_history .zsh_history
    .python_history .psql_history .mysql_history .node_repl_history id_rsa id_dsa id_ecdsa id_ed25519 shadow gshadow
    sudoers credentials.json environ master.key`);
const ENDINGS = /\.(?:key|p12|pfx|jks|keystore|kdbx|ovpn)$|^\.env\..|_(?:rsa|ed25519|ecdsa)$/;
const PATHS = /\.config\/gh\/|\.docker\/config\.json$/;
const OPEN = /^(?:\.env\.(?:example|sample|template|dist|defaults?|schema)|known_hosts|.*\.pub)$/;

/** Also through a shell pattern, if it begins with a few letters. */
export const looksSecret = (path: string): boolean => {
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  const last = segments.at(-1) ?? "";
  if (OPEN.test(last)) return false;
  if (segments.some((segment) => DIRECTORIES.some((name) => alike(segment, name)))) return true;
  return PATHS.test(path) || ENDINGS.test(last) || FILES.some((name) => alike(last, name));
};

const alike = (written: string, name: string): boolean =>
  /[*?[]/.test(written) ? /^[^*?[]{2}/.test(written) && matches(written, name) : written === name;

/** Whether the path of an opened file could match a secret if it is a pattern. This is stricter than for a word that
 *  may not be a path: `*` in a project is no reason to ask, `.*` is. */
export const maySecret = (path: string, place: CommandPlace): boolean => {
  const full = absolute(path, place) ?? path;
  const segments = full.split("/").filter((segment) => segment !== "");
  if (segments[0] === "proc" && segments.length > 2) return !isOpenProc(segments);
  const last = segments.at(-1) ?? "";
  if (segments.some((segment) => DIRECTORIES.some((name) => couldBe(segment, name)))) return !OPEN.test(last);
  if (FILES.some((name) => couldBe(last, name))) return true;
  if (/^sshd?_config$/.test(last)) return false;
  return placesOf(place).some((secret) => secret.every((name, index) => sameSegment(segments[index] ?? "", name)));
};

/** Whether a directory is above one with secrets. */
export const holdsSecrets = (dir: string, place: CommandPlace): boolean => {
  const full = absolute(dir, place);
  if (full === null) return false;
  const segments = full.split("/").filter((segment) => segment !== "");
  if (segments[0] === "proc") return true;
  return placesOf(place).some((secret) => segments.every((name, index) => sameSegment(name, secret[index] ?? "")));
};

const placesOf = ({ home = "/home/user" }: CommandPlace): string[][] =>
  [...secretPlaces(home), "/root/.ssh"].map((path) => path.split("/").filter((segment) => segment !== ""));

const sameSegment = (written: string, name: string): boolean =>
  written.toLowerCase() === name.toLowerCase() || matches(written, name);

/** A pattern that begins with a dot is about hidden files; any other pattern must contain at least half of the name. */
const couldBe = (written: string, name: string): boolean => {
  if (!PATTERN.test(written)) return written.toLowerCase() === name.toLowerCase();
  if (!matches(written, name)) return false;
  if (written.length > LONGEST) return true;
  return written.startsWith(".") || written.replace(/\[[^\]]*\]|[*?]/g, "").length * 2 >= name.length;
};
const PATTERN = /[*?[\uFFFF]/;

/** Of a process, only files that reveal nothing about its memory, environment and files. */
const isOpenProc = ([, process = "", file = "", ...more]: readonly string[]): boolean =>
  /^(?:\d+|self|thread-self)$/.test(process) || /[*?[\uFFFF]/.test(process)
    ? more.length === 0 && PROCESS_FILE.test(file)
    : !/^key-users|^keys/.test(process);
const PROCESS_FILE = oneOf("status stat statm cmdline comm cgroup limits io mountinfo mounts sched oom_score maps");

/** Reading from a device can have effects; these only return bytes. */
export const isOddDevice = (path: string): boolean =>
  /^\/+dev\//.test(path) && !/^\/dev\/(?:null|stdin|zero|random|urandom|fd(?:\/\d*)?)$/.test(path);
