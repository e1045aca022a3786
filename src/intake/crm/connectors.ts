import type { CrmConnector, CrmSource } from "./connector.ts";
import { dynamics } from "./dynamics.ts";
import { espocrm } from "./espocrm.ts";
import { hubspot } from "./hubspot.ts";
import { pipedrive } from "./pipedrive.ts";
import { redtail } from "./redtail.ts";
import { salesforce } from "./salesforce.ts";
import { twenty } from "./twenty.ts";
import { wealthbox } from "./wealthbox.ts";

/** Every CRM whose webhooks crmsync accepts. */
export const CONNECTORS: readonly CrmConnector[] = [
  hubspot,
  salesforce,
  dynamics,
  pipedrive,
  espocrm,
  twenty,
];

/** CRMs that have no webhooks: they must be asked for changes. */
export const WITHOUT_WEBHOOKS: readonly CrmSource[] = [wealthbox, redtail];

/** Every CRM that can be listed; some of them can also be read and asked for changes. */
export const CRMS: readonly CrmSource[] = [...CONNECTORS, ...WITHOUT_WEBHOOKS];
