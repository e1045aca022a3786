import type { CrmChecker } from "./crm-check.ts";
import { dynamicsChecker } from "./dynamics-check.ts";
import { espocrmChecker } from "./espocrm-check.ts";
import { hubspotChecker } from "./hubspot-check.ts";
import { pipedriveChecker } from "./pipedrive-check.ts";
import { salesforceChecker } from "./salesforce-check.ts";
import { twentyChecker } from "./twenty-check.ts";

/** By the name of the connector. */
export const CHECKERS: Readonly<Record<string, CrmChecker>> = {
  hubspot: hubspotChecker,
  salesforce: salesforceChecker,
  dynamics: dynamicsChecker,
  pipedrive: pipedriveChecker,
  espocrm: espocrmChecker,
  twenty: twentyChecker,
};
