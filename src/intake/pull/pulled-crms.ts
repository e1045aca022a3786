/** The CRMs that are asked for changes: those with a connector, and those of the mapping's section `pull`. */
import { settingOf, type Config } from "../../base/config.ts";
import { CONNECTORS, CRMS } from "../crm/connectors.ts";
import type { CrmRecords, CrmSource } from "../crm/connector.ts";
import { restRecords } from "../crm/rest-changes.ts";
import type { Mapping } from "../mapping/mapping.ts";

export type PulledCrm = CrmRecords &
  Pick<CrmSource, "name"> &
  Partial<Pick<CrmSource, "reader">> & {
    /** Of the mapping's; undefined: it may have all of them. */
    readonly objects?: readonly string[];
  };

type Pulls = Pick<Mapping, "pulls">;

const known = ({ pulls = [] }: Pulls): PulledCrm[] => [
  ...CRMS,
  ...pulls.map((source) => {
    const { name, objects } = source;
    return { name, objects: Object.keys(objects), ...restRecords(source) };
  }),
];

export const pulledCrms = (
  { PULL_FROM = [] }: Pick<Config, "PULL_FROM">,
  mapping: Pulls,
): PulledCrm[] => known(mapping).filter(({ name }) => PULL_FROM.includes(name));

/** Why PULL_FROM cannot be carried out; a sentence each. */
export function pullProblems(config: Config, mapping: Mapping): string[] {
  const wanted = config.PULL_FROM ?? [];
  if (wanted.length > 0 && (mapping.objects.length === 0 || mapping.reads.size === 0)) {
    return [
      `PULL_FROM: the mapping ${mapping.name} does not name the objects of the CRM and their fields: set MAPPING, for instance to the preset ${wanted[0]}`,
    ];
  }
  const all = known(mapping);
  return wanted.flatMap((crm) => {
    const found = all.find(({ name }) => name === crm);
    if (found === undefined) {
      const names = all.map(({ name }) => name).join(", ");
      return [`PULL_FROM: ${crm} cannot be pulled; these can: ${names}`];
    }
    const problems: string[] = [];
    const isOwn = CRMS.some(({ name }) => name === crm);
    const missing = found.needs.filter(
      (name) =>
        (isOwn ? settingOf(config, name) : config.namedSecret(name, problems)) === undefined,
    );
    if (problems.length > 0) return problems.map((problem) => `PULL_FROM: ${problem}`);
    return missing.length === 0
      ? []
      : [
          `PULL_FROM: to pull ${crm}, set ${missing.join(", ")} (docs/webhooks.md says what they are)`,
        ];
  });
}

/** The value of a variable that a CRM needs. */
export const settingFor =
  (config: Config) =>
  (name: string): string =>
    settingOf(config, name)?.() ?? config.namedSecret(name)?.value() ?? "";

/** Whether its webhooks come here, so that a pull shows which ones did not. */
export const hasWebhooks = (config: Config, crm: string): boolean => {
  const secret = CONNECTORS.find(({ name }) => name === crm)?.secretName;
  return secret !== undefined && settingOf(config, secret) !== undefined;
};
