import { execFileSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { readConfig } from "../../../src/base/config.ts";
import { CONF_FILE } from "../../../src/base/redis-process.ts";
import { writeConf } from "../../../src/base/redis-conf.ts";
import { spawnCommand } from "../../support/process.ts";
import { tempDir } from "../../support/temp-dir.ts";

const root = join(import.meta.dirname, "../../..");
const text = (path: string): string => readFileSync(join(root, path), "utf8");

interface ComposeService {
  readonly image: string;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly read_only?: boolean;
  readonly user?: string;
  readonly networks?: readonly string[];
  readonly restart?: string;
  readonly entrypoint?: readonly string[];
  readonly ports?: readonly string[];
  readonly logging?: { readonly options: Readonly<Record<string, string>> };
  readonly mem_limit?: string;
  readonly pids_limit?: number;
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const compose = parse(text("docker-compose.yml"), { merge: true }) as {
  services: Record<string, ComposeService>;
  networks: Record<string, unknown>;
  volumes: Record<string, unknown>;
};

describe("docker-compose.yml", () => {
  it.for(Object.entries(compose.services))("%s is bounded, and on loopback only", ([, service]) => {
    expect(service.restart).toBe("unless-stopped");
    expect(service.logging?.options["max-size"]).toBeDefined();
    expect(service.mem_limit).toBeDefined();
    expect(service.pids_limit).toBeGreaterThan(0);
    expect(service.image).toMatch(/:[\w.-]+(?:@sha256:[0-9a-f]{64})?$/);
    expect(service.cap_drop).toEqual(["ALL"]);
    expect(service.security_opt).toEqual(["no-new-privileges:true"]);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    for (const volume of service.volumes ?? []) {
      const source = volume.split(":")[0] ?? "";
      if (source.startsWith(".//")) expect(existsSync(join(root, source)), source).toBe(true);
    }
  });

  it("declares each volume, and the daemon's DATA_DIR is one: its root cannot be written", () => {
    // Lines to be uncommented count, too.
    const mounted = [...text("docker-compose.yml").matchAll(/^ *(?:# )?- ([\w-]+):\/\w/gm)];
    const names = mounted.map(([, name = ""]) => name);
    expect(names).toContain("grafana-data");
    expect(Object.keys(compose.volumes)).toEqual(expect.arrayContaining(names));
    expect(compose.services["crmsync"]?.volumes).toContain("crmsync-data:/data");
    expect(text("Dockerfile")).toContain("DATA_DIR=/data");
  });

  it("lets only what uses Redis reach it, with a password", () => {
    const { services, networks } = compose;
    expect(networks).toEqual({ redis: { internal: true } });
    const named = Object.keys(services).filter((name) => services[name]?.networks !== undefined);
    expect(named.toSorted()).toEqual(["crmsync", "redis", "simulator"]);
    expect(services["redis"]?.networks).toEqual(["redis"]);
    expect(services["redis"]?.ports).toBeUndefined();
    const password = services["redis"]?.environment?.["REDISCLI_AUTH"] ?? "";
    for (const name of ["crmsync", "simulator"]) {
      const url = services[name]?.environment?.["REDIS_URL"];
      expect(url).toBe(`redis://:${password}@redis:6379`);
    }
    const writable = Object.keys(services).filter((name) => services[name]?.read_only !== true);
    expect(writable).toEqual(["grafana"]);
  });

  it("hands its two ways out of Alertmanager to the script that reads them", () => {
    const { alertmanager, prometheus } = compose.services;
    const script = text("deploy/alertmanager/start.sh");
    const variables = Object.keys(alertmanager?.environment ?? {});
    expect(variables).toEqual(["ALERT_TO", "ALERT_SMTP"]);
    for (const name of variables) expect(script).toContain(`\${${name}:-}`);
    const { alerting, global } = parse(text("deploy/prometheus/prometheus.yml")) as {
      alerting: { alertmanagers: unknown };
      global: { external_labels: Record<string, string> };
    };
    expect(alerting.alertmanagers).toEqual([
      { static_configs: [{ targets: ["alertmanager:9093"] }] },
    ]);
    const [name] = Object.keys(prometheus?.environment ?? {});
    expect(global.external_labels).toEqual({ runbook: `\${${name}}` });
  });

  it("names only variables that exist", () => {
    const env = compose.services["crmsync"]?.environment ?? {};
    const config = readConfig({});
    const known = new Set([
      ...Object.keys(config),
      ...Object.keys(config.secrets).map((name) => `${name}_FILE`),
      // These have no default, so an empty environment's configuration lacks them.
      ..."REDIS_URL SERVICE_BASE_URL SERVICE_TOKEN_ISSUED_AT HTTPS_PROXY NO_PROXY".split(" "),
      // Read by OpenTelemetry's own code.
      ..."OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES".split(" "),
    ]);
    for (const name of Object.keys(env)) expect(known).toContain(name);
  });
});

it("a container of Compose ends as the daemon does, and waits after 78 instead of trying for ever", async () => {
  await using dir = await tempDir();
  const crmsync = `#!/bin/sh\ntrap 'exit 4' TERM\n[ "$1" = start ] || exit "$1"\necho up\nwhile :; do sleep 0.1; done\n`;
  writeFileSync(join(dir.path, "crmsync"), crmsync, { mode: 0o755 });
  const env = { PATH: `${dir.path}:${process.env["PATH"] ?? ""}` };
  const script = join(root, "deploy/docker/start.sh");
  const run = (what: string) => spawnCommand("sh", [script, what], { env });
  await using failed = run("3");
  expect(await failed.ended).toMatchObject({ code: 3 });
  await using daemon = run("start");
  await daemon.line(/^up$/);
  daemon.kill("SIGTERM");
  expect(await daemon.ended).toMatchObject({ code: 4 });
  await using wrong = run("78");
  await wrong.line(/docker compose up/);
  const state = await Promise.race([wrong.ended, new Promise((resolve) => setImmediate(resolve))]);
  expect(state).toBeUndefined();
  wrong.kill("SIGTERM");
  expect(await wrong.ended).toMatchObject({ signal: "SIGTERM" });
  expect(compose.services["crmsync"]?.entrypoint).toEqual(["/bin/sh", "/app/start.sh"]);
  expect(text("Dockerfile")).toMatch(/^COPY .*deploy\/docker\/start.sh \.\/$/m);
});

it("the image says what it is, by the release's arguments", () => {
  const labels = [...text("Dockerfile").matchAll(/org\.opencontainers\.image\.(\w+)=(\S+)/g)];
  const named = new Map(labels.map(([, name, value]) => [name, value]));
  const { license } = JSON.parse(text("package.json")) as { license: string };
  expect(named.get("licenses")).toBe(license);
  for (const name of ["version", "revision", "source"]) {
    expect(named.get(name)).toBe(`$${name.toUpperCase()}`);
    expect(text(".github/workflows/release.yml")).toContain(`            ${name.toUpperCase()}=`);
  }
});

describe("deploy/systemd", () => {
  const unit = text("deploy/systemd/crmsync.service");
  const env = text("deploy/systemd/env.example");
  const setting = (name: string): string => new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1] ?? "";

  it("hears from the daemon, and starts a silent one anew without a core file of its data", () => {
    expect(setting("Type")).toBe("notify");
    expect(setting("NotifyAccess")).toBe("all");
    expect(Number(setting("WatchdogSec"))).toBeGreaterThan(0);
    expect(setting("WatchdogSignal")).toBe("SIGKILL");
    expect(setting("RestartPreventExitStatus")).toBe("78");
  });

  it("has a memory limit above the limit of the embedded Redis", async () => {
    await using dir = await tempDir();
    await writeConf(dir.path, { port: 1, password: "" });
    const conf = readFileSync(join(dir.path, CONF_FILE), "utf8");
    const redisBytes = Number(/^maxmemory (\d+)$/m.exec(conf)?.[1]);
    const [, gib] = /^(\d+)G$/.exec(setting("MemoryMax")) ?? [];
    expect(Number(gib) * 1024 ** 3).toBeGreaterThanOrEqual(1.5 * redisBytes);
  });

  it("has an example of settings that the daemon accepts, with every secret as a file", () => {
    const lines = env.split("\n").map((line) => /^(?:# )?([A-Z_]+)=(.*)$/.exec(line));
    const settings = lines.flatMap((line) =>
      line === null ? [] : [[line[1] ?? "", line[2] ?? ""]],
    );
    const plain = settings.filter(([name = ""]) => !name.endsWith("_FILE"));
    expect(() => readConfig(Object.fromEntries(plain) as Record<string, string>)).not.toThrow();
    const files = settings.flatMap(([name = ""]) => (name.endsWith("_FILE") ? [name] : []));
    const known = Object.keys(readConfig({}).secrets).map((name) => `${name}_FILE`);
    expect(known).toEqual(expect.arrayContaining(files));
    expect(files).toEqual(expect.arrayContaining(["SERVICE_TOKEN_FILE", "INGEST_TOKEN_FILE"]));
    expect(env).toMatch(/^INGEST_TOKEN_FILE=/m);
  });

  it("runs the documented commands as the daemon's user on the daemon's data", () => {
    const user = setting("User");
    const [, dataDir = ""] = /^Environment=DATA_DIR=(.*)$/m.exec(unit) ?? [];
    expect(dataDir).toBe(`/var/lib/${setting("StateDirectory")}`);
    const docs = text("docs/runbook.md") + text("docs/deploy.md");
    const commands = docs.match(/systemd-run .*/g) ?? [];
    expect(commands.length).toBeGreaterThanOrEqual(2);
    // To all processes of the unit, SIGUSR2 would end its redis-server.
    for (const command of docs.match(/systemctl kill [^`]*/g) ?? []) {
      expect(command).toContain("--kill-who=main ");
    }
    for (const command of commands) {
      expect(command).toContain(`-p User=${user} `);
      expect(command).toContain(`-p EnvironmentFile=${setting("EnvironmentFile")} `);
      expect(command).toContain(`-E DATA_DIR=${dataDir} `);
    }
  });
});

it("deploy/pin-images.sh writes the digest of every image, and a newer one over it", async () => {
  await using dir = await tempDir();
  const files = ["docker-compose.yml", "Dockerfile", "deploy/pin-images.sh"];
  mkdirSync(join(dir.path, "deploy"));
  for (const file of files) writeFileSync(join(dir.path, file), text(file));
  // Stands for docker, which answers with the digest of the image that it is asked for.
  const docker = `#!/bin/sh\nprintf 'sha256:%064d\\n' "$(printf %s "$4$RUN" | cksum | cut -d' ' -f1)"\n`;
  writeFileSync(join(dir.path, "docker"), docker, { mode: 0o755 });
  const pinned = (run: string) => {
    const env = { PATH: `${dir.path}:${process.env["PATH"] ?? ""}`, RUN: run };
    execFileSync("sh", [join(dir.path, "deploy/pin-images.sh")], { env });
    return ["docker-compose.yml", "Dockerfile"]
      .flatMap((file) => readFileSync(join(dir.path, file), "utf8").split("\n"))
      .filter((line) => /^(?: +image:|FROM) /.test(line))
      .filter((line) => !/crmsync:local|FROM scratch/.test(line));
  };
  const [first, second] = [pinned("1"), pinned("2")];
  expect(first).toHaveLength(7);
  for (const lines of [first, second]) {
    for (const line of lines) expect(line).toMatch(/^[^@]+:[\w.-]+@sha256:\d{64}(?: AS \w+)?$/);
  }
  expect(second).not.toEqual(first);
});

it("the image's build context holds only named files", () => {
  const ignored = text(".dockerignore")
    .split("\n")
    .filter((line) => line !== "" && line[0] !== "#");
  expect(ignored[0]).toBe("*");
  for (const line of ignored.slice(1))
    expect(existsSync(join(root, line.slice(1))), line).toBe(true);
});

it("the image has every page that messages and help texts name", () => {
  const named = globSync("{src,workers}/**/*.ts", { cwd: root }).flatMap((file) =>
    [...text(file).matchAll(/docs\/[\w-]+\.md/g)].map(([page]) => page),
  );
  expect(named).toContain("docs/operate.md");
  const copied = [...text("Dockerfile").matchAll(/^COPY (docs\S+) docs\/$/gm)].flatMap(
    ([, pages = ""]) => globSync(pages, { cwd: root }),
  );
  expect(copied).toEqual(expect.arrayContaining(named));
  expect(text(".dockerignore").split("\n")).toContain("!docs");
});

it("the image's build gets every file that the build script names", () => {
  const { scripts } = JSON.parse(text("package.json")) as { scripts: { build: string } };
  const named = [...scripts.build.matchAll(/(?:-p|\bnode) (\S+)/g)].map(([, file]) => file ?? "");
  expect(named).toContain("tsconfig.build.json");
  expect(named).toContain("deploy/copy-assets.ts");
  const copied = [...text("Dockerfile").matchAll(/^COPY (?!--from).*$/gm)].join("\n");
  for (const file of named) {
    expect(copied).toContain(file);
    expect(text(".dockerignore").split("\n")).toContain(`!${file}`);
  }
});

it("docs/deploy.md writes the token of Prometheus without a line end, which the operator would send", async () => {
  await using dir = await tempDir();
  mkdirSync(join(dir.path, "secrets"));
  const lines = text("docs/deploy.md").match(/^.*> secrets\/.*$/gm) ?? [];
  execFileSync("sh", ["-euc", lines.join("\n")], {
    cwd: dir.path,
    env: { ...process.env, TOKEN: "t" },
  });
  const token = readFileSync(join(dir.path, "secrets/viewer_token"), "utf8");
  expect(token).toMatch(/^[0-9a-f]{64}$/);
});

it("the image's health check takes an empty HTTP_PORT as the daemon does", () => {
  const answer = "globalThis.fetch = async (url) => { console.log(url); return { ok: true }; }";
  const args = ["--import", `data:text/javascript,${encodeURIComponent(answer)}`];
  const asked = (HTTP_PORT: string) =>
    execFileSync(process.execPath, [...args, join(root, "deploy/docker/health.mjs")], {
      env: { HTTP_PORT },
      encoding: "utf8",
    }).trim();
  expect(asked("")).toBe(`http://127.0.0.1:${readConfig({ HTTP_PORT: "" }).HTTP_PORT}/readyz`);
  expect(asked("9000")).toBe("http://127.0.0.1:9000/readyz");
});
