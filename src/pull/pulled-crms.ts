/** The CRMs that are asked for changes. */
import { settingOf, type Config } from "../config.ts";
import type { CrmSource } from "../crm/connector.ts";
import { CONNECTORS, CRMS } from "../crm/connectors.ts";

export const pulledCrms = ({ PULL_FROM = [] }: Pick<Config, "PULL_FROM">): CrmSource[] =>
  CRMS.filter(({ name, puller }) => puller !== undefined && PULL_FROM.includes(name));

/** Why PULL_FROM cannot be carried out; a sentence each. */
export function pullProblems(config: Config): string[] {
  const known = CRMS.filter(({ puller }) => puller !== undefined);
  return (config.PULL_FROM ?? []).flatMap((crm) => {
    const found = known.find(({ name }) => name === crm);
    if (found === undefined) {
      return [
        `PULL_FROM: ${crm} cannot be pulled; these can: ${known.map(({ name }) => name).join(", ")}`,
      ];
    }
    const missing = found.lister.needs.filter((name) => settingOf(config, name) === undefined);
    return missing.length === 0
      ? []
      : [
          `PULL_FROM: to pull ${crm}, set ${missing.join(", ")} (docs/webhooks.md says what they are)`,
        ];
  });
}

/** Whether its webhooks come here, so that a pull shows which ones did not. */
export const hasWebhooks = (config: Config, crm: string): boolean => {
  const secret = CONNECTORS.find(({ name }) => name === crm)?.secretName;
  return secret !== undefined && settingOf(config, secret) !== undefined;
};
