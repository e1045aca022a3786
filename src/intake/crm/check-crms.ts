/** Checks the CRMs whose API is configured against the mapping, and remembers what was found. */
import { proxyOf, settingOf, type Config } from "../../base/config.ts";
import { createCrmApi } from "./api-client.ts";
import type { CrmSource } from "./connector.ts";
import { CONNECTORS, CRMS, WITHOUT_WEBHOOKS } from "./connectors.ts";
import { checkCrm, type CrmLine, type CrmReport, type CrmChecker } from "./crm-check.ts";
import type { RecordApi } from "./record-reader.ts";
import type { Mapping } from "../mapping/mapping.ts";
import { relationsOf } from "../../core/sync/mapped.ts";
import type { CrmCheck, CrmChecks, CrmChecksByName } from "../../core/state/crm-checks.ts";
import { digestOf } from "../../core/state/keys.ts";
import type { RedisClock } from "../../core/state/redis-clock.ts";
import { dynamicsChecker } from "./dynamics-check.ts";
import { espocrmChecker } from "./espocrm-check.ts";
import { hubspotChecker } from "./hubspot-check.ts";
import { pipedriveChecker } from "./pipedrive-check.ts";
import { salesforceChecker } from "./salesforce-check.ts";
import { twentyChecker } from "./twenty-check.ts";

/** A CRM that is slower than this is not checked now, ms. */
const TIMEOUT_MS = 10_000;

/** Orders of events bear a clock that is off by less, ms. */
const CLOCK_OFF_MS = 5000;

interface CheckStores {
  readonly config: Config;
  readonly crmChecks: CrmChecks;
  readonly clock: Pick<RedisClock, "now">;
}

export const checkableCrms = (config: Config): readonly CrmSource[] =>
  CRMS.filter(
    ({ name, needs }) =>
      needs.every((variable) => settingOf(config, variable) !== undefined) ||
      (config.MAPPING === name && isSilent(config, name)),
  );

/** Whether no change of a CRM can come: it has no webhooks, and is not pulled. */
const isSilent = ({ PULL_FROM = [] }: Config, crm: string): boolean =>
  !PULL_FROM.includes(crm) && WITHOUT_WEBHOOKS.some(({ name }) => name === crm);

/** Checks, unless that was done lately for the same needs, or another process does it now. */
export async function refreshCrmChecks(
  stores: CheckStores,
  mapping: Mapping,
  maxAgeMs: number,
): Promise<void> {
  const { clock, config, crmChecks } = stores;
  const stored = await crmChecks.current();
  const crms = checkableCrms(config);
  const needs = needsName(mapping, crms);
  const isFresh = crms.every(({ name }) => {
    const check = stored[name];
    return check?.needs === needs && clock.now() - check.at < maxAgeMs;
  });
  const isDone = isFresh && Object.keys(stored).length === crms.length;
  if (!isDone && (await crmChecks.claim())) await checkNow(stores, mapping, stored);
}

/**
 * @param known what was found before: types that differ from it are named.
 * @param others what stays of CRMs that this process cannot check
 */
export async function checkNow(
  { clock, config, crmChecks }: CheckStores,
  mapping: Mapping,
  known: CrmChecksByName,
  others: CrmChecksByName = {},
): Promise<CrmChecksByName> {
  const crms = checkableCrms(config);
  const needs = needsName(mapping, crms);
  const reports = await Promise.all(
    crms.map(async (crm) => {
      const before = known[crm.name];
      const report = await check(config, mapping, crm, before?.types ?? {}, crms.length > 1);
      return [crm.name, { at: clock.now(), needs, ...withUnasked(report, before) }] as const;
    }),
  );
  const checks = Object.fromEntries(reports);
  await crmChecks.store({ ...others, ...checks });
  return checks;
}

/** What could not be asked now is as it was. */
function withUnasked(report: CrmReport, before: CrmCheck | undefined): CrmReport {
  const { changed, lines, types } = report;
  const isWhole = lines.every(({ what }) => what !== "api" && what !== "credentials");
  if (isWhole || before === undefined) return report;
  const asked = new Set(Object.keys(types).map((object) => object.toLowerCase()));
  const still = Object.entries(before.changed ?? {}).filter(([object]) => !asked.has(object));
  return {
    lines,
    types: { ...before.types, ...types },
    changed: { ...Object.fromEntries(still), ...changed },
  };
}

async function check(
  config: Config,
  mapping: Mapping,
  { name }: CrmSource,
  known: CrmReport["types"],
  isOneOfSeveral: boolean,
): Promise<CrmReport> {
  const checker = CHECKERS[name];
  const silence: CrmLine[] = isSilent(config, name) ? [silentLine(name)] : [];
  if (checker === undefined) return { lines: silence, types: {}, changed: {} };
  const client = createCrmApi({ timeoutMs: TIMEOUT_MS, wrapsLists: true, proxy: proxyOf(config) });
  const api: RecordApi = {
    ...client,
    setting: (variable) => settingOf(config, variable)?.() ?? "",
  };
  try {
    const objects = needsOf(mapping);
    const secretName = CONNECTORS.find((one) => one.name === name)?.secretName;
    const hasWebhooks = secretName !== undefined && settingOf(config, secretName) !== undefined;
    const crm = { api, checker, objects, hasWebhooks, known, isOneOfSeveral };
    const { lines, ...report } = await checkCrm(crm);
    const skewMs = client.skewMs();
    return { ...report, lines: [...lines, ...(skewMs === undefined ? [] : [clockLine(skewMs)])] };
  } finally {
    await client.close();
  }
}

const silentLine = (crm: string): CrmLine => ({
  what: "webhooks",
  result: "fail",
  says: `it has none, and PULL_FROM does not name it: no change of it comes`,
  remedy: `Set PULL_FROM=${crm} and what docs/crm/${crm}.md names, and restart.`,
});

function clockLine(skewMs: number): CrmLine {
  const off = Math.abs(skewMs);
  if (off <= CLOCK_OFF_MS) {
    return { what: "clock", result: "ok", says: "as this machine's" };
  }
  const side = skewMs > 0 ? "ahead of" : "behind";
  const says = `its clock is ${Math.round(off / 1000)} s ${side} this machine's`;
  const remedy = "Keep this machine, and a CRM of your own, on NTP (timedatectl set-ntp true).";
  return { what: "clock", result: "warn", says, remedy };
}

/** Without what is read of related records: those are other objects. */
const needsOf = ({ objects, relations, sources = [] }: Mapping) =>
  objects.map((name) => {
    const ofIt = sources.filter((one) => one.objects.includes(name.toLowerCase()));
    const read = ofIt.flatMap(({ field: by, sources: each }) =>
      each.flat().map((path) => ({ path, by })),
    );
    const related = new Set([...relationsOf(relations, name)].map((relation) => relation.name));
    const isOwn = ([first]: readonly string[]) => first !== undefined && !related.has(first);
    return { name, uses: read.filter(({ path }) => isOwn(path)) };
  });

/** Tells one set of needs from another. */
const needsName = (mapping: Mapping, crms: readonly CrmSource[]): string =>
  digestOf(JSON.stringify([needsOf(mapping), crms.map(({ name }) => name)]));

/** By the name of the connector. */
export const CHECKERS: Readonly<Record<string, CrmChecker>> = {
  hubspot: hubspotChecker,
  salesforce: salesforceChecker,
  dynamics: dynamicsChecker,
  pipedrive: pipedriveChecker,
  espocrm: espocrmChecker,
  twenty: twentyChecker,
};
