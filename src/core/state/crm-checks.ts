/** What the last check of each CRM found: one process checks, all of them and the status read it here. */
import { readOne, reading, type Reading } from "../../base/redis-reading.ts";
import { Store } from "./store.ts";

export interface CrmCheck {
  /** When it ended, ms. */
  readonly at: number;
  /** Names what the mapping needed of the CRM then. */
  readonly needs: string;
  readonly lines: readonly {
    readonly what: string;
    readonly result: "ok" | "warn" | "fail";
    readonly says: string;
    readonly remedy?: string;
  }[];
  /** Object → field that the mapping reads → the type that counts as right. */
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly changed: ChangedFields;
}

/** Object in lower case → fields of the service that are made of a field whose type has changed. */
export type ChangedFields = Readonly<Record<string, readonly string[]>>;

/** By the name of the CRM. */
export type CrmChecksByName = Readonly<Record<string, CrmCheck>>;

/** One process may check for so long before another one may, ms. */
const CLAIM_MS = 60_000;

export class CrmChecks extends Store {
  #changed: ChangedFields = {};

  reading(): Reading<CrmChecksByName> {
    return reading(["get", this.keys.crmChecks], (text: string | null) =>
      text === null ? {} : (JSON.parse(text) as CrmChecksByName),
    );
  }

  async current(): Promise<CrmChecksByName> {
    const checks = await readOne(this.redis, this.reading());
    this.#changed = changedIn(checks);
    return checks;
  }

  async readChanged(): Promise<ChangedFields> {
    await this.current();
    return this.changed();
  }

  /** As last read or stored by this process: in these fields the service keeps what it has. */
  changed(): ChangedFields {
    return this.#changed;
  }

  claim(): Promise<boolean> {
    return this.claimFor(this.keys.crmChecking, CLAIM_MS);
  }

  /** Replaces what was known, and ends the claim. */
  async store(checks: CrmChecksByName): Promise<void> {
    await this.write("SET", this.keys.crmChecks, JSON.stringify(checks));
    await this.redis.del(this.keys.crmChecking);
    this.#changed = changedIn(checks);
  }
}

/** Two CRMs may both have an object of this name. */
function changedIn(checks: CrmChecksByName): ChangedFields {
  const changed: Record<string, readonly string[]> = {};
  for (const [object, fields] of Object.values(checks).flatMap((check) =>
    Object.entries(check.changed),
  )) {
    changed[object] = [...(changed[object] ?? []), ...fields];
  }
  return changed;
}
