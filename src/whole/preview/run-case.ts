/** Runs one case of a mapping, and says how what came out differs from what was expected. */
import type { Mapping } from "../../intake/mapping/mapping.ts";
import { UserError } from "../../base/user-error.ts";
import { DEFAULT_TENANT_LISTS, tenantListsOf } from "../../core/service-spec/tenant-lists.ts";
import type { Expectation, MappingCase, MappingCases } from "./mapping-cases.ts";
import { changesBetween, previewOne, unknownService, type Preview } from "./preview-one.ts";
import { inputsOf, inputsOfEvent, type PreviewInput } from "./read-records.ts";
import { readWebhook } from "./read-webhook.ts";
import { eventsOfText } from "./webhook-bodies.ts";

/** What came out for one record. */
type Outcome = Omit<Partial<Preview>, "result"> & { readonly result: Expectation["result"] };

export interface Difference {
  readonly path: string;
  /** Undefined: nothing. */
  readonly expected: unknown;
  readonly actual: unknown;
}

export async function runCase(
  { expect, input, name }: MappingCase,
  mapping: Mapping,
  { lists }: Pick<MappingCases, "lists">,
): Promise<Difference[]> {
  const fields = Object.entries(lists).map(([field, values]) => [field, { values }] as const);
  const own = tenantListsOf(Object.fromEntries(fields));
  const view = unknownService(mapping.keeps, new Map([...DEFAULT_TENANT_LISTS, ...own]));
  const { inputs, refused } = await inputsOfCase(name, input, mapping);
  const outcomes: Outcome[] = [];
  for (const one of inputs) outcomes.push(await previewOne(one, mapping, view));
  outcomes.push(...refused.map((why) => ({ result: "refused" as const, why })));
  const expected = [expect].flat();
  if (!Array.isArray(expect) && outcomes.length === 1) return compare(expect, outcomes[0], "");
  const places = Array.from({ length: Math.max(expected.length, outcomes.length) }, (_, n) => n);
  return places.flatMap((n) => compare(expected[n], outcomes[n], `[${n}].`));
}

async function inputsOfCase(
  name: string,
  { body, event, headers = {}, id, object, record, webhook }: MappingCase["input"],
  mapping: Mapping,
): Promise<{ inputs: readonly PreviewInput[]; refused: readonly string[] }> {
  const none = { refused: [] };
  const bytes = Buffer.from(typeof body === "string" ? body : (JSON.stringify(body) ?? ""));
  try {
    if (webhook !== undefined) {
      const lines = Object.entries(headers).map(([header, value]) => `${header}: ${value}`);
      const read = await readWebhook(name, mapping, webhook, lines, bytes);
      return { inputs: read.inputs, refused: read.unusable };
    }
    if (event !== undefined) {
      const given = { specversion: "1.0", id: "1", source: "/test", ...event };
      return { inputs: inputsOfEvent(name, given, mapping), ...none };
    }
    if (record !== undefined) {
      const of = {
        ...(object !== undefined && { object }),
        ...(id !== undefined && { id: `${id}` }),
      };
      const inputs = inputsOf({ place: name, value: record }, mapping, of);
      if (inputs.every(({ hasId }) => hasId)) return { inputs, ...none };
      throw new UserError("the record has no id: give it as `id` beside `record`");
    }
    const sent = eventsOfText(bytes.toString());
    if (sent !== undefined) {
      return { inputs: sent.flatMap((one) => inputsOfEvent(name, one, mapping)), ...none };
    }
    throw new UserError("no CRM's webhook has such a body: name the mapping's `webhook`");
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return { inputs: [], refused: [error.message] };
  }
}

function compare(
  expected: Expectation | undefined,
  outcome: Outcome | undefined,
  at: string,
): Difference[] {
  if (expected === undefined || outcome === undefined) {
    const actual = outcome && { result: outcome.result, crmCode: outcome.crmCode };
    return [{ path: `${at}result`, expected: expected && resultOf(expected), actual }];
  }
  const result = resultOf(expected);
  if (result !== outcome.result) {
    const why = outcome.problems?.map(({ field, rule }) => `${field || "the record"} ${rule}`);
    const actual = [outcome.result, ...(why ?? []), outcome.why].filter(Boolean).join("; ");
    return [{ path: `${at}result`, expected: result, actual }];
  }
  const { crmCode, ...others } = outcome.payload ?? {};
  const { payload = others, problems = outcome.problems ?? [] } = expected;
  const named = ["crmCode", "status"].filter((key) => key in expected);
  const pick = (from: object) =>
    Object.fromEntries(named.map((key) => [key, (from as Record<string, unknown>)[key]]));
  const changes = [
    ...changesBetween(pick(expected), pick(outcome)),
    ...changesBetween(payload, "crmCode" in payload ? { ...others, crmCode } : others).map(
      (one) => ({
        ...one,
        field: `payload.${one.field}`,
      }),
    ),
  ];
  return [
    ...changes.map(({ field, before, after }) => ({
      path: `${at}${field}`,
      expected: before,
      actual: after,
    })),
    ...compareLists(`${at}warnings`, expected.warnings, outcome.warnings ?? []),
    ...compareLists(`${at}problems`, problems, outcome.problems ?? []),
  ];
}

const resultOf = ({ problems, result }: Expectation) =>
  result ?? (problems === undefined ? "passes" : "dead letter");

/** Of each entry only what is expected of it is compared; their order does not matter. */
function compareLists(path: string, expected: readonly object[], actual: readonly object[]) {
  const left = [...actual];
  const missing = expected.filter((entry) => {
    const keys = Object.entries(entry);
    const found = left.findIndex((one) =>
      keys.every(([key, value]) => (one as Record<string, unknown>)[key] === value),
    );
    if (found >= 0) left.splice(found, 1);
    return found < 0;
  });
  return [
    ...missing.map((entry) => ({ path, expected: entry, actual: undefined })),
    ...left.map((entry) => ({ path, expected: undefined, actual: entry })),
  ];
}
