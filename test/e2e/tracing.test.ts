/** What the daemon exports to a trace collector, and what it never exports. */
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { expect, inject, test } from "vitest";
import { localSandbox } from "../support/in-process.ts";
import { type DaemonProcess, startDaemon, waitUntilSettled } from "../support/crmsync.ts";
import { personEvent } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor } from "../support/tenant-env.ts";
import { CRM_APIS, standInFor } from "../support/crm-stand-ins.ts";
import { fixture } from "../support/fixtures.ts";
import { otlpReceiver, type ReceivedSpan } from "../support/otlp-receiver.ts";
import { ownPort } from "../support/own-port.ts";
import { localCrmsync } from "../support/local-command.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

/** Every personal value and every crmCode contains it. */
const MARK = "Xq7Leak";
const FOREIGN_TRACE = "0af7651916cd43dd8448eb211c80319c";

const MAPPING = `version: 1
objects:
  - object: contact
    crmCode: $event.source & "/" & $event.recordId
    fields:
      type: { value: Person }
      firstName: '[firstName, properties.firstname][0]'
      lastName: '[lastName, properties.lastname][0]'
      city: city
`;

/** The only headers that the service and the CRM may receive. */
const PLAIN_HEADERS = new Set(
  "accept accept-encoding authorization cache-control connection content-length content-type host".split(
    " ",
  ),
);

/**
 * A server before the sandbox that records the headers of every request. It rejects one write and
 * quotes the whole request in the error.
 */
async function recordingService(target: string) {
  const headers: IncomingHttpHeaders[] = [];
  let quotes = 0;
  const server = createServer((request, response) => {
    headers.push(request.headers);
    void (async () => {
      const body = await buffer(request);
      const { method = "GET", url = "" } = request;
      if (quotes > 0 && method !== "GET") {
        quotes -= 1;
        const error = `rejected: ${body.toString()} ${request.headers.authorization}`;
        response
          .writeHead(400, { "content-type": "application/json" })
          .end(JSON.stringify({ error, code: 400 }));
        return;
      }
      const { authorization = "", "content-type": type = "application/json" } = request.headers;
      const served = await fetch(target + url, {
        method,
        headers: { authorization, "content-type": type },
        ...(method !== "GET" && { body }),
      });
      response.writeHead(served.status, {
        "content-type": served.headers.get("content-type") ?? "",
      });
      response.end(Buffer.from(await served.arrayBuffer()));
    })().catch(() => request.socket.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    headers,
    quoteOnce: () => (quotes = 1),
    async [Symbol.asyncDispose]() {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

const change = (n: number, record: Record<string, unknown> = {}, envelope = {}) => {
  const valid = { firstName: MARK, lastName: MARK, city: `${MARK} ${n}` };
  const data = { record: { ...valid, ...record } };
  return personEvent(`${MARK}${n}`, {}, { source: `/crm/${MARK}`, data, ...envelope });
};

async function sendHubspotWebhook(daemon: DaemonProcess): Promise<void> {
  const [, created] = fixture("hubspot/01-contact-creation.json") as object[];
  const body = JSON.stringify([created]);
  const at = String(Date.now());
  const signed = `POST${daemon.url}/webhooks/hubspot${body}${at}`;
  const response = await fetch(`${daemon.url}/webhooks/hubspot`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-hubspot-request-timestamp": at,
      "x-hubspot-signature-v3": createHmac("sha256", MARK).update(signed).digest("base64"),
    },
    body,
  });
  expect(response.status).toBe(200);
}

const ended = (daemon: DaemonProcess, outcome: string, count: number) =>
  waitFor(async () => (await daemon.metric("crmsync_changes_total", { outcome })) >= count, {
    what: `${count} ${outcome}`,
  });

async function stop({ process }: DaemonProcess): Promise<void> {
  process.kill("SIGTERM");
  expect(await process.ended).toEqual({ code: 0, signal: null });
}

/** The names of all spans from the root to this one. */
function pathTo(span: ReceivedSpan, all: readonly ReceivedSpan[]): string[] {
  const parent = all.find(({ spanId }) => spanId === span.parentSpanId);
  return [...(parent === undefined ? [] : pathTo(parent, all)), span.name];
}

test("a change is one trace from HTTP intake to the service, without personal data", async () => {
  const [hubspot] = CRM_APIS;
  if (hubspot === undefined) throw new Error("no HubSpot");
  const properties = { firstname: MARK, lastname: MARK, city: MARK };
  await using dir = await tempDir();
  await using collector = await otlpReceiver();
  await using sandbox = await localSandbox();
  await using service = await recordingService(sandbox.url);
  await using crm = await standInFor({
    ...hubspot,
    record: JSON.stringify({ id: hubspot.recordId, properties, updatedAt: "2026-11-16T10:00:00Z" }),
  });
  const file = (name: string) => join(dir.path, name);
  await writeFile(file("mapping.yaml"), MAPPING);
  await writeFile(file("headers"), "x-api-key=a%20key");
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: service.url,
    SERVICE_TOKEN: sandbox.token,
    QUOTA_BURST: "100",
    RETRY_BASE_MS: "20",
    MAPPING: file("mapping.yaml"),
    HUBSPOT_API_URL: crm.url,
    HUBSPOT_TOKEN: "pat-1",
    HUBSPOT_WEBHOOK_SECRET: MARK,
    LOG_CRM_CODES: "1",
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS_FILE: file("headers"),
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=staging",
  };
  await using daemon = await startDaemon(env);

  await daemon.push([change(1)]);
  await ended(daemon, "created", 1);
  await daemon.push([change(1, { city: `${MARK} elsewhere` })]);
  await ended(daemon, "updated", 1);
  await sendHubspotWebhook(daemon);
  await ended(daemon, "created", 2);
  await daemon.push([change(2), change(3, { lastName: "" })]);
  await ended(daemon, "created", 3);
  await ended(daemon, "rejected", 1);
  service.quoteOnce();
  await daemon.push([change(4)]);
  await ended(daemon, "rejected", 2);

  // Other clients: traced, with unreadable metadata, with empty metadata, and with no valid event.
  const client = new Redis(env.REDIS_URL, { maxRetriesPerRequest: null });
  const queue = new Queue("crm-events", { connection: client, prefix: env.QUEUE_PREFIX });
  const traced = {
    traceparent: `00-${FOREIGN_TRACE}-b7ad6b7169203331-01`,
    tracestate: `v=${MARK}`,
    baggage: `user=${MARK}`,
  };
  await queue.add(MARK, change(5), { telemetry: { metadata: JSON.stringify(traced) } });
  await queue.add(MARK, change(6), { telemetry: { metadata: `{"${MARK}` } });
  await queue.add(MARK, change(7), { jobId: `${MARK}-7`, telemetry: { metadata: "null" } });
  await queue.add(MARK, { [MARK]: MARK }, { jobId: `${MARK}-8` });
  await ended(daemon, "created", 6);
  await ended(daemon, "rejected", 3);
  await fetch(`${daemon.url}/events?${MARK}`, { method: "POST", body: MARK });
  await waitUntilSettled(daemon);
  await stop(daemon);
  await queue.close();
  client.disconnect();

  const spans = collector.spans();
  const paths = spans.map((span) => pathTo(span, spans).join(" > "));
  const sync = "process crm-events > stage > process sync";
  for (const path of [
    "POST /events > add crm-events.event > process crm-events > map",
    "POST /events > add crm-events.event > process crm-events > stage",
    `POST /events > add crm-events.event > ${sync} > permit`,
    `POST /events > add crm-events.event > ${sync} > POST /business-relations`,
    `POST /events > add crm-events.event > ${sync} > PUT /business-relations/{crmCode}`,
    "POST /events > addBulk crm-events > process crm-events > stage",
    `process crm-events > add fetch.fetch > process fetch > add crm-events.event > ${sync} > POST /business-relations`,
    "process crm-events > add fetch.fetch > process fetch > GET",
    `${sync} > POST /business-relations`,
    "GET /business-relations",
    "GET /business-relations/schema-config",
  ]) {
    expect(
      paths.filter((one) => one.endsWith(path)),
      `${path} of\n${paths.toSorted().join("\n")}`,
    ).not.toEqual([]);
  }
  for (const span of spans) {
    const parent = spans.find(({ spanId }) => spanId === span.parentSpanId);
    expect(span.traceId).toBe(parent?.traceId ?? span.traceId);
    expect(span.end).toBeGreaterThanOrEqual(span.start);
    expect(span.events).toEqual([]);
  }
  const webhook = spans.find(({ name }) => name === "POST /webhooks/hubspot");
  expect(spans.filter(({ traceId }) => traceId === webhook?.traceId).length).toBeGreaterThan(8);
  expect(spans.filter(({ traceId }) => traceId === FOREIGN_TRACE).length).toBeGreaterThan(4);
  const runs = spans.filter(({ name }) => name === "process sync");
  expect(new Set(runs.map(({ attributes }) => attributes["crmsync.outcome"]))).toEqual(
    new Set(["created", "updated", "rejected"]),
  );
  expect(runs[0]?.attributes).toMatchObject({
    "crmsync.lane": "live",
    "crmsync.record": expect.stringMatching(/^[0-9a-f]{12}$/) as string,
  });
  expect(collector.resources()[0]).toMatchObject({
    "service.name": "crmsync",
    "service.version": expect.any(String) as string,
    "deployment.environment.name": "staging",
  });
  expect(collector.requests[0]).toMatchObject({
    headers: { "x-api-key": "a key" },
  });

  const sent = Buffer.concat(collector.requests.map(({ body }) => body)).toString("latin1");
  for (const secret of [MARK, sandbox.token, "pat-1", "512840017733", "pageSize"]) {
    expect(sent).not.toContain(secret);
  }
  const received = [...service.headers, ...crm.reads.map(({ headers }) => headers)];
  expect(received.length).toBeGreaterThan(8);
  expect(
    received.flatMap((one) => Object.keys(one)).filter((name) => !PLAIN_HEADERS.has(name)),
  ).toEqual([]);
});

/** A daemon with it names on stderr what it loads of OpenTelemetry. */
const HOOKS = `import { registerHooks } from "node:module";
  registerHooks({ load(url, context, next) {
    if (/@opentelemetry.(?!api.)|bullmq-otel|tracing-/.test(url)) process.stderr.write("loaded " + url + "\\n");
    return next(url, context);
  } });`;
const WATCHED = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(HOOKS)}` };

const loadedBy = ({ process }: DaemonProcess) =>
  process.stderr.filter((line) => line.startsWith("loaded "));

test("failed changes are failed spans, and lines and exemplars name the span they belong to", async () => {
  await using collector = await otlpReceiver();
  await using sandbox = await localSandbox();
  await using daemon = await startDaemon(
    envFor(sandbox, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      RETRY_BASE_MS: "20",
      // A change whose request may have been applied waits as long for its retry.
      SERVICE_TIMEOUT_MS: "3000",
      LOG_LEVEL: "info",
      OTEL_SERVICE_NAME: "crm-acme",
      ...WATCHED,
    }),
  );
  const fault = { fault: "error", status: 503, times: 1, method: "POST" };
  await fetch(`${sandbox.faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(fault),
  });
  await daemon.push([personEvent("a")]);
  await ended(daemon, "created", 1);
  await daemon.push([personEvent("b", { lastName: "" })]);
  await ended(daemon, "rejected", 1);

  const metrics = async (accept: string) => {
    const response = await fetch(`${daemon.url}/metrics`, { headers: { accept } });
    return { type: response.headers.get("content-type"), text: await response.text() };
  };
  const plain = await metrics("*/*");
  expect(plain.type).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(plain.text).not.toContain("trace_id");
  const open = await metrics("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
  expect(open.type).toBe("application/openmetrics-text; version=1.0.0; charset=utf-8");
  const exemplar =
    /^crmsync_change_freshness_seconds_bucket\{.*\} 1 # \{trace_id="(\w+)",span_id="(\w+)"\}/m;
  const [, traceId, spanId] = exemplar.exec(open.text) ?? [];
  await stop(daemon);

  const runs = collector.spans().filter(({ attributes }) => "crmsync.outcome" in attributes);
  const statusOf = (outcome: string) =>
    runs.find(({ attributes }) => attributes["crmsync.outcome"] === outcome)?.status;
  expect(statusOf("unavailable")).toEqual({ code: 2, message: "server_error" });
  expect(statusOf("rejected")).toEqual({ code: 2, message: "invalid" });
  expect(statusOf("created")).toEqual({ code: 0 });
  const created = runs.find(({ attributes }) => attributes["crmsync.outcome"] === "created");
  expect({ traceId, spanId }).toEqual({ traceId: created?.traceId, spanId: created?.spanId });
  const settled = daemon.process.stderr
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ event }) => event === "change.settled");
  expect(settled.map(({ outcome, trace_id, span_id }) => ({ outcome, trace_id, span_id }))).toEqual(
    ["created", "rejected"].map((outcome) => {
      const span = runs.find(({ attributes }) => attributes["crmsync.outcome"] === outcome);
      return { outcome, trace_id: span?.traceId, span_id: span?.spanId };
    }),
  );
  expect(collector.requests[0]).toMatchObject({
    path: "/v1/traces",
    headers: { "content-type": "application/json" },
  });
  expect(collector.resources()[0]).toMatchObject({ "service.name": "crm-acme" });
  // That nothing is loaded without an endpoint is no proof without it.
  expect(loadedBy(daemon).length).toBeGreaterThan(20);
});

test("a sampler of nothing exports nothing", async () => {
  await using collector = await otlpReceiver();
  await using sandbox = await localSandbox();
  const none = { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" };
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
  await using silent = await startDaemon(envFor(sandbox, { ...endpoint, ...none }));
  await silent.push([personEvent("b")]);
  await ended(silent, "created", 1);
  await stop(silent);
  expect(collector.requests).toEqual([]);
});

test("without an endpoint nothing of OpenTelemetry is loaded", async () => {
  await using sandbox = await localSandbox();
  const other = { OTEL_TRACES_SAMPLER: "some", OTEL_SERVICE_NAME: "other" };
  await using daemon = await startDaemon(envFor(sandbox, { ...WATCHED, ...other }));
  await daemon.push([personEvent("c")]);
  await waitUntilSettled(daemon);
  expect(loadedBy(daemon)).toEqual([]);
});

const another = (crmCode: string) => personEvent(crmCode, { city: String(Math.random()) });

test("a collector that is down, refuses or warns costs one log line each time, and no change", async () => {
  await using sandbox = await localSandbox();
  const down = await otlpReceiver({ port: await ownPort() });
  await down[Symbol.asyncDispose]();
  await using daemon = await startDaemon(
    envFor(sandbox, {
      OTEL_EXPORTER_OTLP_ENDPOINT: down.url,
      OTEL_EXPORTER_OTLP_TIMEOUT: "500",
      LOG_LEVEL: "info",
    }),
  );
  const told = () =>
    daemon.process.stderr
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ event }) => String(event).startsWith("tracing."))
      .map(({ event, why }) => [event, why]);
  // More spans than the SDK keeps: it drops the rest, and no change waits.
  await daemon.push(Array.from({ length: 700 }, (_, n) => personEvent("d", { city: `${n}` })));
  await daemon.process.line(/tracing\.unavailable/);
  await waitUntilSettled(daemon);
  const refused = ["tracing.unavailable", expect.stringContaining("ECONNREFUSED")];
  expect(told()).toEqual([refused]);

  let answer = (response: ServerResponse) => void response.writeHead(200).end();
  await using back = await otlpReceiver({
    port: Number(new URL(down.url).port),
    answer: (response) => answer(response),
  });
  const toldAfter = (count: number) =>
    waitFor(
      async () => {
        // What it leads to is exported after five seconds.
        await daemon.push([another("d")]);
        return told().length >= count;
      },
      { what: `${count} lines about tracing` },
    );
  await toldAfter(2);
  expect(back.spans().length).toBeGreaterThan(0);
  answer = (response) => void response.writeHead(404).end(`no ${MARK} here`);
  await toldAfter(3);
  const refusals = back.requests.length;
  await waitFor(
    async () => {
      await daemon.push([another("d")]);
      return back.requests.length > refusals;
    },
    { what: "one more refusal" },
  );
  expect(told()).toEqual([
    refused,
    ["tracing.recovered", undefined],
    ["tracing.unavailable", "HTTP 404"],
  ]);

  const partialSuccess = { rejectedSpans: 3, errorMessage: "too old\u001b[2J" };
  answer = (response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ partialSuccess }));
  };
  await toldAfter(5);
  const inPart = expect.stringMatching(/Partial Success.*3.*too old\\+u001b/) as string;
  expect(told().slice(3)).toEqual(
    expect.arrayContaining([
      ["tracing.recovered", undefined],
      ["tracing.warning", inPart],
    ]),
  );
  await waitUntilSettled(daemon);
  expect(told()).toHaveLength(5);
});

test("a collector that never answers does not keep the daemon from stopping", async () => {
  await using sandbox = await localSandbox();
  await using silent = await otlpReceiver({ silent: true });
  const env = envFor(sandbox, { OTEL_EXPORTER_OTLP_ENDPOINT: silent.url });
  await using stuck = await startDaemon(env);
  await stuck.push([personEvent("e")]);
  await ended(stuck, "created", 1);
  await stop(stuck);
  expect(silent.requests.length).toBeGreaterThan(0);
  expect(stuck.process.stderr.filter((line) => line.includes("daemon.stop_timed_out"))).toEqual([]);
});

test("each invalid variable is named, with its remedy", async () => {
  const env = {
    SERVICE_BASE_URL: "http://127.0.0.1:1",
    SERVICE_TOKEN: "t",
    OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318",
    OTEL_TRACES_SAMPLER: "some",
    OTEL_TRACES_SAMPLER_ARG: "2",
  };
  await using daemon = localCrmsync(["start"], { env });
  expect((await daemon.ended).code).toBe(78);
  const said = daemon.stderr.join("\n");
  expect(said).toContain("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https address");
  expect(said).toContain("OTEL_TRACES_SAMPLER must be one of always_on");
  expect(said).toContain("OTEL_TRACES_SAMPLER_ARG must be from 0 to 1");
});
