/** The compose file's way of an alert: rules, Prometheus, Alertmanager, and what is sent in the end. */
import { symlink, writeFile } from "node:fs/promises";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { describe, expect, it, type TestContext } from "vitest";
import { parse } from "yaml";
import { spawnCommand, type TestProcess } from "../../support/process.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { waitFor } from "../../support/wait-for.ts";

const run = promisify(execFile);
const deploy = join(import.meta.dirname, "../../../deploy");
const PROMETHEUS = { commands: ["prometheus"], check: ["--version"], debianPackage: "prometheus" };
const ALERTMANAGER = {
  commands: ["alertmanager", "prometheus-alertmanager"],
  check: ["--version"],
  debianPackage: "prometheus-alertmanager",
};

/** deploy/alertmanager/start.sh with a program in the place of Alertmanager. */
async function startScript(
  program: string,
  dir: string,
  env: Record<string, string>,
  args: string[] = [],
): Promise<TestProcess> {
  await symlink(program, join(dir, "alertmanager"));
  const PATH = `${dir}${delimiter}${process.env["PATH"] ?? ""}`;
  const script = join(deploy, "alertmanager/start.sh");
  return spawnCommand("sh", [script, ...args], { env: { PATH, TMPDIR: dir, ...env } });
}

/** The path of a command that `requireTool` has found. */
const pathOf = async (command: string): Promise<string> =>
  (await run("sh", ["-c", `command -v ${command}`])).stdout.trim();

describe("the configuration of Alertmanager", () => {
  const mail = { ALERT_TO: "mailto:a@example.com,b@example.com" };
  const valid: [name: string, env: Record<string, string>, expected: object][] = [
    ["nowhere", {}, {}],
    [
      "to a webhook",
      { ALERT_TO: "https://hooks.example.com/x?y='z'" },
      { webhook_configs: [{ url: "https://hooks.example.com/x?y='z'", send_resolved: true }] },
    ],
    [
      "to Slack",
      { ALERT_TO: "slack:https://hooks.slack.com/services/T/B/x" },
      {
        slack_configs: [
          expect.objectContaining({ api_url: "https://hooks.slack.com/services/T/B/x" }),
        ],
      },
    ],
    [
      "by mail, with a password",
      { ...mail, ALERT_SMTP: "smtps://crmsync@example.com:a:b'c@d@mail.example.com" },
      {
        email_configs: [
          {
            to: "a@example.com,b@example.com",
            from: "crmsync@example.com",
            smarthost: "mail.example.com:587",
            auth_username: "crmsync@example.com",
            auth_password: "a:b'c@d",
            require_tls: true,
            send_resolved: true,
          },
        ],
      },
    ],
    [
      "by mail, within a network",
      { ...mail, ALERT_SMTP: "smtp://relay:2525" },
      {
        email_configs: [
          expect.objectContaining({
            from: "a@example.com",
            smarthost: "relay:2525",
            auth_username: "",
            require_tls: false,
          }),
        ],
      },
    ],
  ];

  it.for(valid)("%s", async ([, env, expected], context) => {
    await requireTool(context, ALERTMANAGER);
    await using dir = await tempDir();
    const script = await startScript("/bin/true", dir.path, env);
    expect(await script.ended).toEqual({ code: 0, signal: null });
    const file = join(dir.path, "alertmanager.yml");
    await run("amtool", ["check-config", file]);
    const { receivers } = parse(readFileSync(file, "utf8")) as { receivers: object[] };
    expect(receivers).toEqual([{ name: "crmsync", ...expected }]);
  });

  it.for([
    ["hooks.example.com", "", "ALERT_TO must begin with"],
    ["mailto:", "smtp://relay", "ALERT_TO must begin with"],
    ["mailto:a@example.com", "relay:25", "needs ALERT_SMTP"],
    ["https://hooks.example.com\nroute:", "", "one line each"],
  ] as const)("%j with %j is refused", async ([ALERT_TO, ALERT_SMTP, message]) => {
    await using dir = await tempDir();
    const script = await startScript("/bin/true", dir.path, { ALERT_TO, ALERT_SMTP });
    expect(await script.ended).toEqual({ code: 78, signal: null });
    expect(script.stderr.join("\n")).toContain(message);
  });
});

/** What a process exports after an unexplained 429: its alert fires without delay. */
const METRICS = `crmsync_build_info{version="1"} 1
crmsync_quota_pacing{mode="fallback"} 1
`;

/** Chosen by the program that listens: one that was free a moment ago may be taken. */
const ANY_PORT = "127.0.0.1:0";

async function listen(server: Server): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

interface Notification {
  readonly status: string;
  readonly alerts: readonly {
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
  }[];
}

/** deploy/prometheus/prometheus.yml with other addresses and no pauses. */
function prometheusConfig(target: string, alertmanager: string): object {
  const file = readFileSync(join(deploy, "prometheus/prometheus.yml"), "utf8");
  const config = parse(file) as {
    global: object;
    alerting: object;
    scrape_configs: { job_name: string }[];
  };
  const [scrape] = config.scrape_configs;
  return {
    ...config,
    global: { ...config.global, scrape_interval: "1s", evaluation_interval: "1s" },
    rule_files: [join(deploy, "prometheus/rules/*.yml")],
    alerting: {
      ...config.alerting,
      alertmanagers: [{ static_configs: [{ targets: [alertmanager] }] }],
    },
    scrape_configs: [{ job_name: scrape?.job_name, static_configs: [{ targets: [target] }] }],
  };
}

async function startPrometheus(command: string, dir: string, config: object): Promise<TestProcess> {
  const file = join(dir, "prometheus.yml");
  await writeFile(file, JSON.stringify(config));
  const flags = {
    "config.file": file,
    "storage.tsdb.path": join(dir, "data"),
    "web.listen-address": ANY_PORT,
    "enable-feature": "expand-external-labels",
  };
  const args = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  return spawnCommand(command, args, { env: { RUNBOOK_URL: "https://wiki.example.com/crmsync" } });
}

async function startAlertmanager(context: TestContext, dir: string, to: string) {
  const program = await pathOf(await requireTool(context, ALERTMANAGER));
  const process = await startScript(program, dir, { ALERT_TO: to }, [
    `--storage.path=${join(dir, "alerts")}`,
    "--cluster.listen-address=",
    `--web.listen-address=${ANY_PORT}`,
  ]);
  const [, address = ""] = await process.line(/"Listening on".* address=(\S+)/);
  return { process, address };
}

it("an alert that fires arrives at the webhook, with an absolute link to the runbook", async (context) => {
  const received: Notification[] = [];
  const webhook = createServer((request, response) => {
    void text(request).then((body) => {
      received.push(JSON.parse(body) as Notification);
      response.end();
    });
  });
  const daemon = createServer((_request, response) => response.end(METRICS));
  await using stack = new AsyncDisposableStack();
  for (const server of [webhook, daemon]) stack.defer(() => void server.close());
  const dir = stack.use(await tempDir());
  const to = `http://${await listen(webhook)}/alerts`;
  const alertmanager = await startAlertmanager(context, dir.path, to);
  stack.use(alertmanager.process);
  const config = prometheusConfig(await listen(daemon), alertmanager.address);
  stack.use(await startPrometheus(await requireTool(context, PROMETHEUS), dir.path, config));

  const [alert] = await waitFor(() => received[0]?.alerts, { what: "the webhook is called" });
  expect(received[0]?.status).toBe("firing");
  expect(alert?.labels).toEqual({
    alertname: "CrmsyncPacingSteady",
    job: "crmsync",
    severity: "warning",
  });
  expect(alert?.annotations["runbook_url"]).toBe(
    "https://wiki.example.com/crmsync#crmsyncpacingsteady",
  );
});
