/**
 * A folder that stands for a machine, on which the commands of the pages run with the real programs.
 * The paths and ports that the pages name are its own; its `systemctl` starts and stops what the test
 * gives it.
 */
import { chmod, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { parseEnv } from "node:util";
import { ROOT } from "./doc-blocks.ts";
import { localCrmsync } from "./local-command.ts";
import { ownPort } from "./own-port.ts";
import { isolatedEnv, spawnCommand, type TestProcess } from "./process.ts";
import { tempDir } from "./temp-dir.ts";

/** What `systemctl start <name>` starts. @param env of `/etc/crmsync/env` */
export type Services = Readonly<Record<string, (env: Env) => Promise<AsyncDisposable>>>;

export interface Machine extends AsyncDisposable {
  /** Where the commands run. */
  readonly home: string;
  /** The port that stands for one that a page names. */
  readonly portFor: (port: number) => number;
  /** The path that stands for one that a page names. */
  readonly at: (path: string) => string;
  readEnv(): Promise<Env>;
  writeEnv(env: Env): Promise<void>;
  systemctl(verb: string, service: string): Promise<void>;
  /** Starts the commands of a block, which may run on. */
  start(text: string, env?: Env): TestProcess;
  /** @throws when a command fails. @returns what they print on stdout. */
  run(text: string, env?: Env): Promise<string>;
}

type Env = Readonly<Record<string, string>>;

/** Commands that run longer are ended, with all their children; the exit code is then 124. */
const BLOCK_LIMIT_S = 60;
const DAEMON_LIMIT_S = 280;

const ENV_FILE = "/etc/crmsync/env";
const PORTS = [8080, 4010];

/** @param isLocal its `crmsync` runs in the test's process: it reads no stdin, and any failure is exit code 22. */
export async function createMachine(
  services: Services = {},
  { isLocal = false } = {},
): Promise<Machine> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await tempDir());
  const at = (named: string) => join(path, named);
  await furnish(at);
  const ports = new Map<number, number>();
  for (const port of PORTS) ports.set(port, await ownPort());
  const readEnv = async () => parseEnv(await readFile(at(ENV_FILE), "utf8")) as Env;
  const supervisor = stack.use(supervise(services, readEnv));
  const control = stack.use(
    await serveControl(async (first, second, body) => {
      if (first !== "crmsync") return supervisor.systemctl(first, second).then(() => "");
      const [count, ...rest] = body.split("\0");
      const args = rest.slice(0, Number(count));
      const variables = rest.slice(args.length).map((text) => text.split(/=(.*)/s, 2));
      return runLocally(args, Object.fromEntries(variables) as Env, at("home"));
    }),
  );
  await writePrograms(at("bin"), { envFile: at(ENV_FILE), controlUrl: control.url, isLocal });

  const translate = (text: string) =>
    [...ports]
      .reduce((all, [port, own]) => all.replaceAll(`127.0.0.1:${port}`, `127.0.0.1:${own}`), text)
      .replaceAll(/(?<=^|[\s"'=])(?=\/(?:etc|var)\/)/gm, path);
  const search = [at("bin"), dirname(process.execPath), isolatedEnv()["PATH"]].join(":");
  // `timeout` hands signals on to everything that the shell has started.
  const start = (text: string, env: Env, seconds: number) =>
    spawnCommand(
      "timeout",
      ["--kill-after=5", `${seconds}`, "bash", "--norc", "-euo", "pipefail", "-c", translate(text)],
      { cwd: at("home"), env: { ...env, PATH: search } },
    );
  const owned = stack.move();
  return {
    home: at("home"),
    portFor: (port) => ports.get(port) ?? port,
    at,
    readEnv,
    writeEnv: (env) => writeFile(at(ENV_FILE), textOfEnv(env)),
    systemctl: supervisor.systemctl,
    start: (text, env = {}) => start(text, env, DAEMON_LIMIT_S),
    async run(text, env = {}) {
      await using bash = start(text, env, BLOCK_LIMIT_S);
      const { code } = await bash.ended;
      if (code === 0) return bash.stdout.join("\n");
      const how = code === 124 ? "does not end:" : `exit code ${code}:`;
      throw new Error([how, text, ...bash.stdout, ...bash.stderr].join("\n"));
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function furnish(at: (path: string) => string): Promise<void> {
  for (const dir of ["home", "bin", "etc/crmsync", "var/lib/crmsync"]) {
    await mkdir(at(dir), { recursive: true });
  }
  await writeFile(at(ENV_FILE), "");
  await writeFile(at("home/changes.ndjson"), await pastChanges());
  for (const dir of ["examples", "mappings"]) await symlink(join(ROOT, dir), at(`home/${dir}`));
}

const TIMES = ["2026-01-12T08:00:00Z", "2026-01-12T08:00:01Z", "2026-01-12T08:05:00Z"];

/** An operator's file: the example without its bad record, and with times. */
async function pastChanges(): Promise<string> {
  const lines = (await readFile(join(ROOT, "examples/changes.ndjson"), "utf8")).trim().split("\n");
  return lines
    .slice(0, 3)
    .map((line, n) => JSON.stringify({ ...JSON.parse(line), time: TIMES[n] }))
    .join("\n");
}

const textOfEnv = (env: Env): string =>
  Object.entries(env)
    .map(([name, value]) => `${name}=${value}\n`)
    .join("");

/** What stands for systemd. */
function supervise(services: Services, readEnv: () => Promise<Env>) {
  const running = new Map<string, AsyncDisposable>();
  return {
    async systemctl(this: void, verb: string, name: string): Promise<void> {
      const start = services[name];
      if (!["start", "stop", "restart"].includes(verb) || start === undefined) {
        throw new Error(`no systemctl ${verb} ${name}`);
      }
      if (verb !== "start") {
        await running.get(name)?.[Symbol.asyncDispose]();
        running.delete(name);
      }
      if (verb !== "stop") running.set(name, await start(await readEnv()));
    },
    async [Symbol.asyncDispose]() {
      for (const service of running.values()) await service[Symbol.asyncDispose]();
    },
  };
}

/** The commands as an operator has them: crmsync with the daemon's variables, a curl that fails on errors. */
async function writePrograms(
  dir: string,
  given: { readonly envFile: string; readonly controlUrl: string; readonly isLocal: boolean },
): Promise<void> {
  const { envFile, controlUrl, isLocal } = given;
  const crmsync = `"${process.execPath}" "${join(ROOT, "src/cli/main.ts")}"`;
  const programs = {
    crmsync: isLocal
      ? `set -a; . "${envFile}"; { printf '%s\\0' "$#" "$@"; env -0; } | PATH="\${PATH#*:}" curl --fail-with-body -sS --data-binary @- "${controlUrl}/crmsync"`
      : `set -a; . "${envFile}"; exec ${crmsync} "$@"`,
    // As the scripts of package.json, here without a checkout.
    npm: `
script="$1"; shift
if [ "$script" = run ]; then script="$1"; shift; fi
if [ "$script" = -s ]; then script="$1"; shift; fi
if [ "\${1-}" = -- ]; then shift; fi
case "$script" in
  start) exec ${crmsync} start "$@" ;;
  crmsync) exec ${crmsync} "$@" ;;
  *) exit 2 ;;
esac`,
    curl: `PATH="\${PATH#*:}" exec curl --fail-with-body -sS --retry 30 --retry-delay 1 --retry-all-errors "$@"`,
    systemctl: `PATH="\${PATH#*:}" exec curl --fail-with-body -sS "${controlUrl}/$1/$2"`,
  };
  for (const [name, text] of Object.entries(programs)) {
    await writeFile(join(dir, name), `#!/bin/bash\n${text}\n`);
    await chmod(join(dir, name), 0o755);
  }
}

async function runLocally(args: readonly string[], env: Env, cwd: string): Promise<string> {
  await using command = localCrmsync(args, { env, cwd });
  const { code } = await command.ended;
  const out = command.stdout.map((line) => `${line}\n`).join("");
  if (code !== 0) throw new Error([`exit code ${code}`, out, ...command.stderr].join("\n"));
  return out;
}

/** @param act gets the two parts of the path and the body. @returns what is printed */
async function serveControl(act: (first: string, second: string, body: string) => Promise<string>) {
  const server = createServer((request, response) => {
    const [, first = "", second = ""] = (request.url ?? "").split("/");
    text(request)
      .then((body) => act(first, second, body))
      .then(
        (printed) => response.end(printed),
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}
