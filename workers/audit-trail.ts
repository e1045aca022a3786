/** How this process records changes in its audit trail. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { FileSink } from "../src/audit/file-sink.ts";
import { LineHashes } from "../src/audit/line.ts";
import { StdoutSink } from "../src/audit/stdout-sink.ts";
import { AuditTrail } from "../src/audit/trail.ts";
import { within } from "../src/ops/deadline.ts";
import type { Logger } from "../src/ops/log.ts";
import type { Metrics } from "../src/status/metrics.ts";
import type { Stores } from "../src/status/stores.ts";
import type { AuditedChange } from "../src/sync/audited-change.ts";
import type { TakenState } from "../src/sync/record.ts";

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
  { auditActs, clock, config }: Stores,
  log: Logger,
  metrics: Metrics,
): AuditTrail | undefined {
  if (config.AUDIT_LOG === undefined) return undefined;
  const hashes = new LineHashes(config.auditKeys);
  const knownHead = async (chain: string) =>
    (await within(KNOWN_HEAD_MS, auditActs.heads())).get(chain);
  const sink =
    config.AUDIT_LOG === "stdout"
      ? new StdoutSink()
      : new FileSink(config.AUDIT_LOG, hashes, knownHead);
  return new AuditTrail({
    sink,
    hashes,
    onHead({ chain, seq, hash }) {
      metrics.auditLines.inc();
      // Sent before the ledger's row, over the same connection. Without it a cut-off end goes unnoticed.
      const head = { seq, hash, where: sink.where, at: clock.now() };
      void auditActs.noteHead(chain, head).catch(() => {});
    },
    onFailure(error) {
      if (error === undefined) log.info({}, "audit.recovered");
      else log.error({ err: error }, "audit.failed");
    },
  });
}

/** One line: what a request has done at the service. */
export async function auditChange(
  trail: AuditTrail | undefined,
  { counts: { tries }, crmCode, late, newestEvent }: TakenState,
  { outcome, ...fields }: AuditedChange,
): Promise<void> {
  if (trail === undefined) return;
  const { id, source } = JSON.parse(newestEvent) as { id?: unknown; source?: unknown };
  await trail.append({
    at: timeNow(),
    act: "change",
    outcome,
    crmCode,
    ...fields,
    event: { id, source },
    // An earlier request may have been applied, or have a line already: its process may have died.
    ...(late && { repeated: true }),
    ...(tries > 0 && { tries }),
    by: thisProcess,
  });
}
