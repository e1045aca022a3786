/** Reads what shall be previewed: records or events, one or many. */
import { readFileSync } from "node:fs";
import { parseEvent, splitSubject, type CrmEvent } from "../../event/crm-event.ts";
import { parseExactly } from "../../event/exact-json.ts";
import type { CrmRecord, EventContext, Mapping } from "../../mapping/mapping.ts";
import { UserError } from "../user-error.ts";

export interface Subject {
  /** As it is called in what is printed: its place in the file. */
  readonly label: string;
  readonly context: EventContext;
  readonly record: CrmRecord | undefined;
}

export interface ReadOptions {
  readonly object?: string;
  readonly id?: string;
}

/** @throws UserError when the file is not to be read, or it is not clear what a record is. */
export function readSubjects(file: string, mapping: Mapping, options: ReadOptions): Subject[] {
  const values = parseFile(file);
  return values.map(({ label, value }) => {
    if (!isObject(value)) throw new UserError(`${label} is neither a record nor an event`);
    if ("specversion" in value) return subjectOfEvent(label, value);
    const object = options.object ?? objectOf(value, mapping, label);
    const recordId = options.id ?? idOf(value, object);
    const type = "crm.record.updated";
    const subject = `${object}/${recordId}`;
    return {
      label,
      context: { type, source: "/preview", subject, object, recordId },
      record: value,
    };
  });
}

function subjectOfEvent(label: string, value: unknown): Subject {
  const parsed = parseEvent(value, Date.now());
  if (!parsed.ok) {
    const problems = parsed.problems.map((p) => `${p.field || "it"} ${p.rule} (it is ${p.kind})`);
    throw new UserError(`${label} is no good event: ${problems.join("; ")}`);
  }
  const { type, source, subject, data }: CrmEvent = parsed.event;
  const { object, recordId } = splitSubject(subject);
  return { label, context: { type, source, subject, object, recordId }, record: data?.record };
}

function parseFile(file: string): { label: string; value: unknown }[] {
  let text: string;
  try {
    text = readFileSync(file === "-" ? 0 : file, "utf8").replace(/^\ufeff/, "");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new UserError(`${file} cannot be read (${code})`);
  }
  try {
    const value = parseExactly(text);
    if (!Array.isArray(value)) return [{ label: file, value }];
    return value.map((item: unknown, index) => ({
      label: `${file}, item ${index + 1}`,
      value: item,
    }));
  } catch {
    return parseLines(file, text);
  }
}

function parseLines(file: string, text: string): { label: string; value: unknown }[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const label = `${file}, line ${index + 1}`;
    try {
      return [{ label, value: parseExactly(line) }];
    } catch {
      throw new UserError(`${label} is not JSON (the file must be JSON, or JSON lines)`);
    }
  });
}

/** The object is part of an event's subject; a record alone does not say it. */
function objectOf(record: CrmRecord, mapping: Mapping, label: string): string {
  const { attributes } = record;
  const told = isObject(attributes) ? attributes["type"] : undefined;
  if (typeof told === "string") return told;
  const [only] = mapping.objects;
  if (only !== undefined && mapping.objects.length === 1) return only;
  if (mapping.objects.length === 0) return "record";
  throw new UserError(
    `${label} does not say which object it is: give --object, one of ${mapping.objects.join(", ")}`,
  );
}

function idOf(record: CrmRecord, object: string): string {
  const names = ["id", "Id", "ID", `${object}id`, `${object}_id`, "crmCode"];
  for (const name of names) {
    const value = record[name];
    if (typeof value === "string" && value !== "") return value;
    if (typeof value === "number") return String(value);
  }
  return "preview";
}

const isObject = (value: unknown): value is CrmRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);
