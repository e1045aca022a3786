/** How this process records changes in its audit trail. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { FileSink } from "../src/people/audit/file-sink.ts";
import { LineHashes } from "../src/people/audit/line.ts";
import { StdoutSink, type Sink } from "../src/people/audit/stdout-sink.ts";
import { AuditTrail } from "../src/people/audit/trail.ts";
import { within } from "../src/base/deadline.ts";
import type { Logger } from "../src/base/log.ts";
import { UserError } from "../src/base/user-error.ts";
import type { Stores } from "../src/operate/status/stores.ts";
import type { AuditedChange } from "../src/core/sync/audited-change.ts";
import type { TakenState } from "../src/core/sync/run.ts";

/**
 * How heartbeats, locks, notifications and the audit trail name this process. Containers on the host's network share
 * its name, and each has the process id 1: the end is by chance.
 */
export const thisProcess = `${hostname()}:${process.pid}-${randomBytes(2).toString("hex")}`;

/** By the clock of this machine, as the log. */
export const timeNow = (): string => new Date(Date.now()).toISOString();

/** Redis must tell the newest line of the chain within this time, or the trail cannot be continued now, ms. */
const KNOWN_HEAD_MS = 5000;

/** Opens nothing before its first line. */
export function createTrail(
  { auditActs, clock, config }: Pick<Stores, "auditActs" | "clock" | "config">,
  log: Pick<Logger, "error" | "info">,
  onLine: () => void,
): AuditTrail | undefined {
  if (config.AUDIT_LOG === undefined) return undefined;
  const hashes = new LineHashes(config.auditKeys);
  const knownHeads = () => within(KNOWN_HEAD_MS, auditActs.heads());
  const sink: Sink =
    config.AUDIT_LOG === "stdout"
      ? new StdoutSink()
      : new FileSink(config.AUDIT_LOG, hashes, knownHeads);
  return new AuditTrail({
    sink,
    hashes,
    onHead({ chain, seq, hash }) {
      onLine();
      // Sent before the ledger's row, over the same connection. Without it a cut-off end goes unnoticed.
      const head = { seq, hash, where: sink.where, at: clock.now(), lostAt: sink.takeLostAt?.() };
      void auditActs.noteHead(chain, head).catch(() => {});
    },
    onFailure(error) {
      if (error === undefined) log.info({}, "audit.recovered");
      else log.error({ err: error }, "audit.failed");
    },
  });
}

/**
 * Writes the lines of the acts that wait in Redis, which is to be deleted: no daemon will do it.
 * @throws UserError
 */
export async function writeLastLines(stores: Stores): Promise<void> {
  const { auditActs } = stores;
  let act = await auditActs.next();
  if (act === undefined) return;
  const trail = createTrail(stores, { info() {}, error() {} }, () => {});
  if (trail === undefined) {
    const [known] = (await auditActs.heads()).values();
    const where = known === undefined ? "" : ` (${known.where})`;
    throw new UserError(
      `the audit trail must have a line of this${where}: set AUDIT_LOG and AUDIT_KEY here as the daemon has them, or switch the trail off first (docs/audit.md#erasing-a-person). Nothing was deleted`,
    );
  }
  // What cannot be written at once is not tried again.
  trail.giveUp();
  try {
    for (; act !== undefined; act = await auditActs.next()) {
      await trail.append(act.line);
      await auditActs.written(act);
    }
  } catch (error) {
    const { message } = ((error as Error).cause ?? error) as Error;
    throw new UserError(`${trail.where} cannot be written, so nothing was deleted: ${message}`);
  } finally {
    await trail.close();
  }
}

/** One line: what a request has done at the service. */
export async function auditChange(
  trail: AuditTrail | undefined,
  { change, crmCode, newestEvent, row }: TakenState,
  { outcome, ...fields }: AuditedChange,
): Promise<void> {
  if (trail === undefined) return;
  const { failed = 0 } = change.tries ?? {};
  const { id, source } = JSON.parse(newestEvent) as { id?: unknown; source?: unknown };
  await trail.append({
    at: timeNow(),
    act: "change",
    outcome,
    crmCode,
    ...fields,
    event: { id, source },
    // An earlier request may have been applied, or have a line already: its process may have died.
    ...(row.openUntil !== undefined && { repeated: true }),
    ...(failed > 0 && { tries: failed }),
    by: thisProcess,
  });
}
