/**
 * Asks a CRM whether it is as the mapping needs it: credentials and rights, the fields that are read,
 * the webhooks that send their changes.
 */
import { crmsync } from "../../base/command.ts";
import { nearest } from "../mapping/compare-texts.ts";
import type { NotListed } from "./record-lister.ts";
import type { ApiResult, RecordApi } from "./record-reader.ts";

/** How one CRM describes itself. */
export interface CrmChecker {
  /** The CRM's name of a field that the mapping reads; undefined: it has none for it. */
  fieldName(path: Path): string | undefined;
  /**
   * @param wanted the names that the mapping reads.
   * @returns name → type; `not_found`: the CRM has no such object.
   */
  fields(api: RecordApi, object: string, wanted: readonly string[]): Promise<Fields | NotListed>;
  /** Lists one record, where `fields` does not tell whether records can be read. */
  probe?(api: RecordApi, object: string): Promise<ApiResult>;
  /** What a person must allow for an object to be read. */
  right(object: string): string;
  /** The rights of the credential, where the CRM lists them. */
  rights?(api: RecordApi): Promise<ReadonlySet<string> | undefined>;
  /** What active webhooks send here, as `<object>.<action>`; each may be `*`. */
  sent(api: RecordApi): Promise<ReadonlySet<string> | NotListed>;
  readonly actions: readonly string[];
  /** Actions on records that are rare, such as a merge. */
  readonly rare?: readonly string[];
  /** The action that has a subscription for each field, as `<action> <field>`. */
  readonly byField?: string;
  /** Where a person sets the webhooks. */
  readonly place: string;
}

type Path = readonly string[];
type Fields = ReadonlyMap<string, string>;

export interface CrmLine {
  readonly what: "api" | "credentials" | "rights" | "fields" | "webhooks" | "clock";
  readonly result: "ok" | "warn" | "fail";
  readonly says: string;
  /** Present whenever the result is not ok. */
  readonly remedy?: string;
}

/** What the mapping reads of an object, and for which fields of the service. */
export interface ObjectNeeds {
  readonly name: string;
  readonly uses: readonly { readonly path: Path; readonly by: string }[];
}

export interface CrmReport {
  readonly lines: readonly CrmLine[];
  /** Object → the CRM's name of a field that is read → the type that counts as right. */
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>;
  /** Object in lower case → fields of the service that are made of a field whose type is another now. */
  readonly changed: Readonly<Record<string, readonly string[]>>;
}

export interface CrmToCheck {
  readonly checker: CrmChecker;
  readonly api: RecordApi;
  readonly objects: readonly ObjectNeeds[];
  readonly hasWebhooks: boolean;
  /** What was reported before. */
  readonly known: CrmReport["types"];
  /** Objects of the mapping may be those of another CRM. */
  readonly isOneOfSeveral: boolean;
}

export async function checkCrm(crm: CrmToCheck): Promise<CrmReport> {
  const { api, checker, isOneOfSeveral } = crm;
  const lines: CrmLine[] = [];
  const types: Record<string, Readonly<Record<string, string>>> = {};
  const changed: Record<string, readonly string[]> = {};
  for (const object of crm.objects) {
    const { name } = object;
    const wanted = namesOf(object, checker);
    const fields = await checker.fields(api, name, wanted);
    if ("kind" in fields) {
      if (fields.kind === "not_found" && isOneOfSeveral) continue;
      lines.push(refused(fields, name, checker));
      if (fields.kind !== "not_found" && lines.at(-1)?.what !== "rights") break;
      continue;
    }
    // Two CRMs may both have a contact: the rule is about the one that has most of its fields.
    const known = wanted.filter((field) => fields.has(field)).length;
    if (isOneOfSeveral && known * 2 < wanted.length) continue;
    const before = crm.known[name] ?? {};
    types[name] = Object.fromEntries(
      wanted.flatMap((field) => {
        const type = before[field] ?? fields.get(field);
        return type === undefined ? [] : [[field, type] as const];
      }),
    );
    const missing = wanted.filter((field) => !fields.has(field));
    if (missing.length > 0) lines.push(missingLine(object, missing, fields, checker));
    const others = wanted.filter((field) => before[field] !== undefined && fields.has(field));
    const retyped = others.filter((field) => before[field] !== fields.get(field));
    lines.push(...retyped.map((field) => retypedLine(object, field, before, fields, checker)));
    if (retyped.length > 0) changed[name.toLowerCase()] = readersOf(object, retyped, checker);
    const read = await checker.probe?.(api, name);
    if (read !== undefined && read.kind !== "found") lines.push(refused(read, name, checker));
  }
  const found = crm.objects.filter(({ name }) => types[name] !== undefined);
  if (found.length === 0) return { lines, types, changed };
  const rights = await checker.rights?.(api);
  const lacking = found
    .map(({ name }) => checker.right(name))
    .filter((one) => rights?.has(one) === false)
    .filter((one) => lines.every(({ remedy = "" }) => !remedy.includes(one)));
  lines.push(
    ...lacking.map((right) => fail("rights", `the credential lacks ${right}`, `Give it ${right}.`)),
  );
  const names = found.map(({ name }) => name).join(" and ");
  const right: CrmLine[] = [
    ok("credentials", "accepted"),
    ok("rights", `${names} can be read`),
    ok("fields", `all that the mapping reads of ${names} exists`),
  ];
  if (crm.hasWebhooks) lines.push(await webhookLine(found, crm));
  const isRight = ({ what }: CrmLine) => lines.every((line) => line.what !== what);
  return { lines: [...right.filter(isRight), ...lines], types, changed };
}

const namesOf = ({ uses }: ObjectNeeds, checker: CrmChecker): string[] => [
  ...new Set(uses.flatMap(({ path }) => checker.fieldName(path) ?? [])),
];

/** The fields of the service that are made of these fields of the CRM. */
function readersOf(
  { uses }: ObjectNeeds,
  fields: readonly string[],
  checker: CrmChecker,
): readonly string[] {
  const readers = uses.filter(({ path }) => fields.some((one) => one === checker.fieldName(path)));
  return [...new Set(readers.map(({ by }) => by))];
}

function retypedLine(
  object: ObjectNeeds,
  field: string,
  before: CrmReport["types"][string],
  fields: Fields,
  checker: CrmChecker,
): CrmLine {
  const readers = readersOf(object, [field], checker).join(", ");
  const says = `\`${field}\` of ${object.name} has become ${fields.get(field)}, and was ${before[field]}; the mapping reads it for ${readers}. The service keeps what it has there`;
  const remedy = `Try a record with ${crmsync`preview`}; once the mapping is right with it: ${crmsync`doctor --accept-types`}; then reconcile.`;
  return fail("fields", says, remedy);
}

function missingLine(
  object: ObjectNeeds,
  missing: readonly string[],
  fields: Fields,
  checker: CrmChecker,
): CrmLine {
  const named = missing.map((name) => {
    const near = nearest(name, fields.keys());
    return near === undefined ? `\`${name}\`` : `\`${name}\` (nearest: \`${near}\`)`;
  });
  const them = missing.length === 1 ? "it" : "them";
  const readers = readersOf(object, missing, checker).join(", ");
  const says = `${object.name} has no ${named.join(", ")}, or the credential may not read ${them}; the mapping reads ${them} for ${readers}. The service keeps what it has there`;
  const remedy = "Correct the mapping, the CRM or the credential's rights; then reconcile.";
  return fail("fields", says, remedy);
}

async function webhookLine(objects: readonly ObjectNeeds[], crm: CrmToCheck): Promise<CrmLine> {
  const { actions, byField, place, rare = [], ...checker } = crm.checker;
  const sent = await checker.sent(crm.api);
  if ("kind" in sent) {
    const says = `cannot be checked with this credential (${reasonOf(sent)}): look at ${place}`;
    return ok("webhooks", says);
  }
  const lacking = (wanted: (object: ObjectNeeds) => readonly string[]) =>
    objects.flatMap((object) =>
      wanted(object)
        .filter(
          (action) =>
            ![`${object.name}.${action}`, `${object.name}.*`, `*.${action}`, "*.*"].some((one) =>
              sent.has(one),
            ),
        )
        .map((action) => `${object.name}.${action}`),
    );
  const missing = lacking((object) => [
    ...actions,
    ...(byField === undefined
      ? []
      : namesOf(object, crm.checker).map((name) => `${byField} ${name}`)),
  ]);
  const missed = [...missing, ...lacking(() => rare)];
  if (missed.length === 0) return ok("webhooks", "everything that the mapping needs is sent here");
  const says = `no active webhook sends ${missed.join(", ")} here`;
  const remedy = `Add it in ${place}; then reconcile, to find what was missed.`;
  return { what: "webhooks", result: missing.length > 0 ? "fail" : "warn", says, remedy };
}

function refused(result: NotListed | ApiResult, object: string, checker: CrmChecker): CrmLine {
  const why = reasonOf(result);
  const give = `give the credential ${checker.right(object)}`;
  if (result.kind === "not_found") {
    return fail(
      "rights",
      `there is no ${object}, or none that the credential may see`,
      `Correct the object in the mapping, or ${give}.`,
    );
  }
  const isDenied = "isDenied" in result && result.isDenied;
  if (isDenied && why.startsWith("HTTP 403")) {
    return fail(
      "rights",
      `the credential may not read ${object} (${why})`,
      `${give.replace("give", "Give")}.`,
    );
  }
  if (isDenied) {
    const remedy =
      "Correct them where the daemon is started: they are wrong, expired, revoked, or of another account.";
    return fail("credentials", `refused (${why})`, remedy);
  }
  const remedy = "Run it again. If it stays so, check the address of the CRM's API.";
  return {
    what: "api",
    result: "warn",
    says: `not checked: asked for ${object}, it answered ${why}`,
    remedy,
  };
}

function reasonOf(result: NotListed | ApiResult): string {
  if (result.kind === "not_found") return `HTTP ${result.status} ${result.code ?? ""}`.trim();
  if (result.kind === "throttled") return "that there are too many requests";
  return "reason" in result ? result.reason : "";
}

const ok = (what: CrmLine["what"], says: string): CrmLine => ({ what, result: "ok", says });

const fail = (what: CrmLine["what"], says: string, remedy: string): CrmLine => {
  return { what, result: "fail", says, remedy };
};
