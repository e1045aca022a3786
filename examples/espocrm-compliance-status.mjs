// A receiver of OUTCOME_WEBHOOK that writes the state of each record into a field of EspoCRM, so that the adviser sees
// "on the compliance service since 2026-11-27" or "rejected: lastName is required" at the client. It needs no package.
//
//   OUTCOME_WEBHOOK_SECRET=whsec_… ESPOCRM_URL=https://crm.example.com ESPOCRM_API_KEY=… PORT=9090 \
//     node examples/espocrm-compliance-status.mjs
//
// In EspoCRM, add a field of the type Varchar (or Text) with the name complianceStatus to Contact and Account, which
// EspoCRM calls cComplianceStatus, and an API user who may read and edit both. Do not map the field: its change is then
// an event with an unchanged payload, which costs no request and has no outcome. So there is no endless loop.
// Behind a proxy with TLS, set HOST to the address that the proxy reaches.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const { OUTCOME_WEBHOOK_SECRET = "", ESPOCRM_URL, ESPOCRM_API_KEY = "" } = process.env;
const { FIELD = "cComplianceStatus", HOST = "127.0.0.1", PORT = "9090" } = process.env;
if (!OUTCOME_WEBHOOK_SECRET || !ESPOCRM_URL || !ESPOCRM_API_KEY) {
  throw new Error("set OUTCOME_WEBHOOK_SECRET, ESPOCRM_URL and ESPOCRM_API_KEY");
}

const MOST_BYTES = 1024 * 1024;
const MOST_SECONDS_APART = 300;
const MOST_AT_ONCE = 10;

/** Standard Webhooks: HMAC-SHA256 of `id.timestamp.body`; both sides may have two secrets during a rotation. */
function isSigned(headers, body) {
  const id = headers["webhook-id"];
  const timestamp = headers["webhook-timestamp"];
  const isFresh = Math.abs(Date.now() / 1000 - Number(timestamp)) <= MOST_SECONDS_APART;
  const given = String(headers["webhook-signature"])
    .split(" ")
    .map((one) => Buffer.from(one));
  const expected = OUTCOME_WEBHOOK_SECRET.split(/\s+/).map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    const hmac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body);
    return Buffer.from(`v1,${hmac.digest("base64")}`);
  });
  const isSame = (a, b) => a.length === b.length && timingSafeEqual(a, b);
  return isFresh && expected.some((one) => given.some((other) => isSame(one, other)));
}

const day = (time) => time.slice(0, 10);

/** What the adviser reads. */
function textOf({ outcome, at, since, problems = [], remedy = "" }) {
  const what = problems.map(({ field, rule }) => `${field} ${rule ?? ""}`.trim()).join("; ");
  switch (outcome) {
    case "created":
    case "updated":
      return since ? `on the compliance service since ${day(since)}` : "on the compliance service";
    case "terminated":
      return `relation terminated on ${day(at)}`;
    case "rejected":
      return `rejected: ${what || remedy}`;
    case "held":
      return `waits: ${remedy}`;
    case "cleared":
      return since ? `on the compliance service since ${day(since)}` : "nothing to correct";
    default:
      return undefined;
  }
}

async function ask(method, path, body) {
  const response = await fetch(new URL(`/api/v1/${path}`, ESPOCRM_URL), {
    method,
    headers: { "x-api-key": ESPOCRM_API_KEY, "content-type": "application/json" },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(5000),
  });
  // A record that was deleted meanwhile has no field to write.
  if (response.status === 404) return undefined;
  if (!response.ok) throw new Error(`EspoCRM answers ${method} ${path} with ${response.status}`);
  return response.json();
}

/** Writes nothing that is there already: a batch may come twice. */
async function write(outcome) {
  const subject = outcome.record?.subject ?? "";
  const text = textOf(outcome);
  if (!/^[A-Za-z]\w*\/\w+$/.test(subject) || text === undefined) return;
  const record = await ask("GET", subject);
  if (record === undefined || record[FIELD] === text) return;
  await ask("PUT", subject, { [FIELD]: text });
  console.log(`${subject}: ${outcome.outcome}`);
}

const server = createServer((request, response) => {
  const answer = (status) => response.writeHead(status).end();
  const chunks = [];
  let bytes = 0;
  request.on("data", (chunk) => {
    bytes += chunk.length;
    if (bytes > MOST_BYTES) request.destroy();
    else chunks.push(chunk);
  });
  request.on("end", async () => {
    const body = Buffer.concat(chunks);
    if (request.method !== "POST" || !isSigned(request.headers, body)) return answer(401);
    try {
      const { type, data } = JSON.parse(body.toString("utf8"));
      const outcomes = type === "crmsync.outcomes" ? data.outcomes : [];
      // A record has one outcome in a batch, and crmsync waits 10 s for an answer.
      while (outcomes.length > 0) await Promise.all(outcomes.splice(0, MOST_AT_ONCE).map(write));
      answer(204);
    } catch (error) {
      // crmsync sends the same batch again.
      console.error(error.message);
      answer(503);
    }
  });
});
server.listen(Number(PORT), HOST, () => {
  console.log(`listens on http://${HOST}:${server.address().port}`);
});
