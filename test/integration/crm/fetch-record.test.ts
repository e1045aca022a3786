/** How each CRM's responses are classified, against a stand-in of its API. */
import { describe, expect, onTestFinished, test } from "vitest";
import { createCrmApi } from "../../../src/intake/crm/api-client.ts";
import { CRMS } from "../../../src/intake/crm/connectors.ts";
import { CRM_APIS, LONG_NUMBER, standInFor, type CrmApiCase } from "../../support/crm-stand-ins.ts";

const NO_PROXY = { httpProxy: undefined, httpsProxy: undefined, noProxy: undefined };

/** Subjects of an attacker's events: `..`, escaped or not, and what else leads elsewhere. */
const HOSTILE_NAMES = [
  ..."|.|..|%2e%2e|%252e%252e|../../admin?x=#|..\\\\..|a/../../b|.%2e|\u2025|\u0000|a b|ä".split(
    "|",
  ),
  "..;",
  "\t..",
  "x".repeat(2000),
];

async function open(crm: CrmApiCase, timeoutMs = 20_000, secrets = crm.secrets) {
  const standIn = await standInFor(crm);
  const api = createCrmApi({ timeoutMs, proxy: NO_PROXY });
  const source = CRMS.find(({ name }) => name === crm.name);
  if (source === undefined) throw new Error(`there is no CRM ${crm.name}`);
  const settings: Record<string, string> = { ...crm.settings(standIn.url), ...secrets };
  const setting = (name: string) => settings[name] ?? "";
  const fields = new Set(["firstname", "lastname", "Not a property"]);
  return {
    standIn,
    needs: source.needs,
    settings,
    read: (object = crm.object, recordId = crm.recordId) =>
      source.reader.fetchRecord({ ...api, setting }, object, recordId, fields),
    async [Symbol.asyncDispose]() {
      await api.close();
      await standIn[Symbol.asyncDispose]();
    },
  };
}

describe.for(CRM_APIS)("$name", (crm) => {
  test("returns the whole record with every digit, given the right credentials", async () => {
    await using opened = await open(crm);
    const { standIn, read } = opened;
    expect(Object.keys(opened.settings)).toEqual(expect.arrayContaining([...opened.needs]));
    const fetched = await read();
    if (fetched.kind !== "found") throw new Error(JSON.stringify(fetched));
    expect(JSON.stringify(fetched.record)).toContain(`"long_number":"${LONG_NUMBER}"`);
    // Events of EspoCRM carry our clock's time, so its own time is not used.
    expect(fetched.modifiedAt?.slice(0, 10)).toBe(
      crm.name === "espocrm" ? undefined : "2026-11-16",
    );
    await read();
    expect(standIn.reads).toHaveLength(2);
    expect(standIn.tokens).toBe(crm.oauth === undefined ? 0 : 1);
    const properties = new URL(standIn.reads[0]?.url ?? "", standIn.url).searchParams;
    expect(properties.get("properties")).toBe(crm.name === "hubspot" ? "firstname,lastname" : null);
  });

  test("an answer without its id, or about another record, is not the record", async () => {
    await using opened = await open(crm);
    opened.standIn.faults.push({ status: 200, body: '{"status":"ok"}' });
    expect(await opened.read()).toMatchObject({
      kind: "unavailable",
      reason: "an answer without the record's id",
    });
    const other = crm.record.replaceAll(crm.recordId, crm.recordId.replace(/^./, "9"));
    expect(other).not.toBe(crm.record);
    opened.standIn.faults.push({ status: 200, body: other });
    expect((await opened.read()).kind).toBe(crm.name === "hubspot" ? "missing" : "unavailable");
  });

  test("wrong credentials are reported, without their values", async () => {
    const wrong = Object.fromEntries(Object.keys(crm.secrets).map((name) => [name, "wr0ng"]));
    await using opened = await open(crm, undefined, wrong);
    const fetched = await opened.read();
    expect(fetched).toMatchObject({
      kind: "client_error",
      reason: expect.stringContaining("401") as unknown,
    });
    expect(JSON.stringify(fetched)).not.toContain("wr0ng");
    // The token endpoint is not asked again for each record that waits, but at once with other credentials.
    await opened.read();
    expect(opened.standIn.tokens).toBe(crm.oauth === undefined ? 0 : 1);
    Object.assign(opened.settings, crm.secrets);
    expect(await opened.read()).toMatchObject({ kind: "found" });
  });

  test("a revoked token is replaced", async () => {
    await using opened = await open(crm);
    opened.standIn.faults.push({ status: 401, body: crm.unauthorized });
    expect(await opened.read()).toMatchObject({ kind: "client_error" });
    expect(await opened.read()).toMatchObject({ kind: "found" });
    expect(opened.standIn.tokens).toBe(crm.oauth === undefined ? 0 : 2);
  });

  test("a refusal that is not about the token keeps it", async () => {
    await using opened = await open(crm);
    for (const status of [400, 403, 405]) {
      opened.standIn.faults.push({ status });
      expect(await opened.read()).toMatchObject({ kind: "client_error" });
    }
    expect(await opened.read()).toMatchObject({ kind: "found" });
    expect(opened.standIn.tokens).toBe(crm.oauth === undefined ? 0 : 1);
  });

  test("a deleted record is missing", async () => {
    await using opened = await open(crm);
    opened.standIn.isDeleted = true;
    expect(await opened.read()).toMatchObject({ kind: "missing" });
  });

  test("a 404 that does not come from the API is not a deletion", async () => {
    await using opened = await open(crm);
    const page = { headers: { "content-type": "text/html" }, body: "<h1>Not Found</h1>" };
    opened.standIn.faults.push({ status: 404, ...page });
    expect(await opened.read()).toMatchObject({ kind: "client_error" });
    if (crm.oauth === undefined) return;
    await using other = await open(crm);
    other.standIn.tokenFaults.push({ status: 404, body: "{}" });
    expect(await other.read()).toMatchObject({ kind: "client_error" });
    expect(other.standIn.reads).toHaveLength(0);
  });

  test.for([
    { status: 404, headers: { "content-type": "text/plain" }, body: "404 page not found\n" },
    { status: 404, body: "" },
    { status: 404, body: "{}" },
    { status: 404, body: '{"message":"no Route matched with those values"}' },
    { status: 404, body: '{"status":"error","message":"no such service"}' },
    { status: 410, body: '{"error":"gone"}' },
  ])("a gateway's $status $body is not a deletion", async (fault) => {
    await using opened = await open(crm);
    // EspoCRM's list is asked too.
    opened.standIn.faults.push(fault, fault);
    expect(await opened.read()).toEqual({
      kind: "client_error",
      reason: expect.stringMatching(
        `^HTTP ${fault.status} .*, which does not say that the record is deleted$`,
      ) as unknown,
    });
  });

  test("no subject leaves the API's path", async () => {
    await using opened = await open(crm);
    const names = [crm.object, ...HOSTILE_NAMES];
    const folder = crm.path.slice(0, crm.path.lastIndexOf("/", crm.path.lastIndexOf("/") - 1));
    for (const object of names) {
      for (const recordId of [crm.recordId, ...HOSTILE_NAMES]) {
        if (object === crm.object && recordId === crm.recordId) continue;
        expect((await opened.read(object, recordId)).kind).not.toBe("found");
      }
    }
    for (const { url = "" } of opened.standIn.reads) {
      // As the server sees it: fetch() has resolved every dot segment.
      expect(url.split("?")[0]?.startsWith(`${folder}/`), url).toBe(true);
      expect(url).not.toMatch(/\/\.{1,2}(?:\/|\?|$)|admin\?x/);
    }
  });

  test.for([
    [{ status: 403 }, { kind: "client_error", reason: "HTTP 403" }],
    [
      { status: 429, headers: { "retry-after": "7" } },
      { kind: "throttled", retryAfterMs: 7000 },
    ],
    [{ status: 429 }, { kind: "throttled", retryAfterMs: 10_000 }],
    [
      { status: 477, headers: { "retry-after": "3600" } },
      { kind: "throttled", retryAfterMs: 3_600_000 },
    ],
    [{ status: 423 }, { kind: "unavailable", reason: "HTTP 423" }],
    [{ status: 408 }, { kind: "unavailable", reason: "HTTP 408" }],
    [{ status: 500 }, { kind: "unavailable", reason: "HTTP 500" }],
    [{ status: 503 }, { kind: "unavailable", reason: "HTTP 503" }],
    [{ status: 302 }, { kind: "unavailable", reason: "HTTP 302" }],
    [
      { status: 200, body: "<html>" },
      { kind: "unavailable", reason: "not a JSON object" },
    ],
    [
      { status: 200, body: "[]" },
      { kind: "unavailable", reason: "not a JSON object" },
    ],
    [
      { status: 200, body: Buffer.from('{"name":"Zo\u00eb"}', "latin1") },
      { kind: "unavailable", reason: "a response that is not UTF-8" },
    ],
    [{ status: "reset" }, { kind: "unavailable" }],
  ] as const)("%j", async ([fault, expected]) => {
    await using opened = await open(crm);
    opened.standIn.faults.push(fault);
    expect(await opened.read()).toMatchObject(expected);
  });

  test("a request without a response ends at the timeout", async () => {
    await using opened = await open(crm, 300);
    for (let tries = 0; tries < 2; tries += 1) {
      opened.standIn.faults.push({ status: "silence" });
      opened.standIn.tokenFaults.push({ status: "silence" });
    }
    expect(await opened.read()).toEqual({
      kind: "unavailable",
      reason: "no response within 0.3 s",
    });
  });
});

test("Dynamics: an id in upper case is the same record, and what is no GUID is not missing", async () => {
  const crm = CRM_APIS.find(({ name }) => name === "dynamics")!;
  await using opened = await open(crm);
  expect((await opened.read("contact", crm.recordId.toUpperCase())).kind).toBe("found");
  expect(await opened.read("contact", "4711")).toMatchObject({ kind: "client_error" });
});

test("Dynamics: a 404 for an unknown table is an error, not a deletion", async () => {
  await using opened = await open(apiOf("dynamics"));
  const body = '{"error":{"code":"0x8006088a","message":"Resource not found for the segment"}}';
  opened.standIn.faults.push({ status: 404, body });
  expect(await opened.read("cw_party")).toEqual({
    kind: "client_error",
    reason: "HTTP 404 0x8006088a, which does not say that the record is deleted",
  });
});

test("HubSpot: its 404 about an unknown number has no category", async () => {
  await using opened = await open(apiOf("hubspot"));
  const body = '{"status":"error","message":"resource not found","correlationId":"019db0fe-7069"}';
  opened.standIn.faults.push({ status: 404, body });
  expect(await opened.read()).toEqual({ kind: "missing" });
});

test("HubSpot: a property that the answer lacks is empty only if the object has it", async () => {
  await using opened = await open(apiOf("hubspot"));
  const { faults, list, reads } = opened.standIn;
  const body = `{"id":"${apiOf("hubspot").recordId}","properties":{"firstname":"Ada"}}`;
  const propertiesRead = async () => {
    faults.unshift({ status: 200, body });
    const fetched = await opened.read();
    return fetched.kind === "found" ? fetched.record["properties"] : fetched;
  };
  // Without a list of properties, as after a renaming, nothing says that it is empty.
  expect(await propertiesRead()).toEqual({ firstname: "Ada" });
  list.records.set("contacts", [{ id: "1", properties: { firstname: "", lastname: "" } }]);
  faults.push({ status: 503 });
  expect(await propertiesRead()).toMatchObject({ kind: "unavailable" });
  expect(await propertiesRead()).toEqual({ firstname: "Ada", lastname: null });
  expect(await propertiesRead()).toEqual({ firstname: "Ada", lastname: null });
  const schemas = reads.filter(({ url = "" }) => url === "/crm/properties/2026-09/contacts");
  expect(schemas).toHaveLength(3);
});

test("Salesforce: its NOT_FOUND means a missing record only where it has the object", async () => {
  await using opened = await open(apiOf("salesforce"));
  const { faults, reads } = opened.standIn;
  const notFound = {
    status: 404,
    body: '[{"errorCode":"NOT_FOUND","message":"The requested resource does not exist"}]',
  };
  faults.push(notFound, { status: 200, body: '{"objectDescribe":{"name":"Contact"}}' });
  expect(await opened.read()).toEqual({ kind: "missing" });
  expect(reads.at(-1)?.url).toBe("/services/data/v62.0/sobjects/Contact");
  // The app may not read contacts any more, or the organisation does not have this version.
  faults.push(notFound, notFound);
  expect(await opened.read()).toEqual({
    kind: "client_error",
    reason: expect.stringMatching(
      /^HTTP 404 NOT_FOUND also for Contact itself: the app/,
    ) as unknown,
  });
  faults.push(notFound, { status: 200, body: '{"status":"ok"}' });
  expect(await opened.read()).toMatchObject({ kind: "unavailable" });
  faults.push(notFound, { status: 503 });
  expect(await opened.read()).toMatchObject({ kind: "unavailable", reason: "HTTP 503" });
});

test("EspoCRM: a record that its list has is not deleted, whatever answers 404", async () => {
  const crm = apiOf("espocrm");
  await using opened = await open(crm);
  const record = JSON.parse(crm.record) as Record<string, unknown>;
  opened.standIn.list.records.set(crm.object, [{ ...record, id: "0" }, record]);
  opened.standIn.faults.push({ status: 404, body: "" });
  expect(await opened.read()).toMatchObject({ kind: "client_error" });
  opened.standIn.list.records.set(crm.object, [{ ...record, id: "0" }]);
  opened.standIn.faults.push({ status: 404, body: "" });
  expect(await opened.read()).toEqual({ kind: "missing" });
});

test("Pipedrive: a record in the bin counts as one that it does not have", async () => {
  const crm = apiOf("pipedrive");
  await using opened = await open(crm);
  const body = crm.record.replace('"is_deleted": false', '"is_deleted": true');
  expect(body).not.toBe(crm.record);
  opened.standIn.faults.push({ status: 200, body });
  expect(await opened.read()).toEqual({ kind: "missing" });
});

test("Twenty: its older versions say with a 400 that they have no such record", async () => {
  const crm = apiOf("twenty");
  await using opened = await open(crm);
  const { faults, reads } = opened.standIn;
  const refusal = (message: string) => ({
    status: 400,
    body: JSON.stringify({ statusCode: 400, error: "BadRequestException", messages: [message] }),
  });
  faults.push(refusal("Record not found"), refusal("object 'people' not found. eg: companies"));
  expect(await opened.read()).toEqual({ kind: "missing" });
  expect(await opened.read()).toEqual({
    kind: "client_error",
    reason: "HTTP 400 BadRequestException",
  });
  // Without it the records of other objects would come along.
  expect(reads.map(({ url }) => url)).toEqual([`${crm.path}?depth=0`, `${crm.path}?depth=0`]);
});

test("Twenty: a record in the bin counts as one that it does not have", async () => {
  const crm = apiOf("twenty");
  await using opened = await open(crm);
  const body = crm.record.replace('"deletedAt":null', '"deletedAt":"2026-11-16T09:11:00.000Z"');
  expect(body).not.toBe(crm.record);
  opened.standIn.faults.push({ status: 200, body });
  expect(await opened.read()).toEqual({ kind: "missing" });
});

test("a 401 of one CRM keeps the tokens of the others", async () => {
  const [salesforce, hubspot] = [apiOf("salesforce"), apiOf("hubspot")];
  await using standIn = await standInFor(salesforce);
  await using other = await standInFor(hubspot);
  const api = createCrmApi({ timeoutMs: 20_000, proxy: NO_PROXY });
  onTestFinished(() => api.close());
  const read = (crm: CrmApiCase, settings: Readonly<Record<string, string>>) =>
    CRMS.find(({ name }) => name === crm.name)?.reader?.fetchRecord(
      { ...api, setting: (name) => settings[name] ?? "" },
      crm.object,
      crm.recordId,
      new Set(["lastname"]),
    );
  const ofSalesforce = { ...salesforce.settings(standIn.url), ...salesforce.secrets };
  const ofHubspot = { ...hubspot.settings(other.url), HUBSPOT_TOKEN: "wrong" };
  for (let n = 0; n < 2; n += 1) {
    expect(await read(salesforce, ofSalesforce)).toMatchObject({ kind: "found" });
    expect(await read(hubspot, ofHubspot)).toMatchObject({
      reason: expect.stringMatching(/^HTTP 401/) as unknown,
    });
  }
  expect(standIn.tokens).toBe(1);
});

function apiOf(name: CrmApiCase["name"]): CrmApiCase {
  const crm = CRM_APIS.find((one) => one.name === name);
  if (crm === undefined) throw new Error(`no ${name}`);
  return crm;
}
