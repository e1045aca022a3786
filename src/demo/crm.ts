/** The invented CRM: it keeps its records, tells of each change, and knows what must be true. */
import type { ClientRecord } from "./clients.ts";
import type { Random } from "./random.ts";

/** A CloudEvent, as crmsync's inbox takes it. */
export interface Envelope {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: `crm.record.${"created" | "updated" | "deleted" | "restored"}`;
  readonly subject: string;
  readonly time: string;
  readonly sequence: string;
  readonly lane?: "bulk";
  readonly data?: { readonly record: Readonly<Record<string, unknown>> };
}

export interface Client {
  /** As it stands in the CRM, right or wrong. */
  record: ClientRecord;
  /** As it last stood there without a mistake; undefined when it never did. */
  good: ClientRecord | undefined;
  deleted: boolean;
  /** Whether it was changed since it was created. */
  touched: boolean;
}

/** What the service must hold of a record in the end. */
export interface Expected {
  /** Absent: the record was never fit to be sent. */
  readonly relation: ClientRecord | undefined;
  /** A record that was deleted before its turn came has nothing to terminate. */
  readonly mayBeAbsent: boolean;
}

type Type = Envelope["type"];

export class Crm {
  readonly #random: Random;
  readonly #source: string;
  readonly #startAt: number;
  readonly #clients = new Map<string, Client>();
  #sequence = 0;
  #withoutCode = 0;

  /** @param startAt when the hour begins, ms since the epoch; all times below are ms from there. */
  constructor(random: Random, source: string, startAt: number) {
    this.#random = random;
    this.#source = source;
    this.#startAt = startAt;
  }

  create(
    atMs: number,
    record: ClientRecord,
    how: { lane?: "bulk"; good?: boolean } = {},
  ): Envelope {
    const good = how.good === false ? undefined : record;
    this.#clients.set(record.crmCode, { record, good, deleted: false, touched: false });
    return this.#tell(atMs, "crm.record.created", record.crmCode, record, how.lane);
  }

  /** Somebody saves the record, changed or not; `good` false: with a mistake in it. */
  save(atMs: number, record: ClientRecord, good = true): Envelope {
    const client = this.#client(record.crmCode);
    client.record = record;
    if (good) client.good = record;
    client.touched = true;
    return this.#tell(atMs, "crm.record.updated", record.crmCode, record);
  }

  /** Some CRMs tell of a deletion with the record as it was, some with its key alone. */
  delete(atMs: number, crmCode: string, withRecord: boolean): Envelope {
    const client = this.#client(crmCode);
    client.deleted = true;
    client.touched = true;
    return this.#tell(atMs, "crm.record.deleted", crmCode, withRecord ? client.record : undefined);
  }

  restore(atMs: number, crmCode: string): Envelope {
    const client = this.#client(crmCode);
    client.deleted = false;
    return this.#tell(atMs, "crm.record.restored", crmCode, client.record);
  }

  /** A record that lost its key on the way: nobody can tell whose it is. */
  sendWithoutCode(atMs: number, record: ClientRecord): Envelope {
    this.#withoutCode += 1;
    const { crmCode, ...rest } = record;
    return this.#tell(atMs, "crm.record.created", crmCode, rest);
  }

  /** Clients that are there and right. */
  living(): Client[] {
    return [...this.#clients.values()].filter(
      ({ record, good, deleted }) => !deleted && record === good,
    );
  }

  expected(): Map<string, Expected> {
    return new Map(
      [...this.#clients].map(([crmCode, { good, deleted }]) => [
        crmCode,
        {
          relation: good && (deleted ? { ...good, relationStatus: "terminated" } : good),
          mayBeAbsent: deleted || good === undefined,
        },
      ]),
    );
  }

  /** Records whose newest state nobody can send: each must lie among the dead letters. */
  expectedDeadLetters(): number {
    const wrong = [...this.#clients.values()].filter(({ record, good }) => record !== good);
    return wrong.length + this.#withoutCode;
  }

  #client(crmCode: string): Client {
    const client = this.#clients.get(crmCode);
    if (client === undefined) throw new RangeError(`no client ${crmCode}`);
    return client;
  }

  #tell(
    atMs: number,
    type: Type,
    crmCode: string,
    record: Readonly<Record<string, unknown>> | undefined,
    lane?: "bulk",
  ): Envelope {
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
