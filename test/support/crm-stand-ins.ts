/** Stand-ins for the CRMs' APIs, as each documents its own: address, credentials, responses. */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { DESCRIPTIONS, type CrmDescription } from "./crm-descriptions.ts";
import { LISTS, type CrmList } from "./crm-lists.ts";
import { RELATED } from "./crm-relations.ts";
import { fixture, fixtureText } from "./fixtures.ts";

/** What every request to an API needs. */
export interface CrmAccess {
  readonly name: string;
  /** Variables other than the secrets, given the address of the stand-in. */
  settings(url: string): Readonly<Record<string, string>>;
  readonly secrets: Readonly<Record<string, string>>;
  /** The header with the credentials; the token is the one that `oauth` issued, if any. */
  readonly header: readonly [name: string, value: (token: string) => string];
  readonly oauth?: {
    readonly path: string;
    readonly form: (url: string) => Readonly<Record<string, string>>;
  };
  readonly unauthorized: string;
}

/** An API from which single records are read. */
export interface CrmApiCase extends CrmAccess {
  readonly name: "hubspot" | "salesforce" | "dynamics" | "espocrm" | "pipedrive" | "twenty";
  readonly object: string;
  readonly recordId: string;
  /** Where the record is read, without its query. */
  readonly path: string;
  /** The record as JSON text: parsing would round long numbers. */
  readonly record: string;
  readonly notFound: string;
}

export const LONG_NUMBER = "1795224130716501506";

/** A record with a number of 19 digits that JSON.parse would round. */
const withLongNumber = (json: string, inside: RegExp): string =>
  json.replace(inside, (start) => `${start} "long_number": ${LONG_NUMBER},`);

const DYNAMICS_ID = "5f2d9c11-7ba3-ef11-8a69-6045bd8f1a20";
const ESPO_RECORD = JSON.stringify(
  (JSON.parse(fixtureText("espocrm/01-Contact.create.json")) as unknown[])[0],
);
const TWENTY_RECORD = (
  fixture("twenty/02-person.updated.json") as { record: { readonly id: string } }
).record;

export const CRM_APIS: readonly CrmApiCase[] = [
  {
    name: "hubspot",
    object: "contact",
    recordId: "512840017733",
    path: "/crm/objects/2026-09/contacts/512840017733",
    settings: (url) => ({ HUBSPOT_API_URL: url }),
    secrets: { HUBSPOT_TOKEN: "pat-1" },
    header: ["authorization", () => "Bearer pat-1"],
    record: withLongNumber(
      fixtureText("hubspot/records/contact-512840017733.json"),
      /"properties": \{/,
    ),
    notFound: '{"status":"error","message":"resource not found","category":"OBJECT_NOT_FOUND"}',
    unauthorized: '{"status":"error","message":"…","category":"INVALID_AUTHENTICATION"}',
  },
  {
    name: "salesforce",
    object: "Contact",
    recordId: "003Qk00000AbC12IAF",
    path: "/services/data/v62.0/sobjects/Contact/003Qk00000AbC12IAF",
    settings: (url) => ({ SALESFORCE_URL: url, SALESFORCE_CLIENT_ID: "app" }),
    secrets: { SALESFORCE_CLIENT_SECRET: "app-secret" },
    header: ["authorization", (token) => `Bearer ${token}`],
    oauth: {
      path: "/services/oauth2/token",
      form: () => ({ client_id: "app", client_secret: "app-secret" }),
    },
    record: withLongNumber(
      fixtureText("salesforce/records/contact-003Qk00000AbC12IAF.json"),
      /^\{/,
    ),
    notFound: '[{"message":"entity is deleted","errorCode":"ENTITY_IS_DELETED","fields":[]}]',
    unauthorized: '[{"message":"Session expired or invalid","errorCode":"INVALID_SESSION_ID"}]',
  },
  {
    name: "dynamics",
    object: "contact",
    recordId: DYNAMICS_ID,
    path: `/api/data/v9.2/contacts(${DYNAMICS_ID})`,
    settings: (url) => ({
      DYNAMICS_URL: url,
      DYNAMICS_LOGIN_URL: url,
      DYNAMICS_TENANT_ID: "tenant-1",
      DYNAMICS_CLIENT_ID: "app",
    }),
    secrets: { DYNAMICS_CLIENT_SECRET: "app-secret" },
    header: ["authorization", (token) => `Bearer ${token}`],
    oauth: {
      path: "/tenant-1/oauth2/v2.0/token",
      form: (url) => ({
        client_id: "app",
        client_secret: "app-secret",
        scope: `${url}/.default`,
      }),
    },
    record: withLongNumber(fixtureText("dynamics/records/contact-5f2d9c11.json"), /^\{/),
    notFound: '{"error":{"code":"0x80040217","message":"Entity Does Not Exist"}}',
    unauthorized: '{"error":{"code":"0x80072560","message":"not a member"}}',
  },
  {
    name: "espocrm",
    object: "Contact",
    recordId: "6737f0a1b2c3d4e5f",
    path: "/api/v1/Contact/6737f0a1b2c3d4e5f",
    settings: (url) => ({ ESPOCRM_URL: url }),
    secrets: { ESPOCRM_API_KEY: "espo-key" },
    header: ["x-api-key", () => "espo-key"],
    record: withLongNumber(ESPO_RECORD, /^\{/),
    // EspoCRM reports errors by status and a header, without a body.
    notFound: "",
    unauthorized: "",
  },
  {
    name: "pipedrive",
    object: "person",
    recordId: "3181",
    path: "/api/v2/persons/3181",
    settings: (url) => ({ PIPEDRIVE_API_URL: url }),
    secrets: { PIPEDRIVE_API_TOKEN: "pipedrive-token" },
    header: ["x-api-token", () => "pipedrive-token"],
    record: `{"success":true,"data":${withLongNumber(fixtureText("pipedrive/records/person-3181.json"), /^\{/)}}`,
    notFound: '{"success":false,"error":"Person not found","error_info":"…","data":null}',
    unauthorized: '{"success":false,"error":"unauthorized access","errorCode":401}',
  },
  {
    name: "twenty",
    object: "person",
    recordId: TWENTY_RECORD.id,
    path: `/rest/people/${TWENTY_RECORD.id}`,
    settings: (url) => ({ TWENTY_API_URL: url }),
    secrets: { TWENTY_API_KEY: "twenty-key" },
    header: ["authorization", () => "Bearer twenty-key"],
    record: `{"data":{"person":${withLongNumber(JSON.stringify(TWENTY_RECORD), /^\{/)}}}`,
    notFound: '{"statusCode":404,"error":"NotFoundException","messages":["Record not found"]}',
    unauthorized: '{"statusCode":401,"messages":["Token invalid."],"error":"Unauthorized"}',
  },
];

/** APIs of CRMs without webhooks. */
export const PULL_ONLY_APIS: readonly CrmAccess[] = [
  {
    name: "wealthbox",
    settings: (url) => ({ WEALTHBOX_API_URL: url }),
    secrets: { WEALTHBOX_API_TOKEN: "wealthbox-token" },
    header: ["access_token", () => "wealthbox-token"],
    unauthorized: '{"error":"Unauthorized"}',
  },
  {
    name: "redtail",
    settings: (url) => ({ REDTAIL_API_URL: url }),
    secrets: { REDTAIL_API_KEY: "redtail-key", REDTAIL_USER_KEY: "user-key" },
    header: ["authorization", () => `Userkeyauth ${btoa("redtail-key:user-key")}`],
    unauthorized: '{"message":"Authorization header missing"}',
  },
];

export interface Fault {
  /** `silence` never responds, `reset` breaks the connection. */
  readonly status: number | "silence" | "reset";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

export interface StandIn extends AsyncDisposable {
  readonly url: string;
  /** What it lists; the reads of single records by `path` are apart. */
  readonly list: CrmList;
  /** How it describes itself; such requests are not counted, and get no faults. */
  readonly description: CrmDescription;
  /** Requests for records, including those that failed; token requests are counted apart. */
  readonly reads: IncomingMessage[];
  tokens: number;
  /** Responses instead of the record, first to last; then the record again. */
  readonly faults: Fault[];
  /** The same for tokens. */
  readonly tokenFaults: Fault[];
  /** From now on the record is not found. */
  isDeleted: boolean;
}

/** Responds as the CRM does; wrong credentials get 401. */
export async function standInFor(crm: CrmApiCase | CrmAccess): Promise<StandIn> {
  const [headerName, headerValue] = crm.header;
  /** Those that it has issued, and one for CRMs without tokens. */
  const tokens = [""];
  const server = createServer((request, response) => {
    const body: Buffer[] = [];
    const end = ({ status, headers = {}, body = "" }: Fault) => {
      if (status === "silence") return;
      if (status === "reset") return void request.socket.resetAndDestroy();
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
    };
    request.on("data", (chunk: Buffer) => body.push(chunk));
    request.on("end", () => {
      const [path = ""] = decodeURIComponent(request.url ?? "").split("?");
      const query =
        URL.parse(request.url ?? "", standIn.url)?.searchParams ?? new URLSearchParams();
      if (request.method === "POST" && path === crm.oauth?.path) {
        standIn.tokens += 1;
        const fault = standIn.tokenFaults.shift();
        if (fault !== undefined) return end(fault);
        const given = Object.fromEntries(new URLSearchParams(Buffer.concat(body).toString()));
        const wanted = { grant_type: "client_credentials", ...crm.oauth.form(standIn.url) };
        const isValid = Object.entries(wanted).every(([name, value]) => given[name] === value);
        tokens.push(`token-${standIn.tokens}`);
        return end(
          isValid
            ? { status: 200, body: `{"access_token":"token-${standIn.tokens}","expires_in":3599}` }
            : { status: 401, body: '{"error":"invalid_client","error_description":"…"}' },
        );
      }
      const { method = "" } = request;
      const asked = { method, path, query };
      const isListed = (object: string) => standIn.list.records.has(object);
      const described = DESCRIPTIONS[crm.name]?.(asked, standIn.description, isListed);
      if (described !== undefined) {
        const given = String(request.headers[headerName]);
        const isKnown = tokens.some((token) => given === headerValue(token));
        return isKnown
          ? end({ status: described.status, body: JSON.stringify(described.body) })
          : end({ status: 401, body: crm.unauthorized });
      }
      standIn.reads.push(request);
      const fault = standIn.faults.shift();
      if (fault !== undefined) return end(fault);
      if (!tokens.some((token) => request.headers[headerName] === headerValue(token))) {
        return end({ status: 401, body: crm.unauthorized });
      }
      const { headers } = request;
      const asking = {
        method,
        path,
        query,
        headers,
        url: standIn.url,
        body: Buffer.concat(body).toString(),
      };
      const listed =
        RELATED[crm.name]?.(asking, standIn.list) ?? LISTS[crm.name]?.(asking, standIn.list);
      if (listed !== undefined) {
        return end({ ...listed, body: JSON.stringify(listed.body) });
      }
      if (!("path" in crm)) return end({ status: 404, body: "{}" });
      if (path !== crm.path || standIn.isDeleted) return end({ status: 404, body: crm.notFound });
      end({ status: 200, body: crm.record });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const standIn: StandIn = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    // EspoCRM lists a record's object also when it has none of it.
    list: {
      records: new Map(crm.name === "espocrm" ? [["Contact", []]] : []),
      associations: new Map(),
      pageSize: 1000,
      lies: {},
      written: [],
    },
    description: { fields: new Map(), webhooks: undefined, url: "", forbidden: new Set() },
    reads: [],
    tokens: 0,
    faults: [],
    tokenFaults: [],
    isDeleted: false,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return standIn;
}
