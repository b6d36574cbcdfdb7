// Programs that read files and text.
import { type Parsed, type Problem, wasGiven } from "./options.ts";
import type { Program } from "./program.ts";
import { isHarmlessAwk, isHarmlessSed } from "./scripts.ts";
import { entries } from "./table.ts";

/** No option of these writes or runs anything in the GNU, BSD and busybox versions. */
const LOOSE = `
    cat tac nl head tail wc cut paste fold fmt expand unexpand tr rev column comm join od hexdump strings cksum sum
    md5 md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum shasum diff cmp grep egrep fgrep jq envsubst
    look colrm tsort`;
/** The same, and they never read the content of a file. */
const LOOSE_NAMES = `
    ls dir vdir stat du df basename dirname realpath readlink pwd true false : echo seq expr factor numfmt cal sleep
    yes`;

const RG = `
    -nilcwvoFPUSsHNhIapqxuL0b -A: -B: -C: -E: -e: -f: -g: -m: -M: -t: -T: -r: -j: -d: --line-number --no-line-number
    --ignore-case --smart-case --case-sensitive --files --files-with-matches --files-without-match --count
    --count-matches --word-regexp --line-regexp --invert-match --only-matching --fixed-strings --regexp= --file=
    --glob= --iglob= --type= --type-not= --type-list --type-add= --hidden --no-hidden --no-ignore --no-ignore-vcs
    --no-ignore-parent --no-ignore-global --unrestricted --follow --multiline --multiline-dotall --pcre2 --json
    --stats --heading --no-heading --color= --colors= --column --no-column --context= --after-context=
    --before-context= --max-count= --max-depth= --max-columns= --max-filesize= --max-columns-preview --replace=
    --sort= --sortr= --threads= --trim --vimgrep --with-filename --no-filename --null --null-data --passthru
    --pretty --quiet --text --binary --one-file-system --no-messages --no-config --debug --version --help --crlf
    --engine= --encoding= --include-zero --path-separator= --byte-offset --ignore-file= --no-mmap --mmap
    --no-require-git --stop-on-nonmatch`;
const FD = `
    -HIuigsaplLh0qF1 -e: -t: -E: -d: -S: -c: -C: --hidden --no-ignore --no-ignore-vcs --unrestricted --ignore-case
    --case-sensitive --glob --regex --fixed-strings --absolute-path --list-details --follow --full-path --print0
    --max-depth= --min-depth= --exact-depth= --exclude= --type= --extension= --size= --changed-within=
    --changed-before= --owner= --color= --max-results= --quiet --show-errors --base-directory= --path-separator=
    --prune --one-file-system --version --help --strip-cwd-prefix --and=`;
const SORT = `
    -bdfgiMhnRrVcCmsuz -k: -t: -S: --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort
    --month-sort --human-numeric-sort --numeric-sort --random-sort --reverse --version-sort --check? --key=
    --field-separator= --stable --unique --zero-terminated --merge --parallel= --sort= --buffer-size= --debug
    --version`;
const UNIQ = `
    -cdDiuz -f: -s: -w: --count --repeated --ignore-case --unique --skip-fields= --skip-chars= --check-chars=
    --all-repeated? --group? --zero-terminated`;
const FILE = `
    -bikLhNnrsv0 -F: --brief --mime --mime-type --mime-encoding --dereference --no-dereference --separator=
    --keep-going --raw --version --extension`;
const TREE = `
    -adflxhpugsDFQNqrtcUvSACniJX -L: -P: -I: -H: -T: --dirsfirst --filesfirst --noreport --gitignore --prune
    --filelimit= --charset= --du --si --inodes --device --sort? --version --matchdirs --ignore-case --timefmt=`;
const BAT = `
    -pnAu -l: -r: -H: --plain --number --language= --line-range= --style= --color= =--paging=never --theme=
    --list-languages --version --show-all --decorations= --wrap= --tabs= --highlight-line=`;
const TAR = `
    -tvzjJa -f: -C: --list --file= --verbose --gzip --gunzip --bzip2 --xz --zstd --auto-compress --wildcards
    --exclude= --strip-components= --full-time --numeric-owner --version`;
const AG = `
    -ilLcwvQsSnuUahgHf -A: -B: -C: -G: -m: --ignore= --ignore-case --hidden --literal --files-with-matches --count
    --nogroup --nocolor --nonumbers --column --depth= --js --ts --python --go --rust --html --css --version`;
const SED = `
    -nErsuzb -e: --quiet --silent --regexp-extended --separate --null-data --unbuffered --expression= --posix
    --sandbox --version`;
const YQ = `
    -rPMCejNn -o: -p: -I: --raw-output --prettyPrint --no-colors --colors --exit-status --output-format=
    --input-format= --indent= --null-input --no-doc --version --tojson`;

const listed = (options: string, more: Program = {}): Program => ({ options, ...more });

const needs =
  (reason: string, ...names: string[]): NonNullable<Program["check"]> =>
  ({ given }) =>
    wasGiven(given, ...names) ? null : { reason, source: "" };

const scriptIn =
  (what: string, option: RegExp, harmless: (script: string) => boolean): NonNullable<Program["check"]> =>
  ({ operands, given }) => {
    if (wasGiven(given, "--version")) return null;
    const optional = given.filter(({ name }) => option.test(name)).map(({ value }) => value);
    const scripts = optional.length > 0 ? optional : operands.slice(0, 1);
    if (scripts.length === 0) return { reason: `there is no program for ${what}`, source: "" };
    for (const script of scripts) {
      const text = script?.value ?? null;
      if (text === null || !harmless(text))
        return {
          reason: `with this program \`${what}\` may do more than read, so approval is needed`,
          source: script?.source ?? "",
        };
    }
    return null;
  };

const tarLists = ({ given, operands }: Parsed): Problem | null => {
  if (!wasGiven(given, "-t", "--list", "--version")) return { reason: "here tar does more than list", source: "" };
  // `host:file` is fetched by running a remote shell.
  const remote = given.find(({ name, value }) => /^(?:-f|--file)$/.test(name) && !/^[^:]+$/.test(value?.value ?? ""));
  if (remote)
    return { reason: "with this name tar could connect to another machine", source: remote.value?.source ?? "" };
  return operands.some(({ many }) => many)
    ? { reason: "this could become an option of tar when it runs", source: "" }
    : null;
};

export const FILES: Record<string, Program> = {
  ...entries(LOOSE, { loose: true }),
  ...entries(LOOSE_NAMES, { loose: true, names: true }),
  sort: listed(SORT),
  uniq: listed(UNIQ, { most: 1 }),
  shuf: listed("-erz -n: -i: --echo --repeat --head-count= --input-range= --zero-terminated"),
  file: listed(FILE),
  tree: listed(TREE, { names: true }),
  rg: listed(RG),
  ag: listed(AG),
  ...entries("fd fdfind", listed(FD, { names: true })),
  ...entries("bat batcat", listed(BAT)),
  // A word that begins with + is a command of less, which can run others.
  less: listed("-RrSNFXn", {
    check: ({ operands }) => {
      const run = operands.find(({ value }) => value === null || value.startsWith("+"));
      return run ? { reason: "less could take this for a command", source: run.source } : null;
    },
  }),
  xxd: listed("-abeiEup -c: -g: -l: -o: -s: -n:", { most: 1 }),
  base64: listed("-dDi -w: -b: --decode --ignore-garbage --wrap= --break=", { most: 1 }),
  base32: listed("-di -w: --decode --ignore-garbage --wrap=", { most: 1 }),
  iconv: listed("-lcs -f: -t: --from-code= --to-code= --list --silent"),
  tee: listed("-a --append", {
    order: "first",
    check: ({ operands }) => {
      const file = operands.find(({ value }) => value !== "/dev/null");
      return file ? { reason: "it writes a file", source: file.source } : null;
    },
  }),
  tar: listed(TAR, { check: tarLists }),
  ...entries("zcat gzcat bzcat xzcat zstdcat", listed("")),
  zgrep: listed("-inclvwEFHhqo -e: -A: -B: -C: -m:"),
  gzip: listed("-ltvdc --list --test --verbose --decompress --stdout", {
    check: needs("it replaces files", "-l", "-t", "-c", "--list", "--test", "--stdout"),
  }),
  unzip: listed("-lvZqp -x:", { check: needs("it writes files", "-l", "-v", "-Z", "-p") }),
  zipinfo: listed("-12smlvhtTzM"),
  sed: listed(SED, { check: scriptIn("sed", /^(?:-e|--expression)$/, isHarmlessSed) }),
  ...entries("awk gawk mawk nawk", listed("-F: -v:", { order: "stop", check: scriptIn("awk", /^$/, isHarmlessAwk) })),
  yq: listed(YQ),
  pr: listed("-adFfmtTr -l: -w: -h: -o: -n?"),
  tokei: listed("-f -s: -e: -t: -o: --files --sort= --exclude= --type= --output= --version --hidden"),
  ...entries(
    "locate plocate",
    listed("-bceilqrN0 -n: -l: --basename --count --existing --ignore-case --limit= --regex"),
  ),
};
