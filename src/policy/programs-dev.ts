// Development tools: their commands that only read. Commands that query another machine with a name of the caller's
// choice are left out, because a name can carry a secret; so are commands that run a file of the project (yarn, cargo,
// mvn, gradle, make).
import { type Problem, wasGiven } from "./options.ts";
import type { Program } from "./program.ts";
import { entries, wordsOf } from "./table.ts";

const list: Program = {
  options: "-aqnls -f: --all --quiet --no-trunc --size --last= --latest --filter= --format= --digests --tree",
};
const inspect: Program = { options: "-s -f: --size --format= --type=" };
const container: Record<string, Program> = {
  ...entries("ls ps list", list),
  inspect,
  logs: { options: "-ft -n: --follow --timestamps --tail= --since= --until= --details" },
  stats: { options: "-a --all --no-stream --no-trunc --format=" },
  top: { most: 1 },
  ...entries("port diff", {}),
};
const docker: Program = {
  options: "-v --version",
  subs: {
    ...container,
    images: list,
    history: { options: "-Hq --human --no-trunc --quiet --format=" },
    ...entries("version info", { options: "-f: --format=" }),
    container: { subs: container },
    image: { subs: { ls: list, list, inspect, history: { options: "-Hq --no-trunc --quiet --format=" } } },
    ...entries("volume network", { subs: { ls: list, inspect } }),
    context: { subs: { ls: list, show: {}, inspect } },
    system: { subs: { df: { options: "-v --verbose --format=" }, info: { options: "-f: --format=" } } },
    compose: { subs: { ls: list, version: { options: "--short -f: --format=" } } },
    buildx: { subs: { ls: {}, version: {}, du: { options: "--verbose --filter=" } } },
  },
};

const noSecrets: NonNullable<Program["check"]> = ({ operands }): Problem | null => {
  const secret = operands.find(({ value, many }) => many || value === null || /secret/i.test(value));
  return secret ? { reason: "it could show secrets of the cluster", source: secret.source } : null;
};
const KUBE = `
    -Aw -n: -l: -o: -L: --namespace= --context= --cluster= --all-namespaces --selector= --output= --watch
    --watch-only --sort-by= --field-selector= --show-labels --show-kind --no-headers --chunk-size=
    --ignore-not-found --label-columns= --request-timeout= --show-managed-fields --output-watch-events`;
const kube = (more = "", check: NonNullable<Program["check"]> = noSecrets): Program => ({
  options: `${KUBE} ${more}`,
  check,
});
const anything: NonNullable<Program["check"]> = () => null;
const kubectl: Program = {
  options: "-n: --namespace= --context= --cluster=",
  subs: {
    get: kube(),
    describe: kube("--show-events"),
    logs: kube(
      `
        -fp -c: --follow --previous --container= --tail= --since= --since-time= --timestamps --all-containers
        --prefix --limit-bytes=`,
      anything,
    ),
    top: {
      subs: { ...entries("pod pods", kube("--containers", anything)), ...entries("node nodes", kube("", anything)) },
    },
    explain: kube("--recursive --api-version=", anything),
    "api-resources": kube("--namespaced? --api-group= --verbs="),
    "api-versions": {},
    version: kube("--client --short"),
    "cluster-info": { most: 0 },
    config: {
      subs: {
        view: { options: "--minify -o: --output=", most: 0 },
        "current-context": {},
        "get-contexts": { options: "-o: --output= --no-headers" },
        "get-clusters": {},
      },
    },
    auth: { subs: { "can-i": kube("--list -q --quiet", anything), whoami: {} } },
    rollout: { subs: { status: kube("--timeout= --watch?", anything), history: kube("--revision=", anything) } },
    events: kube("--for= --types="),
  },
};

const GH = `
    -q: -L: -s: -a: -A: -l: -S: -t: --json= --jq= --template= --limit= --state= --author= --assignee= --label=
    --search= --comments --name-only --patch --required --branch= --workflow= --status= --user= --event= --commit=
    --draft --head= --base= --log --log-failed --job= --verbose --exit-status`;
const gh: Program = {
  options: "--version",
  subs: {
    pr: { subs: entries("list view status checks diff", { options: GH }) },
    issue: { subs: entries("list view status", { options: GH }) },
    ...entries("run release repo workflow", { subs: entries("list view", { options: GH }) }),
    auth: { subs: { status: {} } },
    version: {},
  },
};

const NPM_LIST = `
    -agl --depth= --all --json --long --parseable --global --prod --production --omit= --include= --link
    --workspaces --workspace=`;
const npm: Program = {
  options: "-v --version",
  subs: {
    ...entries("ls list ll", { options: NPM_LIST }),
    ...entries("explain why", { options: "--json" }),
    ...entries("root prefix bin", { options: "-g --global" }),
    config: {
      subs: { get: { options: "--json -g --global" }, ...entries("list ls", { options: "-l --json --long" }) },
    },
    pkg: { subs: { get: { options: "--json" } } },
    run: { most: 0, options: "--json" },
    "run-script": { most: 0 },
  },
};
const pip: Program = {
  options: "-V --version",
  subs: {
    list: { options: "-el --format= --user --local --editable --not-required --exclude= --exclude-editable --path=" },
    show: { options: "-fv --files --verbose" },
    freeze: { options: "-l --local --user --all --exclude= --exclude-editable" },
    check: {},
    config: { subs: { list: {}, get: {} } },
  },
};
const go: Program = {
  subs: {
    version: { options: "-mv" },
    env: { options: "=-json =-changed" },
    doc: { options: "-acu =-all =-src =-short" },
  },
};
const HELM = "-Aaq -n: -o: --namespace= --all-namespaces --output= --all --kube-context= --short --max=";
const helm: Program = {
  subs: { ...entries("list ls status history", { options: HELM }), version: { options: "--short --client" } },
};
const openssl: Program = {
  subs: {
    version: { options: "-abdeopv" },
    x509: {
      options: `
          =-in: =-inform: =-noout =-text =-subject =-issuer =-dates =-startdate =-enddate =-fingerprint =-serial
          =-purpose =-email =-sha256 =-sha1 =-nameopt: =-ext: =-checkend: =-hash =-pubkey`,
      most: 0,
    },
    dgst: { options: "=-sha256 =-sha1 =-sha512 =-sha384 =-md5 =-r =-hex =-c" },
    ciphers: { options: "-vVs" },
  },
};

/** The one option that only prints the version. The same letter starts a shell elsewhere (`python -v`, `swift -v`),
 *  and some programs obey the project even here (bazel, cargo, rustup, dotnet, mvn, yarn, bundle): those are left
 *  out. */
const VERSIONS: Record<string, string> = {
  "--version": `
      node nodejs python python2 python3 ruby gem perl php deno bun tsc java javac gcc g++ clang clang++ cc c++ ld
      make gmake cmake ninja meson curl wget rsync vim nvim emacs nano code aws gcloud az terraform tofu vagrant
      packer psql mysql redis-cli redis-server mongosh mongo sqlite3 postgres zsh bash fish uv uvx pyenv conda mamba
      swift ghc julia R Rscript zig nim dart npx`,
  "-V": "python python3 ssh curl psql mysql tmux postgres deno",
  "-v": "node nodejs npm tsc bun php perl nginx terraform",
  "-version": "java javac ffmpeg ffprobe convert magick sqlite3",
};
const versioned = (): Record<string, Program> => {
  const words = new Map<string, string[]>();
  for (const [word, names] of Object.entries(VERSIONS))
    for (const name of wordsOf(names)) words.set(name, [...(words.get(name) ?? []), word]);
  const check: NonNullable<Program["check"]> = ({ given }) =>
    given.length === 1 ? null : { reason: "only its version is known to be harmless", source: "" };
  return Object.fromEntries(
    [...words].map(([name, own]) => [name, { options: own.map((word) => `=${word}`).join(" "), most: 0, check }]),
  );
};

/** `node -p process.versions` and similar; any other expression is a program. */
const ABOUT_NODE = /^process\.(?:versions?|platform|arch|execPath|release)(?:\.\w+)?$/;
const node: Program = {
  options: "=--version =-v =-p: =--print:",
  most: 0,
  check: ({ given }) =>
    given.length === 1 && given.every(({ value }) => value === null || ABOUT_NODE.test(value.value ?? ""))
      ? null
      : { reason: "only its version is known to be harmless", source: "" },
};

export const DEV: Record<string, Program> = {
  ...versioned(),
  node,
  ...entries("docker podman", docker),
  kubectl,
  gh,
  npm,
  ...entries("pip pip3", pip),
  go,
  helm,
  openssl,
  brew: { options: "--version", subs: { list: { options: "-1v --versions --formula --cask" }, config: {} } },
  apt: {
    options: "--version",
    subs: {
      list: { options: "-a --installed --upgradable --all-versions" },
      show: { options: "-a" },
      search: {},
      policy: {},
    },
  },
  "apt-cache": { subs: { policy: {}, show: {}, search: {}, depends: {}, rdepends: {} } },
  dpkg: { options: "-lLsSp --list --listfiles --status --search --print-avail --version --print-architecture" },
  "dpkg-query": { options: "-lLsSW -f: --list --listfiles --status --search --show --showformat=" },
  rpm: {
    options: "-qailcdRf --query --all --info --list --whatprovides --version --changelog",
    check: ({ given }) =>
      wasGiven(given, "-q", "--query", "--version") ? null : { reason: "here rpm does more than ask", source: "" },
  },
};
