// Commands that ask even inside a sandbox, because they destroy work, reach out of it, or have effects that outlast it.
import { baseName, SHELLS } from "./carriers.ts";
import { git } from "./dangerous-git.ts";
import type { Allowed, Finding } from "./harmless.ts";
import { UNKNOWN } from "./possible.ts";
import type { Reach, Reached } from "./reach.ts";
import { looksSecret } from "./secrets.ts";
import { entries, has, oneOf, own, wordsOf } from "./table.ts";
import type { CommandPlace } from "./types.ts";

export type DangerRule = (args: readonly string[], at: Reached) => string | null;

const operands = (args: readonly string[]): string[] => args.filter((arg) => !arg.startsWith("-"));
const says =
  (reason: string, wanted: RegExp = /(?:)/): DangerRule =>
  (args) =>
    args.length === 0 || has(args, wanted) ? reason : null;
const unless =
  (reason: string, harmless: RegExp): DangerRule =>
  (args) =>
    args.length > 0 && args.every((arg) => harmless.test(arg)) ? null : reason;
/** Judges by the first word that is not an option. */
const verb =
  (reason: string, wanted: RegExp): DangerRule =>
  (args) =>
    wanted.test(operands(args)[0] ?? "") ? reason : null;

const RECURSIVE = "it deletes a directory with everything in it";
const SENDS = "it could send data to another machine";
const REMOTE = "it acts on another machine";
const RIGHTS = "it changes the rights of many files";
const PUBLISHES = "it publishes something";
const ADMIN = "it acts as another user";
const SYSTEM = "it changes the system";
const LATER = "it starts something later, outside this command";
const BY_NAME = "it stops programs by name";
const DATA = "it deletes data";
const WAY_IN = "it opens a way in from outside";
/** Reasons that do not apply where no host can be reached, no privileges can be gained and only the command's own
 *  processes are visible. */
const SEALED = new Set([SENDS, REMOTE, PUBLISHES, ADMIN, SYSTEM, LATER, BY_NAME, WAY_IN]);

const remove: DangerRule = (args) => {
  if (has(args, /^-[a-zA-Z]*[rR]|^--(?:recursive|r|re\w*)$|^--no-pre/)) return RECURSIVE;
  return has(args, new RegExp(`^${UNKNOWN}$`)) && !has(args, /^[^-\uFFFF]/)
    ? "what it deletes is known only when it runs"
    : null;
};
const recursive =
  (reason: string): DangerRule =>
  (args) =>
    has(args, /^-[a-zA-Z]*R|^--recursive$/) || has(args, /^[0-7]*[4-7][0-7]{3}$|[ug+]*\+[rwx]*s/) ? reason : null;

const curl: DangerRule = (args) => {
  if (
    has(
      args,
      /^-(?!-)\w*[dFTKQ]|^--(?:data|form|upload|json|config|mail|quote|post|url-query|cookie$|netrc|proto-redir)/,
    )
  )
    return SENDS;
  const method = args.findIndex((arg) => /^(?:-\w*X|--request)$/.test(arg));
  const given = args.find((arg) => /^-\w*X[A-Z]|^--request=/.test(arg));
  const named = method >= 0 ? (args[method + 1] ?? "") : (given ?? "").replace(/^-\w*X|^--request=/, "");
  if (named !== "" && !/^(?:GET|HEAD|OPTIONS)$/i.test(named)) return SENDS;
  return unseen(args);
};
const wget: DangerRule = (args) =>
  has(args, /^--(?:post|method|body|input-file|config|execute|use-askpass|load-cookies)|^-\w*[ei]$/)
    ? SENDS
    : unseen(args);
/** A value that only the shell knows may be anything, including a secret. */
const unseen = (args: readonly string[]): string | null => (has(args, new RegExp(UNKNOWN)) ? SENDS : null);

const rsync: DangerRule = (args) => {
  if (has(operands(args), /^(?:rsync:\/\/|[^/]+::?)/)) return SENDS;
  return has(args, /^--(?:del|remove-source)/) ? DATA : null;
};

const HOST_ACCESS = oneOf(`
  -v.* --volume.* --mount.* --volumes-from.* --privileged --cap-add.* --device.*
  --(?:net|network|pid|ipc|userns|uts|cgroupns)=host host --security-opt.* --group-add.*`);
const CHANGES = oneOf(`
  rm rmi prune kill stop restart pause update rename push login logout swarm stack service node plugin save load
  import commit secret config`);
const GROUPS = oneOf(`
  system volume network image container builder context trust manifest`);
const GROUP_LOOKS = oneOf(`
  ls list inspect df info history logs show build pull create ps stats top port diff`);
const docker: DangerRule = (args) => {
  const [first = "", second = ""] = operands(args);
  if (/^(?:run|create|exec)$/.test(first === "container" ? second : first))
    return has(args, HOST_ACCESS) ? "it gives a container access to the machine" : null;
  if (first === "push") return PUBLISHES;
  if (CHANGES.test(first) || (GROUPS.test(first) && !GROUP_LOOKS.test(second)))
    return "it changes containers or images that others may use";
  if (first === "compose" && !/^(?:ps|logs|config|ls|version|images|top|build|pull)$/.test(second))
    return "the services may use directories of the machine";
  return has(args, /^(?:-H|--host|-c|--context)/) ? REMOTE : null;
};

const NODE_VERBS =
  /^(?:publish|unpublish|deprecate|dist-tags?|owner|access|adduser|login|logout|token|team|star|hook|org|profile)$/;
const SCRIPT_NAMES = /(?:^|[:_-])(?:deploy|publish|release|ship)(?:$|[:_-])/;
const node: DangerRule = (args) => {
  const [first = "", second = ""] = operands(args);
  if (NODE_VERBS.test(first) || (first === "npm" && NODE_VERBS.test(second))) return PUBLISHES;
  const script = /^(?:run|run-script|rum|urn)$/.test(first) ? second : first;
  if (SCRIPT_NAMES.test(script)) return PUBLISHES;
  return first === "config" && /^(?:set|delete|edit)$/.test(second)
    ? "it changes how packages are installed from now on"
    : null;
};

const DROPS = [
  /\b(?:drop|truncate)\s+(?:table|database|schema|index|view|role|user)\b/i,
  /\bdelete\s+from\s+[^\s;]+\s*(?:;|$)/i,
  /\bflush(?:all|db)\b|dropDatabase|dropCollection|deleteMany\(\s*\{\s*\}/i,
];
const database: DangerRule = (args) => (DROPS.some((drops) => drops.test(args.join(" "))) ? DATA : null);

const CLUSTER_LOOKS = oneOf(`
  get describe logs top explain api-resources api-versions version cluster-info auth events list ls status history
  show search lint template env diff wait`);
const cluster: DangerRule = (args) => {
  const [first = "", second = ""] = operands(args);
  if (first === "" || CLUSTER_LOOKS.test(first)) return null;
  return first === "config" && /^(?:view|current-context|get-contexts|get-clusters)$/.test(second) ? null : REMOTE;
};
const infrastructure: DangerRule = (args) =>
  /^(?:fmt|validate|version|init|plan|show|output|graph|providers|)$/.test(operands(args)[0] ?? "") ? null : REMOTE;
const cloud: DangerRule = (args) =>
  has(args, /^(?:--version|-v|--help|help|version)$/) ||
  operands(args).some((word) =>
    /^(?:ls|list.*|describe.*|get.*|show|whoami|status|info|logs|configure list)$/.test(word),
  )
    ? null
    : REMOTE;
const gh: DangerRule = (args) => {
  const [group = "", action = ""] = operands(args);
  if (group === "" || /^(?:help|version|status|browse|search|completion)$/.test(group)) return null;
  if (group === "api") return has(args, /^(?:-X|--method|-f|-F|--field|--raw-field|--input)/) ? REMOTE : null;
  return /^(?:list|view|status|checks|diff|clone|download|watch|checkout|ls)$/.test(action) ? null : REMOTE;
};

const find: DangerRule = (args) => (has(args, /^-delete$/) ? "it deletes everything it finds" : null);
const xargs: DangerRule = (args) =>
  has(args, /^(?:.*\/)?(?:rm|shred|unlink|rmdir|kill)$/) ? "what it deletes or stops is known only when it runs" : null;
const kill: DangerRule = (args) =>
  has(args, new RegExp(UNKNOWN)) || has(args, /^-?0$/) ? "what it stops is known only when it runs" : null;

const CHANGES_SYSTEM = `
  systemctl service launchctl loginctl initctl rc-service systemd-run
  mount umount swapoff swapon losetup sysctl modprobe insmod rmmod iptables ip6tables nft ufw firewall-cmd
  useradd userdel usermod groupadd groupdel passwd chpasswd chsh adduser deluser vipw gpasswd dscl
  fdisk sfdisk cfdisk gdisk sgdisk parted mkswap mkfs mke2fs wipefs cryptsetup lvremove vgremove pvremove zpool zfs btrfs
  shutdown reboot halt poweroff init telinit kexec
  chroot nsenter unshare setcap update-alternatives ldconfig hostnamectl timedatectl localectl`;
const RULES: Record<string, DangerRule> = {
  ...entries("rm rimraf", remove),
  ...entries("srm shred wipe trash trash-put", says(DATA)),
  ...entries("find gfind", find),
  fd: (args) => (has(args, /^(?:-[xX]|--exec.*)$/) && has(args, /^rm$/) ? "it deletes everything it finds" : null),
  ...entries("xargs parallel", xargs),
  ...entries("chmod chown chgrp chattr setfacl chflags", recursive(RIGHTS)),
  ...entries("sudo doas su pkexec runuser gosu su-exec sudoedit visudo", says(ADMIN)),
  ...entries("pkill killall skill slay", says(BY_NAME)),
  kill,
  ...entries("crontab at batch atrm anacron", unless(LATER, /^-[lV]$/)),
  ...entries(CHANGES_SYSTEM, says(SYSTEM)),
  curl,
  wget,
  rsync,
  ...entries("scp sftp ftp lftp rcp tftp", () => SENDS),
  ...entries("nc ncat netcat socat telnet sendmail mail mailx mutt msmtp swaks croc wormhole rclone", says(SENDS)),
  ...entries("ssh mosh autossh sshpass ssh-copy-id ssh-add", unless(REMOTE, /^-[VlQ]$/)),
  ...entries("ngrok cloudflared localtunnel lt bore", says(WAY_IN)),
  openssl: verb(SENDS, /^s_(?:client|server)$/),
  ...entries("docker podman nerdctl", docker),
  "docker-compose": (args, at) => docker(["compose", ...args], at),
  ...entries("npm pnpm yarn bun npx", node),
  cargo: verb(PUBLISHES, /^(?:publish|yank|owner|login|logout)$/),
  gem: verb(PUBLISHES, /^(?:push|yank|owner|signin)$/),
  twine: says(PUBLISHES),
  ...entries("poetry uv flit hatch pdm", verb(PUBLISHES, /^(?:publish|config|self)$/)),
  ...entries("mvn gradle gradlew mvnw sbt", (args) =>
    has(args, /(?:^|:)(?:deploy|publish|release|upload)/) ? PUBLISHES : null,
  ),
  ...entries("vsce ovsx npm-publish goreleaser semantic-release", says(PUBLISHES, /^(?!--(?:version|help))/)),
  make: (args) => (has(operands(args), SCRIPT_NAMES) ? PUBLISHES : null),
  ...entries("kubectl helm oc k3s istioctl argocd flux", cluster),
  ...entries("terraform tofu terragrunt pulumi", infrastructure),
  ...entries("ansible ansible-playbook cdk sam serverless sls", says(REMOTE, /^(?!--(?:version|help|syntax-check))/)),
  ...entries(
    "aws gcloud az doctl flyctl fly heroku vercel netlify wrangler firebase railway supabase gsutil s3cmd",
    cloud,
  ),
  ...entries("gh glab hub", gh),
  ...entries("psql mysql mariadb sqlite3 redis-cli mongosh mongo clickhouse-client", database),
  ...entries("dropdb dropuser", says(DATA)),
  ...entries(
    "apt apt-get dnf yum pacman zypper apk brew snap flatpak",
    verb(SYSTEM, /^(?:remove|purge|autoremove|erase|uninstall|full-upgrade|dist-upgrade|-R.*)$/),
  ),
  ...entries("hermes", unless("it changes the agent itself", /^(?:logs|doctor|policy|check|--.*|-[a-zA-Z])$/)),
  git,
};

/** Directories and files that run something later, or decide who may log in. */
const LASTING_DIRECTORY = wordsOf(String.raw`
  \.git/(?:hooks|config|info/attributes) \.husky \.githooks \.ssh \.gnupg \.hermes \.aws \.kube
  \.config/(?:autostart|systemd|fish|git|hermes) LaunchAgents LaunchDaemons cron\.[a-z]+ sudoers(?:\.d)?`);
const LASTING_FILE = wordsOf(`
  bashrc bash_profile bash_login bash_logout profile zshrc zshenv zprofile zlogin kshrc cshrc tcshrc inputrc vimrc
  exrc gitconfig npmrc pypirc netrc curlrc wgetrc envrc xinitrc xsession xprofile pam_environment`);
const LASTING = new RegExp(
  [
    `(?:^|/)(?:${LASTING_DIRECTORY.join("|")})(?:/|$)`,
    `(?:^|/)(?:\\.(?:${LASTING_FILE.join("|")})|authorized_keys)$`,
    "^/(?:etc|boot|usr|bin|sbin|lib)(?:/|$)",
  ].join("|"),
);
/** Programs that only read their input, or run it inside the sandbox. */
const READERS = oneOf(String.raw`
  ls cat head tail less more grep egrep fgrep rg ag fd wc stat file diff cmp test \[ cd find tree du df sort uniq cut
  awk jq md5sum sha256sum realpath readlink which type echo printf git source \. python python3 node gcc g\+\+ cc ld
  env strings od xxd hexdump ldd nm objdump basename dirname command man ps id getent column yq bat`);
const NAMES_ONLY = oneOf(String.raw`
  ls stat test \[ find du echo printf git touch chmod cd tree realpath dirname basename`);

/** `allowed`: the user's own rules, which also cover the commands that such a command would run. */
export const findDangers = (
  { commands, writes, reads, doubts }: Reach,
  place: CommandPlace,
  allowed: Allowed,
): Finding[] => {
  const found: Finding[] = doubts.map(({ reason, source }) => ({ reason, part: source }));
  for (const { path, part } of writes)
    if (lasting(path, place)) found.push({ reason: "what it writes there runs later or decides who may enter", part });
  for (const { path, part } of [...reads, ...writes])
    if (/^\/dev\/(?:tcp|udp)\//.test(path)) found.push({ reason: SENDS, part });
  for (const { path, part } of reads)
    if (looksSecret(path)) found.push({ reason: "this looks like a file with secrets", part });
  for (const reached of commands) {
    const [program = "", ...args] = reached.argv;
    const { part } = reached;
    if (reached.guess || covered(reached, allowed)) continue;
    const name = baseName(program);
    const reason = program.includes(UNKNOWN)
      ? "which program this is will be known only when it runs"
      : (own(RULES, name)?.(args, reached) ?? lingering(name, args, place));
    if (reason !== null) found.push({ reason, part });
  }
  return place.sealed ? found.filter(({ reason }) => !SEALED.has(reason)) : found;
};

export const covered = ({ argv, place, by }: Reached, allowed: Allowed): boolean => {
  const words = argv.map((value) => ({ value }));
  return allowed(words, place.cwd) || (by !== null && covered(by, allowed));
};

const lingering = (name: string, args: readonly string[], place: CommandPlace): string | null => {
  if (args.some(looksSecret) && !NAMES_ONLY.test(name)) return "this looks like a file with secrets";
  const writes = !READERS.test(name) && !SHELLS.test(name);
  return writes && args.some((arg) => lasting(arg.replace(/^[^=]*=/, ""), place))
    ? "what it writes there runs later or decides who may enter"
    : null;
};

const lasting = (path: string, { home }: CommandPlace): boolean =>
  LASTING.test(home !== undefined && path.startsWith(`${home}/`) ? path.slice(home.length + 1) : path);
