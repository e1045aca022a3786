import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue } from "bullmq";
import { expect, inject, it } from "vitest";
import { buildDashboard } from "../../deploy/grafana/dashboard.ts";
import { ROWS } from "../../deploy/grafana/panels.ts";
import { armFault } from "../support/arm-fault.ts";
import { startDaemon, type DaemonProcess } from "../support/crmsync.ts";
import { localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { spawnCommand } from "../support/process.ts";
import { lines, person, reconcile } from "../support/reconcile.ts";
import { tempDir } from "../support/temp-dir.ts";
import { requireTool } from "../support/requirements.ts";
import { uniquePrefix } from "../support/unique-prefix.ts";
import { waitFor } from "../support/wait-for.ts";

const PROMETHEUS = {
  commands: ["prometheus"],
  check: ["--version"],
  debianPackage: "prometheus",
};

interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [number, string];
}

interface BuiltPanel {
  readonly panels?: readonly BuiltPanel[];
  readonly targets?: readonly { readonly expr: string }[];
}

/** A separate Prometheus that scrapes these daemons each second. */
async function startPrometheus(command: string, dir: string, daemons: readonly DaemonProcess[]) {
  const config = join(dir, "prometheus.yml");
  const targets = daemons.map(({ url }) => new URL(url).host);
  await mkdir(join(dir, "data"));
  await writeFile(
    config,
    JSON.stringify({
      global: { scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" },
      rule_files: [join(import.meta.dirname, "../../deploy/prometheus/rules/*.yml")],
      scrape_configs: [{ job_name: "crmsync", static_configs: [{ targets }] }],
    }),
  );
  const flags = {
    "config.file": config,
    "storage.tsdb.path": join(dir, "data"),
    // It chooses its port: one that was free a moment ago may be taken.
    "web.listen-address": "127.0.0.1:0",
  };
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const prometheus = spawnCommand(command, args);
  const [, address = ""] = await prometheus.line(/"Listening on".* address=(\S+)/);
  const url = `http://${address}`;
  return {
    async query(expr: string): Promise<readonly Sample[]> {
      const body = new URLSearchParams({ query: resolved(expr) });
      const response = await fetch(`${url}/api/v1/query`, { method: "POST", body });
      const { status, data, error } = (await response.json()) as {
        status: string;
        error?: string;
        data: { result: Sample[] };
      };
      if (status !== "success") throw new Error(`${expr}: ${error}`);
      return data.result;
    },
    [Symbol.asyncDispose]: () => prometheus[Symbol.asyncDispose](),
  };
}

/** Empty where no CRM is pulled; test/e2e/pull.test.ts has their metrics. */
const OF_PULLS = new Set(["Changes found by pulling", "Since the last pull"]);

const resolved = (expr: string): string =>
  expr
    .replaceAll("$__rate_interval", "20s")
    .replaceAll("$__range", "1h")
    .replaceAll("$__interval", "15s")
    .replaceAll("$job", "crmsync")
    .replaceAll("$instance", ".*");

const valueOf = (samples: readonly Sample[], labels: Record<string, string> = {}): number => {
  const found = samples.find(({ metric }) =>
    Object.entries(labels).every(([label, value]) => metric[label] === value),
  );
  return found === undefined ? Number.NaN : Number(found.value[1]);
};

const panel = (title: string): string => {
  const found = ROWS.flatMap(({ panels }) => panels).find((one) => one.title === title);
  return found?.queries[0]?.expr ?? "";
};

/** The queries as Grafana sends them. */
const builtQueries = (): string[] => {
  const { panels } = buildDashboard() as { panels: BuiltPanel[] };
  const all = [...panels, ...panels.flatMap(({ panels: inner = [] }) => inner)];
  return all.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
};

const query = (legend: string): string => {
  const all = ROWS.flatMap(({ panels }) => panels).flatMap(({ queries }) => queries);
  return all.find((one) => one.legend === legend)?.expr ?? "";
};

it("shows data in every panel, and shows a denial, a paused queue and dead processes", async (context) => {
  const command = await requireTool(context, PROMETHEUS);
  await using dir = await tempDir();
  await using sandbox = await localSandbox();
  const env = {
    REDIS_URL: inject("redisUrl"),
    QUEUE_PREFIX: uniquePrefix(),
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
    SERVICE_TOKEN_ISSUED_AT: "2026-01-01",
    QUOTA_PER_HOUR: "500",
    QUOTA_BURST_MS: "200",
    QUOTA_LIVE_RESERVE: "0",
    RETRY_BASE_MS: "50",
  };
  const folder = join(dir.path, "exports");
  await mkdir(folder);
  const ownFolder = { RECONCILE_DIR: folder, DATA_DIR: join(dir.path, "first") };
  await using first = await startDaemon({ ...env, ...ownFolder });
  await using second = await startDaemon(env);
  await using prometheus = await startPrometheus(command, dir.path, [first, second]);
  await waitFor(async () => (await prometheus.query("up == 1")).length === 2, {
    what: "both are scraped",
  });
  const numbers = Array.from({ length: 60 }, (_, n) => n);
  await first.push(numbers.map((n) => personEvent(`live${n}`, { country: "nowhere" })));
  await second.push(numbers.map((n) => personEvent(`bulk${n}`, {}, { lane: "bulk" })));
  await second.push([personEvent("bad", { lastName: "" })]);
  await first.push(numbers.map((n) => personEvent(`live${n}`, { firstName: `again ${n}` })));

  const snapshot = join(dir.path, "crm.ndjson");
  await writeFile(snapshot, lines(numbers.map((n) => person(n))));
  const compared = await reconcile({ ...env, DATA_DIR: dir.path }, [snapshot, "--first-load"]);
  expect(compared.code, compared.err).toBe(0);
  await copyFile(snapshot, join(folder, "crm.ndjson"));
  await writeFile(join(folder, "crm.ndjson.done"), "");

  const empty = async () => {
    const missing: string[] = [];
    for (const { title, queries } of ROWS.flatMap(({ panels }) => panels)) {
      if (OF_PULLS.has(title)) continue;
      const samples = (await Promise.all(queries.map(({ expr }) => prometheus.query(expr)))).flat();
      const finite = samples.filter(({ value }) => Number.isFinite(Number(value[1])));
      if (finite.length === 0) missing.push(title);
    }
    return missing;
  };
  let odd = 0;
  const filled = async () => {
    // The first value of a new series is no increase.
    odd += 1;
    await first.push([personEvent(`odd${odd}`, { phoneNumber: "n/a" })]);
    return (await empty()).length === 0;
  };
  await waitFor(filled, { what: "data in every panel" }).catch(async (error: unknown) => {
    expect(await empty()).toEqual([]);
    throw error;
  });

  // A token of January is too old: that is what the first panel shows.
  const firing = (await prometheus.query(panel("Firing alerts"))).map(({ metric }) => metric);
  expect(firing.map(({ alertname }) => alertname)).toEqual(
    expect.arrayContaining(["CrmsyncTokenOld", "CrmsyncTokenOverdue"]),
  );
  for (const expr of builtQueries()) await prometheus.query(expr);

  // Two processes export the same shared state: no panel counts it twice.
  expect(valueOf(await prometheus.query(panel("Dead letters")))).toBe(1);
  await waitFor(async () => valueOf(await prometheus.query(panel("Waiting"))) === 0, {
    what: "nothing waits",
  });
  const left = valueOf(await prometheus.query(panel("Quota left")));
  expect(left).toBeCloseTo((await first.metric("crmsync_quota_remaining")) / 500, 1);
  // The last change may have been sent after the processes were scraped.
  const counted = async () => {
    const sums = await prometheus.query("sum by (outcome) (crmsync_changes_total)");
    const { "create 201": created } = await sandbox.requests();
    const isRejected = valueOf(sums, { outcome: "rejected" }) === 1;
    return isRejected && valueOf(sums, { outcome: "created" }) === created;
  };
  await waitFor(counted, { what: "the counts of the service" });

  // The service denies the token, to whoever asks first: the late change, or the comparison of the folder.
  await armFault(sandbox, { fault: "revoked" });
  await first.push([personEvent("late")]);
  await waitFor(async () => valueOf(await prometheus.query(panel("Access"))) === 1, {
    what: "the denial is shown",
  });
  const stops = await prometheus.query(panel("Stops"));
  expect(valueOf(stops, { reason: "token_denied" })).toBe(1);
  expect(valueOf(stops, { reason: "throttled" })).toBe(0);
  await waitFor(async () => valueOf(await prometheus.query(panel("Waiting"))) === 1, {
    what: "the late change waits",
  });
  await waitFor(async () => (await prometheus.query(panel("Drained at"))).length === 0, {
    what: "the time of the drained backlog is unknown",
  });

  // Somebody pauses a queue: an event in it is shown as waiting, although no record is staged.
  const inbox = new Queue("crm-events", {
    connection: { url: first.redisUrl },
    prefix: env.QUEUE_PREFIX,
  });
  await inbox.pause();
  await inbox.close();
  await first.push([personEvent("later")]);
  await waitFor(async () => valueOf(await prometheus.query(panel("Waiting"))) === 2, {
    what: "the event in the inbox is shown as waiting",
  });
  expect(valueOf(await prometheus.query(panel("Stops")), { reason: "queue_paused" })).toBe(1);

  // No process is left: the first row shows no numbers, and the dashboard shows the reason.
  for (const daemon of [first, second]) daemon.process.kill("SIGKILL");
  const healthRow = ROWS.find(({ title }) => title === "Is it healthy?");
  const shown = async () => {
    const all = (healthRow?.panels ?? []).filter(({ title }) => !title.endsWith("last 1 h"));
    const found = await Promise.all(all.map(({ title }) => prometheus.query(panel(title))));
    return all.filter((_, index) => (found[index] ?? []).length > 0).map(({ title }) => title);
  };
  await waitFor(async () => (await shown()).length === 0, {
    what: "no panel shows an unknown value",
  }).catch(async (error: unknown) => {
    expect(await shown()).toEqual([]);
    throw error;
  });
  expect(valueOf(await prometheus.query(query("no_process_answers")))).toBe(1);
});
