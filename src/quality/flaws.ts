/**
 * What is wrong with the CRM's records, by their owner: of an export, each record goes through the mapping; of the
 * state, what was rejected, and what was sent without a value. No values: crmCodes, records, fields and reasons.
 */
import { createHmac, randomBytes } from "node:crypto";
import { csvLine } from "../base/csv-line.ts";
import { counted } from "../base/counted.ts";
import { printable } from "../base/printable.ts";
import { readOne } from "../base/redis-reading.ts";
import { deadLetterId } from "../core/sync/dead-letter.ts";
import { linkOf } from "../intake/mapping/mapping-file.ts";
import { WARNING_REASONS, type Mapping } from "../intake/mapping/mapping.ts";
import { readSnapshot } from "../intake/snapshot/read-snapshot.ts";
import type { Stores } from "../operate/status/stores.ts";
import {
  previewOne,
  unknownService,
  type Body,
  type Preview,
} from "../whole/preview/preview-one.ts";
import { inputsOf, type ReadOptions } from "../whole/preview/read-records.ts";
import type { OpenSnapshot } from "../whole/reconcile/open-snapshot.ts";

export const FLAW_KINDS = {
  rejected: "it is not at the service, or not as the CRM has it",
  "left out": "a value that was not understood or not allowed: it was not sent",
  suspicious: "a text that looks as if a program had written it: it was sent",
  "same person": "one person under two crmCodes",
  "no rule": "no rule of the mapping matches the record",
} as const;
export type FlawKind = keyof typeof FLAW_KINDS;

export interface Flaw {
  readonly kind: FlawKind;
  /** "": not known. */
  readonly owner: string;
  readonly crmCode: string;
  /** The record of the CRM, such as `contact/7`. */
  readonly record: string;
  readonly field: string;
  readonly reason: string;
  /** Its address in the CRM, where the mapping gives `link`. */
  readonly link: string;
}

export const COLUMNS = ["owner", "kind", "crmCode", "record", "field", "reason", "link"] as const;

/** With the line of titles. */
export const csvOf = (flaws: readonly Flaw[]): string =>
  [COLUMNS, ...flaws.map(cellsOf)].map(csvLine).join("");

export const cellsOf = (flaw: Flaw): string[] => COLUMNS.map((column) => flaw[column]);

type Record = Pick<Flaw, "crmCode" | "owner" | "record">;

/** @param snapshot undefined: only what the state knows. */
export async function* flawsOf(
  stores: Stores,
  mapping: Mapping,
  snapshot: OpenSnapshot | undefined,
  options: Pick<ReadOptions, "idFrom" | "object">,
): AsyncGenerator<Flaw> {
  const linked = (flaw: Omit<Flaw, "link">): Flaw => {
    return { ...flaw, link: linkOf(mapping.links ?? new Map(), flaw.record) ?? "" };
  };
  const told = new Set<string>();
  if (snapshot !== undefined) {
    for await (const flaw of ofSnapshot(stores, mapping, snapshot, options)) {
      told.add(`${flaw.crmCode} ${flaw.field}`);
      yield linked(flaw);
    }
  }
  for await (const flaw of ofState(stores)) {
    if (!told.has(`${flaw.crmCode} ${flaw.field}`)) yield linked(flaw);
  }
}

async function* ofSnapshot(
  stores: Stores,
  mapping: Mapping,
  snapshot: OpenSnapshot,
  options: Pick<ReadOptions, "idFrom" | "object">,
): AsyncGenerator<Omit<Flaw, "link">> {
  const view = unknownService(mapping.keeps, stores.tenantLists.current());
  const twins = new Twins();
  for await (const item of readSnapshot(snapshot)) {
    for (const input of inputsOf(item, mapping, { ...options, source: "/quality" })) {
      const preview = await previewOne(input, mapping, view);
      yield* ofPreview(preview);
      yield* twins.see(preview);
    }
  }
}

const recordOf = ({ crmCode = "", owner = "", subject }: Preview): Record => ({
  crmCode,
  owner,
  record: subject,
});

function* ofPreview(preview: Preview): Iterable<Omit<Flaw, "link">> {
  const { problems, result, warnings, why = "" } = preview;
  const record = recordOf(preview);
  if (result === "ignored") yield { ...record, kind: "no rule", field: "", reason: why };
  if (result === "dead letter")
    for (const { field, rule } of problems)
      yield { ...record, kind: "rejected", field, reason: rule };
  for (const { field, reason } of warnings) {
    const kind = reason === "suspicious" ? "suspicious" : "left out";
    if (reason !== "kept_as_is") yield { ...record, kind, field, reason: WARNING_REASONS[reason] };
  }
}

/** Finds records that are about one person: by keyed hashes, with a key that ends with the process. */
class Twins {
  readonly #key = randomBytes(32);
  /** Hash → the first record that has it, as an index into `#codes`. */
  readonly #seen = new Map<number, number>();
  readonly #codes: string[] = [];

  *see(preview: Preview): Iterable<Omit<Flaw, "link">> {
    const { crmCode, payload } = preview;
    if (
      crmCode === undefined ||
      payload === undefined ||
      payload["relationStatus"] === "terminated"
    )
      return;
    const index = this.#codes.push(crmCode) - 1;
    for (const [field, text] of traitsOf(payload)) {
      const hash = this.#hashOf(`${field}\n${text}`);
      const first = this.#codes[this.#seen.get(hash) ?? index];
      if (first === crmCode) this.#seen.set(hash, index);
      else
        yield { ...recordOf(preview), kind: "same person", field, reason: `as of ${first ?? ""}` };
    }
  }

  /** 48 bits: of a million records, one pair in 560 such exports has the same by chance. */
  #hashOf(text: string): number {
    return createHmac("sha256", this.#key).update(text).digest().readUIntBE(0, 6);
  }
}

/** What two relations of one person have in common. */
function traitsOf(payload: Body): [field: string, text: string][] {
  const of = (field: string): string => {
    const value = payload[field];
    return typeof value === "string"
      ? value
          .normalize("NFKC")
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{N}]/gu, "")
      : "";
  };
  const number = of("taxIdentificationNumber");
  const person = ["firstName", "lastName", "birthDate"].map(of);
  return [
    ...(number === "" ? [] : ([["taxIdentificationNumber", number]] as [string, string][])),
    ...(person.includes("")
      ? []
      : ([["name and birthDate", person.join("\n")]] as [string, string][])),
  ];
}

async function* ofState(stores: Stores): AsyncGenerator<Omit<Flaw, "link">> {
  const { deadLetters, doubles, ledger, redis } = stores;
  for await (const { crmCode = "", problems, reason, subject } of deadLetters.details()) {
    const owner = await ownerOf(stores, crmCode);
    const record = { crmCode, owner, record: subject, kind: "rejected" } as const;
    if (problems.length === 0) yield { ...record, field: "", reason };
    for (const { field, rule } of problems) yield { ...record, field, reason: rule };
  }
  for await (const { crmCode, row } of ledger.entries()) {
    const { fields = [], subject = "" } = row.without ?? {};
    for (const field of fields)
      yield {
        crmCode,
        owner: "",
        record: subject,
        kind: "left out",
        field,
        reason: "it was sent without a value",
      };
  }
  for (const [older, newer] of await readOne(redis, doubles.reading()))
    yield {
      crmCode: newer,
      owner: "",
      record: "",
      kind: "same person",
      field: "crmCode",
      reason: `the same record had ${older}`,
    };
}

/** As it is sealed beside the dead letter. @returns "": not known, or sealed with a key that is not here */
async function ownerOf({ knownRecords, told }: Stores, crmCode: string): Promise<string> {
  if (crmCode === "") return "";
  const [known] = await knownRecords.read([crmCode]);
  const about = told.openAbout(deadLetterId(crmCode), known?.mark?.about);
  return (await about.catch(() => undefined))?.owner ?? "";
}

/** Flaws in one message; the rest is only counted. */
const MOST_LISTED = 1000;

/** Counts by owner and kind, and by field; with the first flaws of each owner, where they are to be listed. */
export class FlawCounts {
  readonly lists = new Map<string, Flaw[]>();
  readonly owners = new Map<string, Map<FlawKind, number>>();
  readonly fields = new Map<string, number>();
  total = 0;

  add(flaw: Flaw, isListed = false): void {
    const { field, kind, owner } = flaw;
    this.total += 1;
    const list = this.lists.get(owner) ?? [];
    if (isListed && list.length < MOST_LISTED) list.push(flaw);
    if (isListed) this.lists.set(owner, list);
    const kinds = this.owners.get(owner) ?? new Map<FlawKind, number>();
    this.owners.set(owner, kinds.set(kind, (kinds.get(kind) ?? 0) + 1));
    const name = `${kind}${field === "" ? "" : `: ${field}`}`;
    this.fields.set(name, (this.fields.get(name) ?? 0) + 1);
  }

  /** Those of one owner, without fields. */
  of(owner: string): FlawCounts {
    const own = new FlawCounts();
    const kinds = this.owners.get(owner) ?? new Map<FlawKind, number>();
    own.owners.set(owner, kinds);
    own.total = sumOf(kinds);
    return own;
  }
}

const KINDS = Object.keys(FLAW_KINDS) as FlawKind[];

const sumOf = (kinds: ReadonlyMap<FlawKind, number>): number =>
  [...kinds.values()].reduce((sum, one) => sum + one, 0);

/** @param after what is said of an owner after its counts */
export function textOf(
  { fields, owners, total }: FlawCounts,
  after: (owner: string) => string = () => "",
): string[] {
  if (total === 0) return ["no flaw was found"];
  const rows = [...owners].sort(([, a], [, b]) => sumOf(b) - sumOf(a));
  const most = [...fields].sort(([, a], [, b]) => b - a);
  const parts = [
    rows.map(([owner, kinds]) => {
      const each = KINDS.filter((kind) => kinds.has(kind));
      const numbers = each.map((kind) => `${kind} ${kinds.get(kind)}`).join(", ");
      return `${owner || "(owner not known)"}: ${numbers}${after(owner)}`;
    }),
    most.map(([name, count]) => `${String(count).padStart(6)}  ${name}`),
    KINDS.filter((kind) => rows.some(([, kinds]) => kinds.has(kind))).map(
      (kind) => `${kind}: ${FLAW_KINDS[kind]}`,
    ),
  ];
  const all = parts.flatMap((part) => (part.length === 0 ? [] : ["", ...part]));
  return [counted(total, "flaw"), ...all].map(printable);
}
