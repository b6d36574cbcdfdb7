// Paths whose content should not go to a model unasked. A courtesy, not a wall: whatever the user may read, a program
// that runs as the user can read, too.
import { matches } from "./paths.ts";
import { wordsOf } from "./table.ts";

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

/** Reading from a device can do something; these only give bytes. */
export const isOddDevice = (path: string): boolean =>
  /^\/+dev\//.test(path) && !/^\/dev\/(?:null|stdin|zero|random|urandom|fd(?:\/\d*)?)$/.test(path);
