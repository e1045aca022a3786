/**
 * Reads the change events of Debezium (its documentation of August 2026, 3.x): plain or as CloudEvents, with or
 * without the schema around the payload. One event has one row.
 */
import { isObject } from "../../../core/event/problem.ts";
import type { WebhookRule } from "./rule.ts";

type Json = Readonly<Record<string, unknown>>;

export type DebeziumEvent =
  | {
      readonly kind: "row";
      /** Of a deletion it may be only the key: databases leave the other columns empty. */
      readonly row: Json;
      readonly isDeletion: boolean;
      /** Debezium's description of the change, as `$body`. */
      readonly about: Json;
      /** The place in the database's log, as text that sorts; undefined where Debezium tells none. */
      readonly sequence: string | undefined;
      /** Read by a snapshot. */
      readonly isSnapshot: boolean;
    }
  /** Not about a row: a tombstone, a truncated table, a heartbeat, a change of the schema. */
  | { readonly kind: "other" }
  | { readonly kind: "unknown"; readonly rule: string };

/** Where `source` tells the place of a change in the log; each database has its own fields. */
const PLACES: readonly (readonly string[])[] = [
  ["lsn"],
  ["file", "pos", "row"],
  ["commit_lsn", "change_lsn", "event_serial_no"],
  ["scn", "lcr_position", "rs_id", "ssn"],
];

const SOURCE_FIELDS = ["connector", "name", "db", "schema", "table", "ts_ms", ...PLACES.flat()];

/** Stands for a large value that was not changed, so that the log does not have it. */
const UNAVAILABLE = "__debezium_unavailable_value";

/** Of messages that are about no row: heartbeats, schema changes, transactions, notifications. */
const OTHER_KEYS = ["ddl", "tableChanges", "event_count", "data_collections", "aggregate_type"];

/** What the format says of a webhook's expressions; the rule itself goes first. */
export function withFormat(rule: WebhookRule, objects: readonly string[]): WebhookRule {
  if (rule.format === undefined) return rule;
  const [only = "", ...others] = objects;
  return {
    operation: {
      from: "$body.op",
      table: { c: "created", r: "updated", u: "updated", d: "deleted" },
    },
    object: {
      from:
        others.length > 0
          ? "$body.table"
          : `$exists($body.table) ? $body.table : ${JSON.stringify(only)}`,
    },
    recordId: "$exists(id) ? id : ID",
    time: { from: "$body.time" },
    eventId: "$body.eventId",
    ...rule,
  };
}

export function readDebezium(given: unknown): DebeziumEvent {
  const outer = unwrap(given);
  const cloud = isObject(outer.content) && "specversion" in outer.content ? outer.content : {};
  const inner = "specversion" in cloud ? unwrap(cloud["data"]) : outer;
  const { content } = inner;
  const schema = inner.schema ?? ("specversion" in cloud ? fieldOf(outer.schema, "data") : {});
  if (content === null) return { kind: "other" };
  if (!isObject(content)) return { kind: "unknown", rule: "must be JSON (not Avro)" };
  const source = isObject(content["source"]) ? content["source"] : sourceOf(cloud);
  const op = content["op"] ?? cloud["iodebeziumop"];
  if (op === "t" || op === "m" || (op === undefined && isOther(content))) return { kind: "other" };
  if (typeof op !== "string" || !/^[crud]$/.test(op)) {
    const rule =
      "must be an event of Debezium with `op` (c, r, u or d): post its envelope, without the transform ExtractNewRecordState and with the extension attributes of CloudEvents";
    return { kind: "unknown", rule };
  }
  const side = op === "d" ? "before" : "after";
  const row = content[side];
  if (!isObject(row)) {
    const rule = `must have the row under \`${side}\`: a table without a primary key needs REPLICA IDENTITY FULL`;
    return { kind: "unknown", rule };
  }
  const place = PLACES.find((names) => names.some((name) => textOf(source[name]) !== ""));
  const table = textOf(source["table"]) || tableOf(inner.schema);
  const time = [source["ts_ms"], content["ts_ms"]].find((one) => Number(one) > 0);
  const { name, db, schema: owner } = source;
  const at = place?.map((field) => textOf(source[field]));
  const eventId = at && [name, db, owner, table, op, source["ts_ms"], ...at].map(textOf).join("/");
  return {
    kind: "row",
    row: rowOf(row, fieldOf(schema, side)),
    isDeletion: op === "d",
    about: { op, source, ...(table !== "" && { table }), time, eventId },
    sequence: at?.map(sortable).join("."),
    isSnapshot: op === "r",
  };
}

/** `{ schema, payload }`, or the payload alone. */
function unwrap(value: unknown): { readonly content: unknown; readonly schema?: unknown } {
  return isObject(value) && "payload" in value && !("op" in value)
    ? { content: value["payload"], schema: value["schema"] }
    : { content: value };
}

/** CloudEvents have the fields of `source` as attributes: `ts_ms` is `iodebeziumtsms`. */
const sourceOf = (cloud: Json): Json =>
  Object.fromEntries(
    SOURCE_FIELDS.map((name) => [name, cloud[`iodebezium${name.replaceAll("_", "")}`]]),
  );

const isOther = (content: Json): boolean =>
  OTHER_KEYS.some((key) => key in content) ||
  Object.keys(content).every((key) => key.startsWith("ts_"));

const textOf = (value: unknown): string =>
  typeof value === "string" || typeof value === "number" ? String(value) : "";

/** Numbers, decimal or hexadecimal (`00000027:00000ac0:0002`), sort as text when they are equally long. */
const sortable = (place: string): string =>
  place
    .toLowerCase()
    .split(/[^0-9a-z]+/)
    .map((part) => part.padStart(20, "0"))
    .join(".");

/** The schema of a field, in the schema of a struct. */
function fieldOf(schema: unknown, name: string): unknown {
  const fields = isObject(schema) ? schema["fields"] : undefined;
  if (!Array.isArray(fields)) return undefined;
  return (fields as unknown[]).find((field) => isObject(field) && field["field"] === name);
}

/** `server1.DEBEZIUM.CUSTOMERS.Envelope` is about CUSTOMERS. */
const tableOf = (schema: unknown): string =>
  /([^.]+)\.Envelope$/.exec(textOf(isObject(schema) ? schema["name"] : ""))?.[1] ?? "";

function rowOf(row: Json, schema: unknown): Json {
  const known = Object.entries(row).filter(
    ([, value]) => value !== UNAVAILABLE && !(Array.isArray(value) && value[0] === UNAVAILABLE),
  );
  return Object.fromEntries(
    known.map(([name, value]) => [name, valueOf(value, fieldOf(schema, name))]),
  );
}

const DAY_MS = 86_400_000;

/** The units of times since 1970 by the name of their schema, ms. */
const UNITS: Readonly<Record<string, number>> = {
  "io.debezium.time.Date": DAY_MS,
  "org.apache.kafka.connect.data.Date": DAY_MS,
  "io.debezium.time.Timestamp": 1,
  "org.apache.kafka.connect.data.Timestamp": 1,
  "io.debezium.time.MicroTimestamp": 1e-3,
  "io.debezium.time.NanoTimestamp": 1e-6,
};

/** A value in a form that mappings understand; without a schema, as it is. */
function valueOf(value: unknown, schema: unknown): unknown {
  if (value === null) return null;
  if (isObject(value) && Object.keys(value).toSorted().join() === "scale,value") {
    return decimalOf(value["value"], value["scale"]) ?? value;
  }
  const { name, parameters } = isObject(schema) ? schema : {};
  if (name === "org.apache.kafka.connect.data.Decimal" && isObject(parameters)) {
    return decimalOf(value, Number(parameters["scale"])) ?? value;
  }
  const unit = UNITS[textOf(name)];
  if (unit === undefined || textOf(value) === "") return value;
  const at = new Date(Math.floor(Number(value) * unit));
  if (Number.isNaN(at.getTime())) return value;
  // In the time zone of the database, which the message does not name.
  return at.toISOString().slice(0, unit === DAY_MS ? 10 : 23);
}

/** @param value bytes of a whole number, in base64: the highest bit is its sign. */
function decimalOf(value: unknown, scale: unknown): string | undefined {
  if (typeof value !== "string" || !Number.isSafeInteger(scale)) return undefined;
  const bytes = Buffer.from(value, "base64");
  if (bytes.length === 0 || bytes.length > 100) return undefined;
  const number = BigInt.asIntN(bytes.length * 8, BigInt(`0x${bytes.toString("hex")}`));
  const places = Number(scale);
  if (places <= 0) return places < -100 ? undefined : String(number * 10n ** BigInt(-places));
  const digits = String(number < 0n ? -number : number).padStart(places + 1, "0");
  return `${number < 0n ? "-" : ""}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}
