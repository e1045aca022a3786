/**
 * The audit trail of this process. A process with the role sync writes lines: of its changes, and of
 * the acts that wait in Redis, whichever process or command did them. While it cannot, it sends nothing.
 */
import { randomUUID } from "node:crypto";
import { headText, type Head } from "../src/audit/line.ts";
import type { AuditTrail } from "../src/audit/trail.ts";
import type { Logger } from "../src/ops/log.ts";
import type { Part } from "../src/ops/shutdown.ts";
import { thisProcess, timeNow } from "./audit-trail.ts";
import { hashOfFile, settingsOf } from "./audited-settings.ts";
import { startPolling, type Polling } from "./poll.ts";
import type { Runtime } from "./runtime.ts";
import { watchSecrets } from "./secrets.ts";

/** How soon an act has its line, ms. */
const ACTS_EVERY_MS = 1000;

/** How often the newest line is logged, ms. */
const HEAD_EVERY_MS = 3_600_000;

export function startAuditing(runtime: Runtime, roles: ReadonlySet<string>): Part {
  const { auditActs, config, mapping, version } = runtime;
  const trail = roles.has("sync") ? runtime.trail : undefined;
  const details = {
    roles: [...roles],
    version,
    mapping: mapping.name,
    mappingHash: hashOfFile(config.MAPPING),
    settings: settingsOf(config),
  };
  const start = { act: "process.start", by: thisProcess, details } as const;
  // Nothing waits for it: while it cannot be written, nothing is sent.
  if (trail === undefined) void auditActs.record(start).catch(() => {});
  else
    void trail
      .append({ at: timeNow(), act: start.act, ...details, by: thisProcess })
      .catch(() => {});
  // logrotate may send SIGHUP: FileSink notices a rotation without it, and it must not end the process.
  const ignore = () => {};
  if (config.AUDIT_LOG?.startsWith("/") === true) process.on("SIGHUP", ignore);
  const parts = [
    watchSecrets(runtime),
    ...(trail === undefined ? [] : [writeActs(runtime, trail), logHead(runtime.log, trail)]),
  ];
  return {
    async close() {
      trail?.giveUp();
      for (const part of parts) await part.close();
      await trail?.close();
      process.off("SIGHUP", ignore);
    },
  };
}

/** Writes the lines of the acts that wait in Redis. */
function writeActs({ auditActs, clock }: Runtime, trail: AuditTrail): Polling {
  const owner = randomUUID();
  let isTidy = false;
  return startPolling({
    everyMs: ACTS_EVERY_MS,
    async step(signal) {
      if (!trail.isWritable) return;
      // Not before the trail is open: it looks for its own head.
      if (!isTidy) await auditActs.forgetOldHeads(clock.now());
      isTidy = true;
      while (!signal.aborted && trail.isWritable && (await auditActs.lease.claim(owner))) {
        const act = await auditActs.next();
        if (act === undefined) return;
        await trail.append(act.line);
        await auditActs.written(act);
      }
    },
  });
}

/** Logs the newest line's hash from time to time: the trail must contain that line. */
function logHead(log: Logger, trail: AuditTrail): Polling {
  let logged: Head | undefined;
  const step = async (): Promise<void> => {
    const { head } = trail;
    if (head === undefined || head === logged) return;
    logged = head;
    log.info({ head: headText(head) }, "audit.head");
  };
  const polling = startPolling({ everyMs: HEAD_EVERY_MS, step });
  return {
    async close() {
      await polling.close();
      await step();
    },
  };
}
