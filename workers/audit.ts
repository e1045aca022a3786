/**
 * The audit trail of this process. A process with the role sync writes lines: of its changes, and of
 * the acts that wait in Redis, whichever process or command did them. While it cannot, it sends nothing.
 */
import { randomUUID } from "node:crypto";
import { headText, type Head } from "../src/people/audit/line.ts";
import type { AuditTrail } from "../src/people/audit/trail.ts";
import { PROGRAM } from "../src/base/command.ts";
import type { Part } from "../src/base/shutdown.ts";
import { thisProcess, timeNow } from "./audit-trail.ts";
import type { Step } from "./chores.ts";
import { findingsIn } from "../src/operate/status/findings.ts";
import { hashOfFile } from "../src/operate/status/shared-settings.ts";
import { settingsOf } from "./audited-settings.ts";
import type { Uses } from "./parts.ts";

/** Records that this process has started. */
export function startAuditing(
  {
    auditActs,
    config,
    mapping,
    version,
    ...parts
  }: Uses<"auditActs" | "config" | "mapping" | "trail" | "version">,
  roles: ReadonlySet<string>,
): Part {
  const trail = roles.has("sync") ? parts.trail : undefined;
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
  return {
    async close() {
      trail?.giveUp();
      await trail?.close();
      process.off("SIGHUP", ignore);
    },
  };
}

/** Writes the lines of the acts that wait in Redis. */
export function writeActs(
  { auditActs, clock }: Uses<"auditActs" | "clock">,
  trail: AuditTrail,
): Step {
  const owner = randomUUID();
  let isTidy = false;
  return async (signal) => {
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
  };
}

/** Sections of the runbook about what a CRM or a source does not bring, or what is not mapped. */
const NOT_TAKEN =
  /#(?:crmsyncpulloverdue|crmsyncrecordsnotfetched|crmsyncsourcesilent|crmsyncchangeslost|the-mapping-waits-for-approval)$/;

/** Records when sending, intake or a source is interrupted, and until when. */
export function noteInterruptions({
  config,
  interruptions,
  readings,
}: Uses<"config" | "interruptions" | "readings">): Step {
  return async (_signal, everyMs) => {
    if (!(await interruptions.claimLook(everyMs / 2))) return;
    const found = findingsIn(await readings(), config.QUOTA_HOUR_MS).filter(
      ({ effect, runbook }) =>
        effect === "nothing_sent" || effect === "nothing_accepted" || NOT_TAKEN.test(runbook),
    );
    await interruptions.note(
      found.map(({ about, runbook, says }) => {
        // Who reads it later is on another machine.
        const text = says.replaceAll(PROGRAM, "crmsync");
        return { reason: runbook.replace(/^.*#/, ""), about, says: text };
      }),
      thisProcess,
    );
  };
}

/** Logs the newest line's hash from time to time: the trail must contain that line. */
export function logHead({ log }: Uses<"log">, trail: AuditTrail) {
  let logged: Head | undefined;
  const run = async (): Promise<void> => {
    const { head } = trail;
    if (head === undefined || head === logged) return;
    logged = head;
    log.info({ head: headText(head) }, "audit.head");
  };
  return { run, close: run };
}
