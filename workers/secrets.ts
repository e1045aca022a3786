/**
 * Watches the files of secrets. A new value gets a line in the audit trail; a file that cannot be used
 * is logged and shown by `crmsync status`.
 */
import type { Config } from "../src/base/config.ts";
import { thisProcess } from "./audit-trail.ts";
import type { Step } from "./chores.ts";
import type { Uses } from "./parts.ts";

export interface UnusableSecret {
  readonly name: string;
  readonly file: string;
  readonly problem: string;
}

/** Secrets whose files cannot be used as they are now; their last values stay in force. */
export const unusableSecrets = ({ allSecrets }: Config): UnusableSecret[] =>
  allSecrets().flatMap(([name, secret]) => {
    const problem = secret.problem();
    return secret.file === undefined || problem === undefined
      ? []
      : [{ name, file: secret.file, problem }];
  });

export function watchSecrets({
  auditActs,
  config,
  log,
}: Uses<"auditActs" | "config" | "log">): Step {
  const last = new Map<string, string>();
  const told = new Map<string, string>();

  function tell(): void {
    const unusable = unusableSecrets(config);
    for (const { name, file, problem } of unusable) {
      if (told.get(name) !== problem)
        log.warn({ variable: name, file, why: problem }, "secret.unusable");
    }
    told.clear();
    for (const { name, problem } of unusable) told.set(name, problem);
  }

  return async () => {
    tell();
    for (const [name, secret] of config.allSecrets()) {
      if (secret.file === undefined) continue;
      const value = secret.value();
      const before = last.get(name) ?? value;
      if (value !== before) {
        const details = { secret: name };
        await auditActs.record({ act: "secret.replaced", by: thisProcess, details });
      }
      last.set(name, value);
    }
  };
}
