// The key of the API: the configured one, else one of our own in a file. There is always one, on loopback too.
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { isIPv4 } from "node:net";
import { ConfigError, codeOf } from "../../../core/errors.ts";

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
const LONGEST = 4096;
const SHORTEST_STRONG = 16;
const FEWEST_DIFFERENT = 8;
const OR_SET = "or set gateway.api_server.key (API_SERVER_KEY)";

/** `file`: where the key is kept, unless it is configured. */
type ApiKey = { key: string; made: boolean; file: string | null };

export const apiKey = ({ configured, file }: { configured?: string | undefined; file: string }): ApiKey => {
  if (configured) return { key: configuredKey(configured), made: false, file: null };
  const kept = readKey(file);
  if (kept !== null) return { key: kept, made: false, file };
  const key = randomBytes(32).toString("base64url");
  if (keepKey(file, key)) return { key, made: true, file };
  return apiKey({ file }); // another process was first: its key counts
};

/** Whoever can reach another address than loopback can guess, so a key that was not chosen for that is refused. */
export const requireStrongKey = ({ host, configured }: { host: string; configured?: string | undefined }): void => {
  if (isLoopback(host)) return;
  const wrong = configured ? weakness(configured) : "no key is configured";
  if (wrong === null) return;
  throw new ConfigError(
    `gateway.api_server.host ${host} can be reached from other machines, so the API needs a strong key, but ${wrong}. ` +
      "Make one with `openssl rand -hex 32` and set it as gateway.api_server.key (API_SERVER_KEY), " +
      "or set the host to 127.0.0.1.",
  );
};

const isLoopback = (host: string): boolean =>
  (isIPv4(host) && host.startsWith("127.")) || ["::1", "localhost"].includes(host.toLowerCase());

// ── Strength ──────────────────────────────────────────────────────────────────────────────────────────

const PLACEHOLDER =
  /^(?:(?:change|replace)(?:me|this|it)|your(?:own|secret|api|key|token|password)|insert|example|placeholder|dummy)|^test.*test$/;
/** What people write who do not want to think of something: it does not count. */
const OBVIOUS =
  /passw(?:or|0r)d|secret|admin|letmein|qwerty|apikey|token|hermes|test|0?12345?6?7?8?9?0?|abcdef?g?h?i?j?k?l?m?n?o?p?/g;

const weakness = (key: string): string | null => {
  const word = key.toLowerCase();
  if (PLACEHOLDER.test(word.replace(/[^a-z0-9]/g, ""))) return "the configured one is a placeholder";
  if (/^(.+?)\1+$/.test(word)) return "the configured one repeats itself";
  const rest = word.replace(OBVIOUS, "");
  if (rest.length < SHORTEST_STRONG || new Set(rest).size < FEWEST_DIFFERENT)
    return "the configured one is too short or too easy to guess";
  return null;
};

/** The key must fit into a header. */
const configuredKey = (key: string): string => {
  if (isSendable(key)) return key;
  throw new ConfigError(
    "gateway.api_server.key (API_SERVER_KEY) cannot be sent in a header: use letters, digits and signs of ASCII, " +
      `no spaces, at most ${LONGEST} of them. \`openssl rand -hex 32\` makes one.`,
  );
};

const isSendable = (key: string): boolean => /^[\x21-\x7e]+$/.test(key) && key.length <= LONGEST;

// ── The file ──────────────────────────────────────────────────────────────────────────────────────────

const readKey = (file: string): string | null => {
  const fd = openKey(file);
  if (fd === null) return null;
  try {
    const { mode, uid, size } = fstatSync(fd);
    if ((mode & constants.S_IFMT) !== constants.S_IFREG)
      throw new ConfigError(`${file} is not a regular file. Remove it, and a new key is made.`);
    if ((mode & 0o077) !== 0 && uid !== process.getuid?.())
      throw new ConfigError(`${file} holds the API key and others can read it. Run: chmod 600 ${file}`);
    if ((mode & 0o077) !== 0) fchmodSync(fd, 0o600);
    const key = size > LONGEST ? "" : readFileSync(fd, "utf8").trim();
    if (!isSendable(key)) throw new ConfigError(`${file} does not hold an API key. Remove it, and a new one is made.`);
    return key;
  } finally {
    closeSync(fd);
  }
};

const openKey = (file: string): number | null => {
  try {
    // Not blocking: a pipe in its place would wait for ever.
    return openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT") return null;
    if (code === "ELOOP") throw new ConfigError(`${file} is a link. Remove it, and a new key is made, ${OR_SET}.`);
    throw new ConfigError(`The API key in ${file} cannot be read (${code}). Make it readable, remove it, ${OR_SET}.`);
  }
};

/** False: there is one already. */
const keepKey = (file: string, key: string): boolean => {
  // Complete before it has its name: who starts at the same moment, or after a crash here, must not find it empty.
  const draft = `${file}.${randomBytes(8).toString("hex")}`;
  try {
    writeFileSync(draft, `${key}\n`, { flag: "wx", mode: 0o600, flush: true });
    linkSync(draft, file);
    return true;
  } catch (error) {
    const code = codeOf(error);
    if (code === "EEXIST") return false;
    throw new ConfigError(`An API key cannot be kept in ${file} (${code}). Make its directory writable, ${OR_SET}.`);
  } finally {
    rmSync(draft, { force: true });
  }
};
