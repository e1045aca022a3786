/** What the daemon exports to a collector beside traces: the series of /metrics and the lines of the log. */
import { writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseSamples, type Sample } from "../../src/demo/daemon-metrics.ts";
import { hashOf } from "../../src/ops/log-names.ts";
import { startDaemon, waitUntilSettled, type DaemonProcess } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { otlpReceiver, type ReceivedPoint, type Signal } from "../support/otlp-receiver.ts";
import { ownRedis } from "../support/own-redis.ts";
import { personEvent } from "../support/person-event.ts";
import { tempDir } from "../support/temp-dir.ts";
import { envFor, envOn } from "../support/tenant-env.ts";
import { waitFor } from "../support/wait-for.ts";

/** Every personal value contains it. */
const MARK = "Xq7Leak";

/** Series that change while nothing happens. */
const RESTLESS = /^(?!crmsync_)|^crmsync_(?:redis_(?:ping|memory)|frozen|backlog_drained)_/;

const nameOf = ({ name, labels }: Omit<Sample, "value">) =>
  `${name} ${JSON.stringify(labels, Object.keys(labels).toSorted())}`;

const byName = (samples: readonly Sample[]) =>
  new Map(samples.map((one) => [nameOf(one), one.value]));

/** A point as Prometheus writes it. */
function samplesOf(point: ReceivedPoint): Sample[] {
  const { name, asDouble, bucketCounts, explicitBounds = [], count, sum } = point;
  const labels = point.attributes as Record<string, string>;
  if (bucketCounts === undefined) return [{ name, labels, value: asDouble ?? Number.NaN }];
  let below = 0;
  const buckets = bucketCounts.map((inBucket, at) => {
    below += inBucket;
    const le = String(explicitBounds[at] ?? "+Inf");
    return { name: `${name}_bucket`, labels: { ...labels, le }, value: below };
  });
  const total = { name: `${name}_count`, labels, value: count ?? Number.NaN };
  return [...buckets, { name: `${name}_sum`, labels, value: sum ?? Number.NaN }, total];
}

async function stop({ process }: DaemonProcess): Promise<void> {
  process.kill("SIGTERM");
  expect(await process.ended).toEqual({ code: 0, signal: null });
}

const linesOf = ({ process }: DaemonProcess) =>
  process.stderr.map((line) => JSON.parse(line) as Record<string, unknown>);

test("each series of /metrics and each line of the log arrives, with nothing added", async () => {
  await using collector = await otlpReceiver();
  await using sandbox = await localSandbox();
  await using redis = await ownRedis();
  await using daemon = await startDaemon(
    envOn(redis, sandbox, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_METRIC_EXPORT_INTERVAL: "1000",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=staging",
      LOG_CRM_CODES: "1",
      LOG_LEVEL: "info",
    }),
  );
  const started = Date.now();
  const person = (n: number, more = {}) =>
    personEvent(`${MARK}${n}`, { firstName: MARK, lastName: MARK, city: `${MARK} ${n}`, ...more });
  await daemon.push([person(1), person(2), person(3, { lastName: "" })]);
  await waitUntilSettled(daemon);
  // A Redis that is away takes the gauges of shared state with it, and nothing else.
  await redis.kill();
  await waitFor(
    () => collector.points().some((one) => one.name === "crmsync_redis_up" && one.asDouble === 0),
    { what: "an export that says that Redis is away" },
  );
  const whileAway = new Set(collector.points().map(({ name }) => name));
  expect(whileAway).toContain("crmsync_changes_total");
  expect(whileAway).not.toContain("crmsync_queue_jobs");
  await redis.start();
  await waitUntilSettled(daemon);

  const scraped = async () => parseSamples(await (await fetch(`${daemon.url}/metrics`)).text());
  const stable = (samples: readonly Sample[]) =>
    byName(samples.filter(({ name }) => !RESTLESS.test(name)));
  const exported = () => collector.points().flatMap(samplesOf);

  // At a quiet moment: what is exported between two scrapes that are equal.
  const [before, received] = await waitFor(
    async () => {
      const count = collector.of("metrics").length;
      const first = await scraped();
      await waitFor(() => collector.of("metrics").length > count + 1, { what: "two exports" });
      const points = exported();
      expect(stable(await scraped())).toEqual(stable(first));
      return [first, points] as const;
    },
    { what: "a quiet moment" },
  );
  // A collection of garbage may be the first of its kind.
  const namesOf = (samples: readonly Sample[]) =>
    samples
      .filter(({ name }) => !name.startsWith("nodejs_gc_"))
      .map(nameOf)
      .toSorted();
  expect(namesOf(received)).toEqual(namesOf(before));
  expect(stable(received)).toEqual(stable(before));
  expect(received.length).toBeGreaterThan(400);
  const value = (name: string, labels = {}) => byName(received).get(nameOf({ name, labels }));
  expect(value("crmsync_changes_total", { outcome: "created" })).toBe(2);
  expect(value("crmsync_change_freshness_seconds_count", { lane: "live" })).toBe(2);
  expect(value("crmsync_quota_limit")).toBe(100_000);

  const points = collector.points();
  const pointOf = (name: string) => points.find((point) => point.name === name);
  const cumulative = { aggregationTemporality: 2 };
  expect(pointOf("crmsync_changes_total")).toMatchObject({ ...cumulative, isMonotonic: true });
  expect(pointOf("crmsync_change_freshness_seconds")).toMatchObject({ ...cumulative, unit: "s" });
  expect(pointOf("crmsync_redis_memory_used_bytes")).toMatchObject({ type: "gauge", unit: "By" });
  expect(pointOf("crmsync_dead_letters")).toMatchObject({ type: "gauge", unit: "" });
  for (const { startTimeUnixNano, timeUnixNano } of points) {
    expect(Number(startTimeUnixNano) / 1e6).toBeGreaterThan(started - 60_000);
    expect(Number(startTimeUnixNano) / 1e6).toBeLessThanOrEqual(started);
    expect(Number(timeUnixNano) / 1e6).toBeGreaterThan(started);
  }

  await stop(daemon);

  // The last export came before Redis was let go.
  expect(collector.points()).toContainEqual(
    expect.objectContaining({ name: "crmsync_redis_up", asDouble: 1 }),
  );
  const lines = linesOf(daemon);
  const records = collector.logs().map((log) => ({
    time: new Date(Number(BigInt(log.timeUnixNano) / 1_000_000n)).toISOString(),
    level: log.severityText,
    msg: log.body,
    ...log.attributes,
    ...(log.traceId !== undefined && { trace_id: log.traceId, span_id: log.spanId }),
  }));
  expect(records).toEqual(
    lines.map(({ record, ...line }) =>
      record === undefined ? line : { ...line, record: hashOf(record as string) },
    ),
  );
  const events = lines.map(({ event }) => event);
  expect(events).toEqual(
    expect.arrayContaining(["daemon.starting", "change.settled", "daemon.stopping"]),
  );
  expect(lines.some(({ record }) => String(record).includes(MARK))).toBe(true);
  const severities = collector.logs().map((log) => [log.severityText, log.severityNumber]);
  expect(new Set(severities.map(String))).toEqual(new Set(["info,9", "warn,13"]));

  const sent = Buffer.concat(collector.requests.map(({ body }) => body)).toString();
  for (const secret of [MARK, sandbox.token]) expect(sent).not.toContain(secret);
  const resources = (["traces", "metrics", "logs"] as const).flatMap((one) =>
    collector.resources(one),
  );
  expect(resources[0]).toMatchObject({
    "service.name": "crmsync",
    "service.instance.id": expect.any(String) as string,
    "deployment.environment.name": "staging",
  });
  for (const resource of resources) expect(resource).toEqual(resources[0]);
});

test("each signal has its switch, address, protocol and headers, and the rest is flushed at the end", async () => {
  await using collector = await otlpReceiver();
  await using other = await otlpReceiver();
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const headers = join(dir.path, "headers");
  await writeFile(headers, "x-api-key=all,x-tenant=a%20b");
  const hooks = `import { registerHooks } from "node:module";
    registerHooks({ load(url, context, next) {
      if (/@opentelemetry.sdk-trace|bullmq-otel|tracing-/.test(url)) console.error("loaded " + url);
      return next(url, context);
    } });`;
  const env = envFor(sandbox, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS_FILE: headers,
    OTEL_TRACES_EXPORTER: "none",
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${other.url}/some/path`,
    OTEL_EXPORTER_OTLP_METRICS_HEADERS: "x-api-key=metrics",
    OTEL_EXPORTER_OTLP_LOGS_PROTOCOL: "http/json",
    OTEL_SERVICE_NAME: "crm-acme",
    LOG_LEVEL: "info",
    NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(hooks)}`,
  });
  await using daemon = await startDaemon(env);
  await daemon.push([personEvent("a")]);
  await waitUntilSettled(daemon);
  await stop(daemon);
  expect(collector.of("traces")).toEqual([]);
  expect(daemon.process.stderr.filter((line) => line.startsWith("loaded "))).toEqual([]);

  // The interval is a minute: this one came at the end.
  const [last, ...more] = other.requests;
  expect(more).toEqual([]);
  expect(last).toMatchObject({
    path: "/some/path",
    headers: {
      "content-type": "application/x-protobuf",
      "x-api-key": "metrics",
      "x-tenant": "a b",
    },
  });
  for (const word of ["crm-acme", "crmsync_build_info", "crmsync_change_freshness_seconds"]) {
    expect(last?.body.toString("latin1")).toContain(word);
  }
  expect(collector.of("logs")[0]?.headers).toMatchObject({
    "content-type": "application/json",
    "x-api-key": "all",
  });
  expect(collector.logs().map(({ attributes }) => attributes["event"])).toContain(
    "daemon.stopping",
  );
});

/** An ExportLogsServiceResponse: partial_success with rejected_log_records = 3 and error_message. */
function partialSuccess(message: string): Buffer {
  const text = Buffer.from(message);
  const inner = Buffer.from([0x08, 3, 0x12, text.length, ...text]);
  return Buffer.from([0x0a, inner.length, ...inner]);
}

test("what a collector refuses is told once, and never in the way of a change", async () => {
  const answers: Record<Signal, (response: ServerResponse) => void> = {
    traces: (response) => response.end(),
    metrics: (response) => response.writeHead(404).end(`no ${MARK} here`),
    logs: (response) => response.end(partialSuccess("too old\u001b[2J")),
  };
  await using collector = await otlpReceiver({
    answer: (response, signal) => answers[signal](response),
  });
  await using sandbox = await localSandbox();
  await using daemon = await startDaemon(
    envFor(sandbox, {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_METRIC_EXPORT_INTERVAL: "1000",
      LOG_LEVEL: "info",
    }),
  );
  const told = () =>
    linesOf(daemon)
      .filter(({ event }) => /^(?:metrics|logs|telemetry)\./.test(String(event)))
      .map(({ event, why }) => [String(event), why] as const)
      .toSorted(([a], [b]) => a.localeCompare(b));
  const more = async (signal: Signal, count: number) => {
    const before = collector.of(signal).length;
    await waitFor(
      async () => {
        await daemon.push([personEvent("a", { city: String(Math.random()) })]);
        return collector.of(signal).length >= before + count;
      },
      { what: `${count} exports of ${signal}` },
    );
  };
  const since = (earlier: ReturnType<typeof told>) =>
    told().filter((one) => !earlier.some((before) => String(before) === String(one)));

  await Promise.all([more("metrics", 3), more("logs", 2)]);
  const first = told();
  expect(first).toEqual([
    ["metrics.unavailable", "HTTP 404"],
    [
      "telemetry.warning",
      expect.stringMatching(/Partial Success.*"rejectedLogRecords":"?3.*too old\\u001b/) as string,
    ],
  ]);

  answers.metrics = (response) => response.end("<html>");
  answers.logs = (response) => response.end(Buffer.alloc(5_000_000));
  await Promise.all([more("metrics", 2), more("logs", 2)]);
  const second = told();
  expect(second).toHaveLength(5);
  expect(since(first)).toEqual([
    ["logs.unavailable", "no usable response"],
    ["metrics.recovered", undefined],
    ["telemetry.warning", expect.stringContaining("could not deserialize response") as string],
  ]);

  answers.metrics = (response) => response.writeHead(429, { "retry-after": "3600" }).end();
  answers.logs = (response) => response.end();
  await waitFor(() => told().length > 6, { what: "the two next lines" });
  await Promise.all([more("metrics", 1), more("logs", 1)]);
  expect(told()).toHaveLength(7);
  expect(since(second)).toEqual([
    ["logs.recovered", undefined],
    ["metrics.unavailable", "HTTP 429, 502, 503 or 504"],
  ]);
  await waitUntilSettled(daemon);
  expect(await daemon.metric("crmsync_changes_total", { outcome: "created" })).toBe(1);
});
