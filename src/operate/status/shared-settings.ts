/** The settings that heartbeats tell, and that a command's shell may have otherwise. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { Config } from "../../base/config.ts";
import { serviceName } from "../../core/state/known-service.ts";

/**
 * Settings that are compared between processes. Everybody who may read the status sees them, so the
 * service's address is replaced by a hash, and the path of the mapping file by its name.
 * @param baseUrl of the service that a process with the role sync sends to.
 */
export function sharedSettings(
  config: Config,
  roles: ReadonlySet<string>,
  baseUrl: string | undefined,
): Readonly<Record<string, string | number>> {
  const hash = hashOfFile(config.MAPPING)?.slice("sha256:".length, "sha256:".length + 8);
  return {
    APPROVALS: config.APPROVALS.toSorted().join(",") || "none",
    ...(roles.has("intake") && {
      MAPPING: `${basename(config.MAPPING)}${hash === undefined ? "" : ` (${hash})`}`,
      ...(config.PULL_FROM !== undefined && { PULL_FROM: config.PULL_FROM.join(",") }),
    }),
    ...(baseUrl !== undefined && {
      SERVICE_BASE_URL: serviceName(baseUrl),
      QUOTA_PER_HOUR: config.QUOTA_PER_HOUR,
      QUOTA_BURST: config.QUOTA_BURST,
      TERMINATE_LIMIT: config.TERMINATE_LIMIT,
      EMPTY_LIMIT: String(config.EMPTY_LIMIT),
      SEND: config.SEND,
      ...(config.RECONCILE_CRON !== undefined && { RECONCILE_CRON: config.RECONCILE_CRON }),
      ...(config.QUALITY_CRON !== undefined && { QUALITY_CRON: config.QUALITY_CRON }),
    }),
  };
}

/** Undefined for a preset (the version says what it holds), and for a file that cannot be read here. */
export function hashOfFile(path: string): string | undefined {
  try {
    return `sha256:${createHash("sha256").update(readFileSync(path)).digest("hex")}`;
  } catch {
    return undefined;
  }
}
