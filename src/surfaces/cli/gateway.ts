// hermes gateway status | stop | restart | install, and hermes pairing: act on the gateway of this HERMES_HOME from another shell.
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { PairingDesk } from "../../core/chat.ts";
import type { Clock } from "../../core/ports.ts";

export type Somewhere = {
  /** The process that owns HERMES_HOME, or null. */
  owner(): number | null;
  clock: Clock;
  print(text: string): Promise<void> | void;
};
export type Print = Somewhere["print"];
type NewService = { file: string; unit: string; print: Print };
type GatewayHealth = Record<string, unknown>;

const LOOK_MS = 100;

export async function gatewayStatus(
  { owner, print }: Somewhere,
  health: () => Promise<GatewayHealth | null>,
  json: boolean,
): Promise<number> {
  const pid = owner();
  const found = pid === null ? null : await health();
  if (json) await print(`${JSON.stringify({ running: pid !== null, pid, ...found })}\n`);
  else if (pid === null) await print("The gateway is not running. Start it with: hermes gateway\n");
  else if (!found) await print(`Process ${pid} owns this HERMES_HOME but serves no API; it may be a terminal.\n`);
  else await print(describe(pid, found));
  return pid === null ? 3 : 0; // 3 is "not running" for init scripts
}

/** Waits until the process is gone. */
export async function stopGateway({ owner, clock, print }: Somewhere, waitMs: number): Promise<number> {
  const pid = owner();
  if (pid === null) {
    await print("The gateway is not running.\n");
    return 0;
  }
  process.kill(pid, "SIGTERM");
  await print(`Asked process ${pid} to stop; running turns may finish.\n`);
  const until = clock.monotonic() + waitMs;
  while (owner() === pid && clock.monotonic() < until) await clock.sleep(LOOK_MS);
  const gone = owner() !== pid;
  await print(gone ? "Stopped.\n" : `It still runs. To end it now: kill -9 ${pid} (no accepted message is lost)\n`);
  return gone ? 0 : 1;
}

/** Waits until another process has taken its place. */
export async function restartGateway({ owner, clock, print }: Somewhere, waitMs: number): Promise<number> {
  const pid = owner();
  if (pid === null) {
    await print("The gateway is not running. Start it with: hermes gateway\n");
    return 1;
  }
  process.kill(pid, "SIGUSR2");
  await print(`Asked process ${pid} to restart; running turns may finish.\n`);
  const until = clock.monotonic() + waitMs;
  while ((owner() ?? pid) === pid && clock.monotonic() < until) await clock.sleep(LOOK_MS);
  const next = owner();
  const done = next !== null && next !== pid;
  await print(
    done ? `Restarted as process ${next}.\n` : "It has not restarted yet. Check with: hermes gateway status\n",
  );
  return done ? 0 : 1;
}

export async function installService({ file, unit, print }: NewService): Promise<number> {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, unit);
  await print(
    `Wrote ${file}\nNow run:\n  systemctl --user daemon-reload\n  systemctl --user enable --now hermes-gateway\n` +
      "To keep it running after you log out: loginctl enable-linger\n",
  );
  return 0;
}

export const unitFile = (env: NodeJS.ProcessEnv, home: string): string =>
  join(env["XDG_CONFIG_HOME"] || join(env["HOME"] || home, ".config"), "systemd", "user", "hermes-gateway.service");

function describe(pid: number, health: GatewayHealth): string {
  const { status, version, uptime_seconds: up, channels, paused } = health;
  const { turns_running: turns, inputs_waiting: waiting } = health;
  const lines = [
    `The gateway runs as process ${pid}: ${String(status)}, version ${String(version)}, up ${Math.round(Number(up))} s`,
    `Turns running: ${String(turns)}, messages waiting: ${String(waiting)}`,
  ];
  if (paused) lines.push(`Paused by ${String(Object(paused).by)}: no turn begins until /pause off`);
  for (const one of Array.isArray(channels) ? channels : []) lines.push(channelLine(one));
  return `${lines.join("\n")}\n`;
}

function channelLine(channel: unknown): string {
  const { platform, connected, error } = { platform: "", connected: false, error: "", ...Object(channel) };
  return `${platform}: ${connected ? "connected" : `not connected${error ? `, ${error}` : ""}`}`;
}

// ── Pairing ───────────────────────────────────────────────────────────────────────────────────────────

export async function makePairingCode(desk: PairingDesk, platform: string, print: Somewhere["print"]): Promise<number> {
  const { code, expiresAt } = await desk.newCode(platform);
  const minutes = Math.max(1, Math.round((expiresAt - Date.now()) / 60_000));
  await print(
    `${code}\nValid once, for ${minutes} minutes. The person sends this code to the bot in a private chat.\n`,
  );
  return 0;
}

export async function approvePairing(desk: PairingDesk, platform: string, code: string, print: Print): Promise<number> {
  const person = await desk.approve(platform, code);
  await print(person ? `${platform} ${person.id} (${person.name}) may talk to the bot now.\n` : NO_CODE);
  return person ? 0 : 1;
}
const NO_CODE =
  "Nobody waits with this code. A code is valid for an hour; the person gets a new one a day after the last.\n";

export async function listPaired(desk: PairingDesk, json: boolean, print: Somewhere["print"]): Promise<number> {
  const paired = await desk.paired();
  if (json) await print(`${JSON.stringify(paired)}\n`);
  else if (!paired.length) await print("Nobody is paired.\n");
  else
    for (const { platform, id, name, at } of paired)
      await print(`${platform} ${id}  ${name}  since ${new Date(at).toISOString().slice(0, 10)}\n`);
  return 0;
}

export async function endPairing(desk: PairingDesk, platform: string, id: string, print: Print): Promise<number> {
  const done = await desk.unpair(platform, id);
  await print(done ? `${platform} ${id} may no longer talk to the bot.\n` : `Nobody is paired as ${platform} ${id}.\n`);
  return done ? 0 : 1;
}
