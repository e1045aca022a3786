/** The invented CRM: it stores records, makes an event of each change, and knows the expected end. */
import type { WebhookEvent } from "../intake/crm/connector.ts";
import type { ClientRecord } from "./clients.ts";
import type { Random } from "./random.ts";

/** An event for crmsync's inbox. */
export type ClientEvent = WebhookEvent & { readonly time: string; readonly sequence: string };

export interface Client {
  /** Its newest state in the CRM, valid or not. */
  record: ClientRecord;
  /** Its newest state without a mistake; undefined if there was none. */
  lastValid: ClientRecord | undefined;
  deleted: boolean;
  /** Whether it was changed since it was created. */
  changed: boolean;
}

/** What the service must hold of a record in the end. */
export interface Expected {
  /** Undefined: no state of the record was ever valid. */
  readonly relation: ClientRecord | undefined;
  /** A record that was deleted before its first request needs no relation. */
  readonly mayBeAbsent: boolean;
}

export class Crm {
  readonly #random: Random;
  readonly #source: string;
  readonly #startAt: number;
  readonly #clients = new Map<string, Client>();
  #sequence = 0;
  #withoutKey = 0;

  /** @param startAt start of the hour, ms since the epoch; `atMs` below counts from it */
  constructor(random: Random, source: string, startAt: number) {
    this.#random = random;
    this.#source = source;
    this.#startAt = startAt;
  }

  create(
    atMs: number,
    record: ClientRecord,
    options: { lane?: "bulk"; valid?: boolean } = {},
  ): ClientEvent {
    const lastValid = options.valid === false ? undefined : record;
    this.#clients.set(record.crmCode, { record, lastValid, deleted: false, changed: false });
    return this.#event(atMs, "crm.record.created", record.crmCode, record, options.lane);
  }

  /** A user saves the record, changed or not; `valid` false: with a mistake in it. */
  save(atMs: number, record: ClientRecord, valid = true): ClientEvent {
    const client = this.#client(record.crmCode);
    client.record = record;
    if (valid) client.lastValid = record;
    client.changed = true;
    return this.#event(atMs, "crm.record.updated", record.crmCode, record);
  }

  /** Some CRMs send a deletion with the deleted record, some only with its key. */
  delete(atMs: number, crmCode: string, withRecord: boolean): ClientEvent {
    const client = this.#client(crmCode);
    client.deleted = true;
    client.changed = true;
    return this.#event(atMs, "crm.record.deleted", crmCode, withRecord ? client.record : undefined);
  }

  restore(atMs: number, crmCode: string): ClientEvent {
    const client = this.#client(crmCode);
    client.deleted = false;
    return this.#event(atMs, "crm.record.restored", crmCode, client.record);
  }

  /** The event of a record without its key. */
  createWithoutKey(atMs: number, record: ClientRecord): ClientEvent {
    this.#withoutKey += 1;
    const { crmCode, ...rest } = record;
    return this.#event(atMs, "crm.record.created", crmCode, rest);
  }

  /** Clients that are not deleted and have no mistake. */
  validClients(): Client[] {
    return [...this.#clients.values()].filter(
      ({ record, lastValid, deleted }) => !deleted && record === lastValid,
    );
  }

  expected(): Map<string, Expected> {
    return new Map(
      [...this.#clients].map(([crmCode, { lastValid, deleted }]) => [
        crmCode,
        {
          relation:
            lastValid && (deleted ? { ...lastValid, relationStatus: "terminated" } : lastValid),
          mayBeAbsent: deleted || lastValid === undefined,
        },
      ]),
    );
  }

  /** Number of records whose newest state is not valid: each must be a dead letter. */
  expectedDeadLetters(): number {
    const wrong = [...this.#clients.values()].filter(
      ({ record, lastValid }) => record !== lastValid,
    );
    return wrong.length + this.#withoutKey;
  }

  #client(crmCode: string): Client {
    const client = this.#clients.get(crmCode);
    if (client === undefined) throw new RangeError(`no client ${crmCode}`);
    return client;
  }

  #event(
    atMs: number,
    type: ClientEvent["type"],
    crmCode: string,
    record: Readonly<Record<string, unknown>> | undefined,
    lane?: "bulk",
  ): ClientEvent {
    this.#sequence += 1;
    return {
      specversion: "1.0",
      id: this.#random.uuid(),
      source: this.#source,
      type,
      subject: `client/${crmCode}`,
      time: new Date(this.#startAt + atMs).toISOString(),
      sequence: String(this.#sequence).padStart(8, "0"),
      ...(lane && { lane }),
      ...(record && { data: { record } }),
    };
  }
}
