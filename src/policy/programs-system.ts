// Programs that show the state of the machine.
import type { Program } from "./program.ts";
import { entries } from "./table.ts";

const LOOSE = `
    whoami id groups users who w logname uptime free vmstat iostat mpstat nproc arch hostid uname tty locale getconf
    lscpu lsblk lsusb lspci lsmod lsns findmnt netstat pgrep pidof printenv which whereis type times sw_vers`;

const SYSTEMCTL = `
    -l -a -n: -t: -p: -o: --no-pager --full --all --lines= --type= --state= --property= --user --system --output=
    --no-legend --plain --failed --value --quiet -q`;
const ipShow: Program = {
  options: "",
  check: ({ operands }) => {
    const [first] = operands;
    const looks = !first || /^(?:show|list|ls|get)$/.test(first.value ?? "");
    return looks ? null : { reason: "it could change the network", source: first.source };
  },
};
const ip: Program = {
  options:
    "=-br =-j =-d =-s =-p =-o =-pretty =-brief =-json =-details =-statistics =-stats =-color =-oneline =-4 =-6 =-c",
  subs: entries("a addr address l link r route n neigh rule", ipShow),
};

/** `e` without a dash shows environments, including ours. */
const showsNoEnvironment: NonNullable<Program["check"]> = ({ operands, given }) => {
  const shows =
    operands.find(({ value }) => value === null || (/^[a-zA-Z]+$/.test(value) && value.includes("e"))) ??
    given.find(({ value }) => value && !/^(?!.*env)[\w,=:%+.-]+$/i.test(value.value ?? ""))?.value;
  return shows
    ? { reason: "it could show the environment of programs, with their secrets", source: shows.source }
    : null;
};

export const SYSTEM: Record<string, Program> = {
  ...entries(LOOSE, { loose: true, names: true }),
  ps: {
    options: `
        -AaefFlMNTHjLwcyxdmrSvh -o: -p: -u: -U: -C: -g: -G: -s: -t: -O: --sort= --no-headers --headers --forest
        --pid= --ppid= --user= --format= --cols= --width= --columns= --lines=`,
    check: showsNoEnvironment,
  },
  top: { options: "-bcHiS -n: -d: -p: -u: -o: -l: -w: =-stats", most: 0 },
  date: {
    options:
      "-uRjn -d: -I? -r: -v: --utc --universal --date= --iso-8601? --rfc-3339= --rfc-email --reference= --version",
    check: ({ operands }) => {
      const sets = operands.find(({ prefix }) => !prefix.startsWith("+"));
      return sets ? { reason: "it could set the clock", source: sets.source } : null;
    },
  },
  hostname: { options: "-fsdiIA --fqdn --short --domain --ip-address --all-ip-addresses --all-fqdns", most: 0 },
  dmesg: {
    options: `
        -TtxkuHLPdrwW -l: -f: --human --ctime --level= --facility= --kernel --nopager --color? --decode --follow
        --reltime --since= --until=`,
    most: 0,
  },
  journalctl: {
    options: `
        -fraexkbq -u: -n: -p: -o: -g: -t: -S: -U: -b? --unit= --user-unit= --lines= --follow --no-pager --since=
        --until= --priority= --output= --grep= --boot? --dmesg --reverse --catalog --identifier= --user --system
        --all --full --no-full --disk-usage --list-boots --quiet --no-hostname --utc --no-tail`,
  },
  systemctl: {
    options: SYSTEMCTL,
    bare: true,
    subs: entries(
      `status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets list-dependencies
       get-default cat show`,
      { options: SYSTEMCTL },
    ),
  },
  service: {
    options: "--status-all",
    // It runs the file of that name in a directory of its own, and with `../` any other file.
    check: ({ operands: [name, verb, ...more] }) =>
      !name || (/^\w[\w@-]*$/.test(name.value ?? "") && verb?.value === "status" && more.length === 0)
        ? null
        : { reason: "it could change something, or run any file", source: name.source },
  },
  crontab: {
    options: "-l",
    most: 0,
    check: ({ given }) => (given.length > 0 ? null : { reason: "it replaces the schedule", source: "" }),
  },
  ip,
  ifconfig: { options: "-asv", most: 1 },
  ss: {
    options: `
        -tuanlpxrieoms46HZdwOQTM --tcp --udp --all --numeric --listening --processes --unix --resolve --info
        --extended --options --memory --summary --ipv4 --ipv6 --no-header`,
  },
  lsof: { options: "-nPaltUVRbXO -i? -p: -u: -c: -s? -d: -g?" },
  getent: {
    check: ({ operands: [first] }) =>
      /^(?:passwd|group|services|protocols|shells|rpc)$/.test(first?.value ?? "")
        ? null
        : { reason: "it could ask another machine", source: first?.source ?? "" },
  },
  ulimit: { options: "-aSHncdfilmpqrstuvx", most: 0 },
  umask: { options: "-Sp", most: 0 },
  man: {
    options: "-akf -s: --sections=",
    check: ({ operands }) => {
      const page = operands.find(({ value }) => value === null || value.includes("/"));
      return page ? { reason: "it would run what formats this file", source: page.source } : null;
    },
  },
  timedatectl: { options: "--no-pager", bare: true, subs: { status: {}, show: {}, "list-timezones": {} } },
  ...entries("hostnamectl localectl", { options: "--no-pager", bare: true, subs: { status: {} } }),
  loginctl: { options: "--no-pager", bare: true, subs: { "list-sessions": {}, "list-users": {} } },
  jobs: { options: "-lpnrs", most: 0 },
  ...entries("history wait", { most: 0 }),
  ...entries("whatis apropos atq help", {}),
  dirs: { options: "-lpv" },
};
