/** Checks each CRM whose API is configured, and what the mapping needs of it. */
import { checkableCrms, checkNow } from "../../intake/crm/check-crms.ts";
import { settingOf, type Config } from "../../base/config.ts";
import { CONNECTORS } from "../../intake/crm/connectors.ts";
import { loadMapping } from "../../intake/mapping/load-mapping.ts";
import { MappingError, type Mapping } from "../../intake/mapping/mapping.ts";
import { pullProblems } from "../../intake/pull/pulled-crms.ts";
import type { Stores } from "../status/stores.ts";
import { fail, ok, type Check } from "./check.ts";

/** @param acceptTypes the types of fields as they are now are right. */
export async function checkCrms(stores: Stores, acceptTypes: boolean): Promise<Check[]> {
  const { config, crmChecks } = stores;
  const unchecked = withoutApi(config);
  if (checkableCrms(config).length === 0 && config.PULL_FROM === undefined) return unchecked;
  let mapping: Mapping | undefined;
  try {
    mapping = await loadMapping(config.MAPPING);
    const stored = await crmChecks.current();
    const checks = await checkNow(stores, mapping, acceptTypes ? {} : stored, stored);
    const lines = Object.entries(checks).flatMap(([crm, { lines }]) =>
      lines.map(({ what, ...line }) => ({ name: `${crm}, ${what}`, ...line })),
    );
    const pulls = pullProblems(config, mapping).map((says) =>
      fail("pulling", says, "Correct PULL_FROM or what it needs, and restart."),
    );
    return [...lines, ...unchecked, ...pulls];
  } catch (error) {
    // Another check tells of a mapping that cannot be used.
    if (error instanceof MappingError) return unchecked;
    throw error;
  } finally {
    await mapping?.close();
  }
}

const withoutApi = (config: Config): Check[] =>
  CONNECTORS.flatMap(({ name, needs, secretName }) => {
    const missing = needs.filter((variable) => settingOf(config, variable) === undefined);
    const isUsed = settingOf(config, secretName) !== undefined;
    if (!isUsed || missing.length === 0) return [];
    const says = `fields and webhooks are not checked: ${missing.join(", ")} not set`;
    return [ok(name, says)];
  });
