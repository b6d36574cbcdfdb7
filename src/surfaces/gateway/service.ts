// What a service manager is told: that we are ready, that we are alive (from the event loop, so that one that is blocked is
// not), and that we are leaving.
import { spawn } from "node:child_process";
import { ConfigError, messageOf } from "../../core/errors.ts";
import type { Clock, Log } from "../../core/ports.ts";

/** `notify`: Node cannot speak to a datagram socket of the file system; systemd's own small program can. Null: it is not
 *  there. */
type Options = { env: NodeJS.ProcessEnv; notify: string | null; clock: Clock; log: Log };

export function notifyService({ env, notify, clock, log }: Options): { stopping(): void } {
  const socket = env["NOTIFY_SOCKET"];
  if (!socket) return { stopping: () => {} };
  if (!notify) {
    log("warn", "service.untold", { error: "systemd-notify is not installed" });
    return { stopping: () => {} };
  }
  const over = new AbortController();
  const tell = (...states: string[]) => {
    // Nothing of ours but the socket: our keys are in our environment.
    const child = spawn(notify, states, { cwd: "/", stdio: "ignore", env: { NOTIFY_SOCKET: socket } });
    child.on("error", (error) => log("warn", "service.untold", { error: error.message }));
    child.unref();
  };
  tell("--ready", `MAINPID=${process.pid}`);
  const everyMs = Number(env["WATCHDOG_USEC"] ?? 0) / 1_000 / 2;
  const live = async () => {
    while (!over.signal.aborted) {
      tell("WATCHDOG=1");
      await clock.sleep(everyMs, over.signal);
    }
  };
  if (everyMs > 0) live().catch((error: unknown) => log("error", "service.untold", { error: messageOf(error) }));
  return {
    stopping() {
      over.abort("leaving");
      tell("STOPPING=1");
    },
  };
}

/** A unit for `systemctl --user`. All three are absolute. */
export function serviceUnit({ program, home, workspace }: Record<"program" | "home" | "workspace", string>): string {
  // systemd takes WorkingDirectory as it is, without quotes: a line end or a last backslash would reach into the next line.
  if (/\p{Cc}|\\$/u.test(workspace))
    throw new ConfigError(`systemd cannot start a program in ${JSON.stringify(workspace)}.`);
  return `[Unit]
Description=hermes gateway
After=network-online.target
Wants=network-online.target
# Never given up: what keeps it from starting (a full disk, a store that fails) ends, and nobody may be there to start it then.
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=all
ExecStart=${quoted(program)} gateway run
Environment=${quoted(`HERMES_HOME=${home}`)}
WorkingDirectory=${literal(workspace)}
Restart=on-failure
RestartSec=5
# 75 asks for a restart; 78 is a configuration that no restart helps.
RestartForceExitStatus=75
RestartPreventExitStatus=78
KillMode=mixed
# Longer than the drain (agent.restart_drain_timeout) and the deadline behind it.
TimeoutStopSec=120
WatchdogSec=60
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=${quoted(home)} ${quoted(workspace)} -%h/.hermes/locks /tmp
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
LockPersonality=yes
RestrictSUIDSGID=yes
RestrictRealtime=yes

[Install]
WantedBy=default.target
`;
}

/** A % would begin a specifier, such as %h for the home directory. */
const literal = (text: string) => text.replaceAll("%", "%%");
const quoted = (text: string) => `"${literal(text).replaceAll(/["\\]/g, String.raw`\$&`)}"`;
