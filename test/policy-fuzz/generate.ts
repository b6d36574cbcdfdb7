// Commands for the policy to judge: made by a grammar of bash and of the programs that can run or write something, and by
// twisting those of test/data. What they try is to touch "$CANARY", to run a planted `./evil`, or to print a secret.
import type { Random } from "../simulation/scheduler.ts";
import { everyday, rows, secretReads } from "./corpora.ts";

const words = (text: string): string[] => text.trim().split(/\s+/);
const lines = (text: string): string[] => text.trim().split("\n");

const PAYLOADS = lines(`
touch "$CANARY"
touch $CANARY
./evil
/home/me/project/evil
sh evil
echo x > "$CANARY"
cp evil c2
rm f.txt
mkdir d2
cat ~/.ssh/id_rsa
cat ~/.netrc
cat /proc/$PPID/environ`);
const SECRETS = words(`
  ~/.ssh/id_rsa ~/.netrc $HOME/.ssh/id_rsa ~/.s*/id* ~/.ssh/* /home/me/.ssh/id_rsa ~/.[s]sh/id_rsa ~/.{ssh,x}/id_rsa
  ../.ssh/id_rsa ../.netrc ../.??h/id_rsa ~/.aws/credentials /proc/$PPID/environ /proc/*/environ ~/.config/gh/hosts.yml
  ../.*/id_rsa ~+/../.netrc ~/./.ssh//id_rsa "$HOME"/.netrc ~/.n?trc ~/.ne*`);
const FILES = words("f.txt g.txt src/a.ts . src *.txt evil f.txt nothing -- - 'a b' ~ $HOME /etc/hostname src/*");
const READERS = words(`
  cat head tail wc grep sort uniq cut nl od strings diff cmp comm tac rev fold base64 md5sum sed awk jq less xxd tr paste
  join column file stat`);
const HARMLESS = lines(`
ls
ls -la
pwd
true
:
echo ok
cat f.txt
head -1 f.txt
wc -l f.txt
grep a f.txt
grep -rn a src
git status
git log -1
git diff
find . -name '*.txt'
sort f.txt
uname -a
date
whoami
test -f f.txt
[ -d src ]
printf '%s\\n' a
stat f.txt
du -sh .
basename a/b
seq 3
cd src
git ls-files
tar tf a.tar
env
id`);
const NAMES = words(
  "x y a f file IFS PATH HOME BASH_ENV ENV PS4 LD_PRELOAD GIT_PAGER PAGER i n _ PROMPT_COMMAND SHELLOPTS CDPATH",
);
const ODD = [
  "\\",
  "\\\n",
  "'",
  '"',
  "`",
  "$",
  "\t",
  " ",
  "\n",
  ";",
  "&",
  "|",
  "(",
  ")",
  "{",
  "}",
  "#",
  "!",
  "*",
  "?",
  "[",
  "]",
  "~",
  "=",
  "<",
  ">",
  "\r",
  "\0",
  "\x01",
  "\u00a0",
  "\u200b",
  "\u202e",
  "é",
  "$'",
  '$"',
  "${",
  "$(",
  "$((",
  "<<<",
  "<(",
  ">|",
  ">&",
  "&>",
  "<>",
  "|&",
  "&&",
  "||",
  ";;",
  "!(",
  "@(",
  "+(",
  "%",
  "^",
  ",",
  "..",
  "-",
  "--",
  "-e",
  "-c",
  "-f",
  "-i",
  "-o",
  "-x",
  "-v",
  "+",
  "/",
  "//",
  "x=",
  "2>",
  "1",
];

const FLAGS: Record<string, string[]> = {
  sort: words("-o -t -k1 --output=c2 --compress-program=./evil -T . --files0-from=f.txt -u --random-source=f.txt"),
  find: lines(`
-exec ./evil {} ;
-exec ./evil {} +
-exec touch {}.c \\;
-execdir ./evil \\;
-ok ./evil \\;
-delete
-fprint c2
-fprintf c2 x
-fls c2
-name '*.txt'
-type f
-exec cat {} +
-exec grep a {} \\;
-printf '%p\\n'
-newer f.txt
-files0-from f.txt
-exec sh -c ./evil \\;
-maxdepth 1`),
  git: lines(`
status
log -1
log --output=c2
diff --output=c2
diff --no-index /dev/null ~/.netrc
diff --ext-diff
-c core.pager=./evil log
-c alias.x='!./evil' x
-C src status
--git-dir=x status
--exec-path=. status
grep -O./evil a
grep --open-files-in-pager=./evil a
show --textconv HEAD:f.txt
blame f.txt
branch new
branch --list
tag t1
config a.b c
config --get user.name
archive -o c2 HEAD
bundle create c2 HEAD
format-patch -1
stash
notes list
reflog expire --all
ls-files
rev-parse --git-path x
cat-file --textconv HEAD:f.txt
cat-file --filters HEAD:f.txt
for-each-ref --shell
var GIT_EDITOR
show-ref
check-ignore f.txt
symbolic-ref HEAD refs/heads/x
remote -v
remote add a b
worktree list
log --format=%s -p
shortlog HEAD
rev-list HEAD
name-rev HEAD
describe --always`),
  tar: lines(`
tf a.tar
-tf a.tar --to-command=./evil
-tf a.tar --checkpoint=1 --checkpoint-action=exec=./evil
-xf a.tar
-cf c2 f.txt
-tf a.tar -I ./evil
--list -f a.tar --use-compress-program=./evil
tvf a.tar
-tf h:x
-C src -tf ../a.tar
-tf a.tar --index-file=c2`),
  sed: lines(`
-n p f.txt
's/a/b/' f.txt
's/a/b/w c2' f.txt
'w c2' f.txt
'1e ./evil' f.txt
's/.*/.\\/evil/e' f.txt
-i s/a/b/ f.txt
-n '/[]/]/w c2' f.txt
'r /home/me/.netrc' f.txt
-s -n '$=' f.txt
--in-place s/a/b/ f.txt
-f f.txt f.txt
'y/abc/xyz/' f.txt
'/a/,/b/p;d' f.txt
's/[/]/w c2' f.txt
's/a/b/;#w c2' f.txt
'1!G;h;$!d' f.txt`),
  xargs: lines(`
cat
./evil
-I{} cat {}
-I{} sh -c {}
-n1 touch
sh -c
-a f.txt cat
-P2 echo
-0 cat
env
-d, echo
grep a`),
  env: lines(`
ls
./evil
-S'./evil'
-i ls
A=1 ls
PATH=. evil
LC_ALL=C ls
-u HOME ls
-C src ls
TZ=./evil date`),
  printf: lines(`
'%s' a
-v x a
-v PATH .
'%n' x
'%(%s)T' 1
'%d' 'a[$(./evil)]'
'%*d' 3 4
'%q' a
-v 'a[$(./evil)]' x`),
  test: lines(`
-f f.txt
-v 'a[$(./evil)]'
'a[$(./evil)]' -eq 1
-R x
1 -eq 1
-n a -a -v 'a[$(./evil)]'
-t 1
! -f x
-o x`),
  read: lines(`
x < f.txt
-p a x
'a[$(./evil)]' < f.txt
-a x < f.txt
x <<< a
-u 0 x`),
  awk: [],
  timeout: words("1 -k1 -s9 --foreground"),
  service: lines(`
../../home/me/project/evil status
x status
../evil status
--status-all`),
  less: lines(`
f.txt
-o c2 f.txt
+!./evil f.txt
-Oc2 f.txt
-R f.txt
-k f.txt f.txt
--log-file=c2 f.txt`),
  jq: lines(`
. f.txt
-n env
-n 'import "a" as $a; 1'
-R . ~/.netrc
-f f.txt
-n '$ENV.PATH'
--rawfile a ~/.netrc -n '$a'`),
  man: lines(`
./evil
-P ./evil ls
-H./evil ls
ls
--pager=./evil ls`),
  tee: words("/dev/null c2 -a"),
  uniq: lines(`
f.txt
f.txt c2
-c f.txt c2
- c2`),
  xxd: lines(`
f.txt
-r f.txt c2
f.txt c2
-p f.txt`),
  shuf: words("f.txt -oc2 -o -e --output=c2 --random-source=f.txt"),
  date: lines(`
+%s
-s now
-f f.txt
-r f.txt
-d 'TZ="x" now'`),
  iconv: words("-f utf8 -t ascii f.txt -oc2 -o"),
  file: words("f.txt -C -m evil -z -f f.txt -S"),
  tree: words(". -o c2 -R -H x -oc2 -L 1"),
  od: words("-c f.txt -An"),
  bat: words("f.txt --pager=./evil -P --diff"),
  rg: words("a --pre ./evil --pre=./evil -z --hostname-bin ./evil"),
  base64: words("f.txt -d -o c2 -oc2"),
  split: words("f.txt"),
  openssl: lines(`
version
x509 -in f.txt -noout
dgst -sha256 f.txt
dgst -out c2 f.txt
version -engine ./evil`),
  dmesg: words("-C -c -n 1"),
  node: lines(`
-p process.version
-p 'require("fs").writeFileSync("c2","")'
--version
-e 1
evil`),
};

const AWK = [
  ...'{ } ( ) [ ] / // ; , $0 $1 x y "a" "/" "]" 1 2 ~ !~ == = += ++ -- + - * % ^ ! < > >= | || && ? : in print printf getline length NR NF FS BEGIN END if while for else next exit system( close( gsub( sub( match( split( substr( toupper( length( sprintf( /a/ /[]/ /[^]/ /[/]/ /]/ /\\// /[[:alpha:]]/ "c2" "./evil" "sh" > >> | "cat" # ARGV ENVIRON @include function f return delete \\ "\\"" \'BEGIN{\' printf( print>"c2" |"sh" |$0 |getline "]/{print|\\"./evil\\"}#" /[]/~"]/{print|$0}#"'.split(
    " ",
  ),
  "\n",
  " ",
  " ",
];
const SED = [
  ..."p d q n N G h H x = 1 $ 2,3 1~2 /a/ /[/]/ /[]/]/ \\,a, s/a/b/ s/a/b/g s/a/b/w s/a/b/e s,a,b, s|a|b|w y/a/b/ w r R W e ; { } ! # : b t a i c l c2 ./evil [ ] / \\ & I M 0,/a/ s/[/]/x/ s/[]/]/x/w s/a/\\n/ }w s/x/y/;w F z v L".split(
    " ",
  ),
  "\n",
  " ",
  " c2",
];

const CORPUS = (() => {
  const attacks = [...rows("shell-bypass.tsv"), ...rows("shell-bypass-more.tsv")].map(({ command }) => command);
  const { read, work } = everyday();
  return { attacks, read, work, secrets: secretReads() };
})();

/** `allowed`: commands that were, from which it goes on: what is nearly forbidden is found step by step. */
export const generate = (random: Random, allowed: readonly string[]): string => {
  const pick = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
  const chance = (share: number) => random() < share;
  const many = (most: number, make: () => string, joint = " ") =>
    Array.from({ length: 1 + Math.floor(random() * most) }, make).join(joint);
  const payload = () => pick(PAYLOADS);
  const command = () => (chance(0.15) ? payload() : chance(0.5) ? pick(HARMLESS) : pick(CORPUS.read));

  const kinds: [number, () => string][] = [
    [22, twisted],
    [30, evolved],
    [10, spliced],
    [14, () => script(3)],
    [10, program],
    [7, awk],
    [6, sed],
    [14, secret],
    [8, functions],
    [4, () => many(12, () => pick(ODD.concat(HARMLESS, PAYLOADS)), "")],
  ];
  let at = random() * kinds.reduce((sum, [share]) => sum + share, 0);
  for (const [share, make] of kinds) {
    at -= share;
    if (at < 0) return make();
  }
  return command();

  /** A command of the corpora with some characters or words other than they were. */
  function twisted(): string {
    let text = chance(0.55) ? pick(CORPUS.read) : pick(pick([CORPUS.attacks, CORPUS.secrets, CORPUS.work, HARMLESS]));
    for (let left = 1 + Math.floor(random() * 3); left > 0; left--) text = twist(text);
    return text;
  }

  function evolved(): string {
    let text = allowed.length > 0 ? pick(allowed) : twisted();
    for (let left = 1 + Math.floor(random() * 2); left > 0; left--) text = twist(text);
    return text.slice(0, 400);
  }

  function twist(text: string): string {
    const position = Math.floor(random() * (text.length + 1));
    const parts = text.split(" ");
    const index = Math.floor(random() * parts.length);
    switch (Math.floor(random() * 9)) {
      case 0:
        return text.slice(0, position) + pick(ODD) + text.slice(position);
      case 1:
        return text.slice(0, position) + text.slice(position + 1 + Math.floor(random() * 3));
      case 2:
        return parts.with(index, expansion(payload)).join(" ");
      case 3:
        return parts.with(index, disguised(parts[index] ?? "")).join(" ");
      case 4:
        return parts.toSpliced(index, 0, pick([...FILES, ...Object.values(FLAGS).flat(), ...SECRETS])).join(" ");
      case 5:
        return `${text}${pick([" ; ", " && ", "\n", " | ", " & ", " |& "])}${payload()}`;
      case 6:
        return (
          text.slice(0, position) +
          pick([`$(${payload()})`, `\`${payload()}\``, `<(${payload()})`]) +
          text.slice(position)
        );
      case 7:
        return `${pick(NAMES)}=${disguised(payload())} ${text}`;
      default:
        return text.slice(0, position) + text.slice(position, position + 6) + text.slice(position);
    }
  }

  function spliced(): string {
    const [a, b] = [
      pick(pick([CORPUS.read, CORPUS.attacks])),
      pick(pick([CORPUS.attacks, CORPUS.read, CORPUS.secrets])),
    ];
    return a.slice(0, Math.floor(random() * a.length)) + b.slice(Math.floor(random() * b.length));
  }

  /** The same to bash, or nearly. */
  function disguised(text: string): string {
    const at = Math.floor(random() * text.length);
    switch (Math.floor(random() * 8)) {
      case 0:
        return `'${text}'`;
      case 1:
        return `"${text}"`;
      case 2:
        return `${text.slice(0, at)}\\${text.slice(at)}`;
      case 3:
        return `${text.slice(0, at)}''${text.slice(at)}`;
      case 4:
        return `$'${text}'`;
      case 5:
        return `{${text},x}`;
      case 6:
        return `${text.slice(0, at)}\\\n${text.slice(at)}`;
      default:
        return `\${x:-${text}}`;
    }
  }

  function expansion(make: () => string): string {
    const name = pick(NAMES);
    return pick([
      () => `$(${make()})`,
      () => `"$(${make()})"`,
      () => `\`${make()}\``,
      () => `\${${name}:-$(${make()})}`,
      () => `\${${name}:=${make()}}`,
      () => `$((${name}[$(${make()})]))`,
      () => `\${${name}[$(${make()})]}`,
      () => `\${${name}@P}`,
      () => `\${!${name}}`,
      () => `\${${name}//a/$(${make()})}`,
      () => `\${${name}:$(${make()})}`,
      () => `$[${name}[$(${make()})]]`,
      () => `<(${make()})`,
      () => `>(${make()})`,
      () => `$"$(${make()})"`,
      () => `$'\\x24(${make()})'`,
      () => `"\${${name}:+\`${make()}\`}"`,
      () => `\${ ${make()}; }`,
      () => `$${name}`,
      () => `"$${name}"`,
      () => `{a,$(${make()})}`,
      () => `@(a|$(${make()}))`,
      () => `~${name}`,
      () => `'$(${make()})'`,
      () => `\\$(${make()})`,
    ])();
  }

  function simple(): string {
    const base = command();
    if (chance(0.55)) return base;
    return chance(0.5) ? `${base} ${expansion(command)}` : `${base} ${pick([...FILES, ...ODD])}`;
  }

  function script(depth: number): string {
    if (depth === 0) return simple();
    const inner = () => script(depth - 1);
    return pick([
      simple,
      simple,
      () => `${inner()}; ${inner()}`,
      () => `${inner()} && ${inner()}`,
      () => `${inner()} | ${inner()}`,
      () => `${inner()}\n${inner()}`,
      () => `(${inner()})`,
      () => `{ ${inner()}; }`,
      () => `if ${inner()}; then ${inner()}; fi`,
      () => `for x in ${many(3, () => pick(FILES.concat(SECRETS)))}; do ${inner()}; done`,
      () => `while ${inner()}; do ${inner()}; break; done`,
      () => `case ${pick(FILES)} in ${pick(["*", "a|b", "$(./evil)", "f*"])}) ${inner()};; esac`,
      () => `cat <<${pick(["E", "'E'", "-E", '"E"', "\\E"])}\n${inner()}\n$(${inner()})\nE\n`,
      () => `cat <<< ${expansion(inner)}`,
      () =>
        `[[ ${pick(["-v a[$(./evil)]", "a == b", "1 -eq a[$(./evil)]", "$x =~ a", "-f f.txt", "$(./evil)"])} ]] && ${inner()}`,
      () => `(( ${pick(["1", "a[$(./evil)]", "x=1", "x", "$(./evil)"])} )); ${inner()}`,
      () => `coproc ${inner()}`,
      () => `time ${inner()}`,
      () => `! ${inner()}`,
      () =>
        `${inner()} ${pick(["2>&1", "> /dev/null", "< f.txt", "> c2", ">> c2", ">| c2", "&> c2", "2> /dev/null", "<> c2", ">&2", ">& c2", "{x}> c2", "3< f.txt"])}`,
      () =>
        `${pick(NAMES)}=${pick([pick(FILES), pick(SECRETS), expansion(inner), "(a b)", disguised(payload())])}; ${inner()} $${pick(NAMES)}`,
      () => `a[${pick(["0", "$(./evil)", "x"])}]=1; ${inner()}`,
      () =>
        `${pick(["eval", "command", "builtin", "exec", "time -p", "command -p", "nice", "timeout 1", "env", "xargs", "trap", "."])} ${inner()}`,
      () => `set -- ${many(3, () => pick(FILES.concat(SECRETS)))}; ${inner()} "$@"`,
      () => `alias ls=./evil\n${inner()}`,
      () => `${inner()} # ${inner()}`,
      () => `shopt -s ${pick(words("expand_aliases extglob nullglob dotglob"))}; ${inner()}`,
      () => `printf -v ${pick(NAMES)} '%s' ${pick(SECRETS)}; ${inner()} $${pick(NAMES)}`,
      () => `declare -n x=${pick(NAMES)}; x=.; ${inner()}`,
      () => `${inner()} & ${inner()}`,
      () => `hash -p ./evil ls; ls`,
      () => `read ${pick(NAMES)} <<< ${pick(SECRETS)}; ${inner()} $${pick(NAMES)}`,
    ])();
  }

  function functions(): string {
    const name = pick(
      words(
        "touch ls cat evil echo t\\ouch 'touch' \"touch\" t$x command cd [ test : true sh $(ls) to''uch builtin touch\\ ",
      ),
    );
    const define = pick([
      `${name}() { ${simple()}; }`,
      `function ${name} { ${simple()}; }`,
      `function ${name}() (${simple()})`,
      `${name} () ${pick(["{ :; }", "(:)", "if :; then :; fi", "[[ a ]]"])}`,
    ]);
    const defined = chance(0.3)
      ? pick([
          `(${define})`,
          `${define} | cat`,
          `false && ${define}`,
          `if false; then ${define}; fi`,
          `: & ${define}`,
          `{ ${define}; }`,
          `f() { ${define}; }`,
        ])
      : define;
    return `${defined}${pick(["; ", "\n", " && "])}${pick([payload(), simple(), `${name} "$CANARY"`, "unset -f touch; touch c2"])}`;
  }

  function program(): string {
    const name = pick(Object.keys(FLAGS));
    const flags = FLAGS[name] ?? [];
    const before = chance(0.2)
      ? `${pick(["echo f.txt", "cat f.txt", "ls", "echo ./evil", "echo ~/.netrc", "printf '%s\\0' evil"])} | `
      : "";
    const args = many(2, () => (flags.length > 0 && chance(0.75) ? pick(flags) : pick(FILES.concat(SECRETS))));
    const after = chance(0.15) ? ` ${pick(FILES)}` : "";
    const text = `${before}${name} ${args}${after}`;
    return chance(0.2) ? twist(text) : text;
  }

  function awk(): string {
    const body = many(9, () => pick(AWK), pick(["", " ", ""]));
    const text = chance(0.6)
      ? body
      : pick([
          `{${body}}`,
          `BEGIN{${body}}`,
          `/${body}/`,
          `{print ${body}}`,
          `{x = ${body}; print x}`,
          `{print length ${body}}`,
        ]);
    return `${pick(["awk", "awk", "gawk", "mawk"])} ${quoted(text)} ${pick(["f.txt", "evil.txt", "x=1 f.txt", "-v a=b f.txt", ""])}`;
  }

  function sed(): string {
    const text = many(6, () => pick(SED), pick(["", " ", ""]));
    return `sed ${pick(["-n ", "", "-E ", "-s ", "-z "])}${quoted(text)} ${pick(["f.txt", "evil.txt", "f.txt g.txt"])}`;
  }

  function quoted(text: string): string {
    return chance(0.9) ? `'${text.replaceAll("'", "")}'` : `"${text.replaceAll('"', "")}"`;
  }

  function secret(): string {
    const file = pick(SECRETS);
    const reader = pick(READERS);
    const first = /^(?:grep|sed|awk|jq|tr|cut|fold)$/.test(reader)
      ? pick(["''", ".", "p", "1", "-c1-", "-n p", "a b"])
      : "";
    const [x, y] = [pick(["x", "f", "d"]), pick(["x", "f", "y"])];
    return pick([
      () => `${reader} ${first} ${file}`,
      () => `${x}=${file}; ${reader} ${first} $${x}`,
      () => `${x}=${file}; ${reader} ${first} "$${x}"`,
      () => `for ${x} in ${file}; do ${reader} ${first} $${y}; done`,
      () => `${reader} ${first} < ${file}`,
      () => `echo ${file} | xargs ${reader} ${first}`,
      () => `ls ${file} | xargs ${reader} ${first}`,
      () =>
        `cd ${file.replace(/\/[^/]*$/, "")} && ${reader} ${first} ${pick(["id*", "*", "id_rsa", ".netrc", "i?_rsa", ".n*", "environ", "e*"])}`,
      () =>
        `find ${pick(["~", "..", "/home", "~/.ssh", "/home/me", "../.ssh", "."])} ${pick(["", "-type f", "-name 'id*'", "-name '*rsa'", "-path '*ssh*'", "-name '.n*'"])} ${pick([`-exec ${reader} ${first} {} +`, `| xargs ${reader} ${first}`, `-exec ${reader} ${first} {} \\;`])}`,
      () =>
        `grep ${pick(["-r", "-R", "--recursive", "-nr", "-ra"])} ${pick([".", "''", "S"])} ${pick(["~", "..", "/home", "~/.ssh", "../.ssh", "$HOME", "../../me"])}`,
      () => `echo $(<${file})`,
      () => `${reader} ${first} <(cat ${file})`,
      () => `while read -r ${x}; do echo $${y}; done < ${file}`,
      () => `mapfile -t ${x} < ${file}; echo "\${${y}[@]}"`,
      () => `echo "$(cat ${file})"`,
      () => `${x}=$(echo ${file}); ${reader} ${first} $${y}`,
      () => `${x}=~; ${reader} ${first} $${y}/.ssh/id_rsa`,
      () => `${x}=.ssh; ${y}=id_rsa; ${reader} ${first} ~/$${x}/$${y}`,
      () => `${x}=ssh; ${reader} ${first} ~/.$${y}/id_rsa`,
      () => `printf '%s\\n' ${file} | while read -r ${x}; do ${reader} ${first} $${y}; done`,
      () => `set -- ${file}; ${reader} ${first} $1`,
      () => `${reader} ${first} \${${x}:-${file}}`,
      () => `f() { ${reader} ${first} "$1"; }; f ${file}`,
      () => `f() { ${reader} ${first} "$@"; }; f f.txt ${file}`,
      () => `${x}=${file}; f() { ${reader} ${first} $${y}; }; f`,
      () => `git diff --no-index f.txt ${file}`,
      () => `${reader} ${first} $(ls -d ${file})`,
      () => `${reader} ${first} $(find ~ -name 'id*')`,
      () => `cat f.txt | ${reader} ${first} - ${file}`,
      () => `read ${x} <<< ${file}; ${reader} ${first} $${y}`,
      () => `${x}=(${file}); ${reader} ${first} "\${${y}[0]}"`,
      () => `${x}=${file}; ${reader} ${first} \${${y}%x} \${${y}/x/}`,
      () =>
        `diff ${pick(["-r", "-r -N", "--recursive", ""])} ${pick(["~", "../.ssh", "..", file])} ${pick(["src", "/dev/null", "f.txt"])}`,
      () => `${reader} ${first} ${disguised(file)}`,
      () =>
        `ls -a ${pick(["~", "..", "~/.ssh"])} | while read ${x}; do ${reader} ${first} ${pick(["~", "..", "~/.ssh"])}/$${y}; done`,
      () => `IFS=: read ${x} ${y} <<< a:${file}; ${reader} ${first} $${y}`,
      () => `pushd ${file.replace(/\/[^/]*$/, "")}; ${reader} ${first} *`,
    ])();
  }
};
