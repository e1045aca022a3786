/**
 * What systemd hears from a daemon of `Type=notify` (sd_notify(3)): ready, alive, ending. Node has no datagram
 * sockets of Unix, so systemd's own `systemd-notify` says it. A daemon that hangs or is stopped says nothing, and
 * systemd starts it anew after WatchdogSec.
 */
import { execFile } from "node:child_process";
import { systemdVariables } from "./config.ts";
import type { Logger } from "./log.ts";
import type { Part } from "./shutdown.ts";

/** So often in each WatchdogSec a daemon says that it is alive: two may be lost. */
const PINGS = 3;

/** systemd-notify waits until systemd has heard it, at most for so long, ms. */
const SAY_MS = 4000;

/** Tells systemd that the daemon is ready, and then regularly that it is alive. @returns undefined when systemd did not start it */
export function tellSystemd(log: Pick<Logger, "warn">): Part | undefined {
  const { NOTIFY_SOCKET, PATH, WATCHDOG_PID, WATCHDOG_USEC } = systemdVariables();
  if (NOTIFY_SOCKET === undefined) return undefined;
  // Without the daemon's variables, which hold secrets.
  const options = { env: { NOTIFY_SOCKET, PATH }, timeout: SAY_MS };
  const say = (state: string) =>
    void execFile("systemd-notify", [state], options, (error) => {
      if (error !== null) log.warn({ reason: error.code ?? error.signal }, "systemd.not_told");
    });
  say("READY=1");
  const isWatched = WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === process.pid;
  const everyMs = isWatched ? Number(WATCHDOG_USEC ?? 0) / 1000 / PINGS : 0;
  const pinging = everyMs > 0 ? setInterval(() => say("WATCHDOG=1"), everyMs).unref() : null;
  return {
    async close() {
      if (pinging !== null) clearInterval(pinging);
      say("STOPPING=1");
    },
  };
}
