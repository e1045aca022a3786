/** Checks the commands that README and docs show against what exists. */
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { CommanderError, type Command } from "commander";
import { parse } from "yaml";
import { createProgram } from "../../src/cli/program.ts";
import { ROOT } from "./doc-blocks.ts";

const SCRIPTS = (
  JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  }
).scripts;

const COMPOSE = parse(readFileSync(join(ROOT, "docker-compose.yml"), "utf8"), { merge: true }) as {
  services: Record<string, { profiles?: string[] }>;
};

/** Tools that the pages use as every machine has them; the tests that run blocks find mistakes in them. */
const COMMON =
  `awk base64 cat chown cp curl cut editor grep head install jq ln mkdir mv openssl redis-cli rm
  sed sha256sum sleep sudo systemctl tail tar tr useradd xargs`.split(/\s+/);

type Check = (args: readonly string[]) => Promise<void> | void;

const CHECKS: Readonly<Record<string, Check>> = {
  crmsync: checkCrmsync,
  npm: checkNpm,
  npx: checkNpx,
  node: ([file = ""]) => mustExist(file),
  docker: checkDocker,
  kubectl: checkKubectl,
  "systemd-run": (args) => checkInner(args),
};

/** @throws when a tool, command, option, script or file of it does not exist. */
export async function checkCommand([tool = "", ...args]: readonly string[]): Promise<void> {
  if (COMMON.includes(tool)) return;
  const check = CHECKS[tool];
  if (check === undefined) throw new Error(`unknown tool: ${tool}`);
  await check(args);
}

/** Parses the arguments as crmsync does, and runs nothing. */
async function checkCrmsync(args: readonly string[]): Promise<void> {
  const program = await createProgram();
  let said = "";
  const prepare = (command: Command): void => {
    command
      .exitOverride()
      .configureOutput({ writeErr: (text) => void (said += text), writeOut() {} });
    if (command.commands.length === 0 || command.name() === "sandbox") command.action(() => {});
    command.commands.forEach(prepare);
  };
  prepare(program);
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return;
    throw new Error(`crmsync ${args.join(" ")}: ${said || String(error)}`, { cause: error });
  }
}

/** A command in a sentence: its name and its options exist; what stands for a value may be anything. */
export async function checkMention(words: readonly string[]): Promise<void> {
  let command = await createProgram();
  for (const word of words) {
    if (command.commands.length === 0 || word.startsWith("-")) break;
    const next = command.commands.find((each) => each.name() === word);
    if (next === undefined) throw new Error(`${command.name()} has no command ${word}`);
    command = next;
  }
  const known = new Set(["--help", ...command.options.map(({ long }) => long)]);
  for (const [option] of words.join(" ").matchAll(/--[a-z-]+/g)) {
    if (!known.has(option)) throw new Error(`crmsync ${words.join(" ")}: no option ${option}`);
  }
}

/** `docker compose exec crmsync crmsync doctor` and the like. */
async function checkInner(args: readonly string[]): Promise<void> {
  const at = args.lastIndexOf("crmsync");
  if (at >= 0 && at < args.length - 1) await checkCrmsync(args.slice(at + 1));
}

async function checkNpm(args: readonly string[]): Promise<void> {
  const [command = "", ...rest] = args.filter((arg, n) => arg !== "-s" || n > 1);
  if (["ci", "install", "uninstall", "pack"].includes(command)) return;
  const wanted = rest[0] === "-s" ? rest.slice(1) : rest;
  const [name = "", ...after] = command === "run" ? wanted : args;
  const script = SCRIPTS[name];
  if (script === undefined) throw new Error(`package.json has no script ${name}`);
  const [, own] = /^node src\/cli\/main\.ts ?(.*)$/.exec(script) ?? [];
  if (own === undefined) return;
  const given = after[0] === "--" ? after.slice(1) : after;
  await checkCrmsync([...own.split(" ").filter(Boolean), ...given]);
}

function checkNpx([tool, command, ...args]: readonly string[]): void {
  if (tool !== "vitest" || command !== "run") throw new Error(`unknown tool: npx ${tool}`);
  const at = args.indexOf("--project");
  const project = at === -1 ? [] : [`test/${args[at + 1]}`];
  const paths = args.filter((arg) => arg.startsWith("test/"));
  [...project, ...paths].forEach(mustExist);
}

async function checkDocker([command, ...args]: readonly string[]): Promise<void> {
  if (command === "build") return;
  if (command !== "compose") throw new Error(`unknown: docker ${command}`);
  const profile = args.indexOf("--profile");
  const profiles = Object.values(COMPOSE.services).flatMap((service) => service.profiles ?? []);
  if (profile >= 0) mustBeOneOf(profiles, args[profile + 1]);
  const exec = args.indexOf("exec");
  if (exec < 0) return;
  mustBeOneOf(Object.keys(COMPOSE.services), args[exec + 1]);
  await checkInner(args.slice(exec + 2));
}

async function checkKubectl(args: readonly string[]): Promise<void> {
  const manifests = globSync("deploy/kubernetes/*.yaml", { cwd: ROOT }).map((file) =>
    readFileSync(join(ROOT, file), "utf8"),
  );
  for (const [index, arg] of args.entries()) {
    const file = args[index + 1];
    if ((arg === "-k" || arg === "-f") && file !== "-") mustExist(file ?? "");
    const [, deployment] = /^deploy\/([\w-]+)$/.exec(arg) ?? [];
    const isThere = manifests.some((text) => new RegExp(`name: ${deployment}$`, "m").test(text));
    if (deployment !== undefined && args[index - 1] !== "-k" && !isThere) {
      throw new Error(`no deployment ${deployment}`);
    }
  }
  if (args.includes("--")) await checkInner(args);
}

function mustExist(path: string): void {
  if (!existsSync(join(ROOT, path))) throw new Error(`${path} does not exist`);
}

function mustBeOneOf(known: readonly string[], name = ""): void {
  if (!known.includes(name)) throw new Error(`${name} is none of ${known.join(", ")}`);
}

const SOURCES = globSync(
  ["src/base/config.ts", "test/{chaos,integration,conformance}/**/*.ts", "docker-compose.yml"],
  { cwd: ROOT },
).map((file) => readFileSync(join(ROOT, file), "utf8"));

/** @throws when a variable that the block sets is read nowhere. */
export function checkVariables(text: string): void {
  for (const [, name = ""] of text.matchAll(/(?<=^|\s)([A-Z][A-Z_]{3,})=/gm)) {
    const plain = name.replace(/_FILE$/, "");
    if (!SOURCES.some((source) => new RegExp(`\\b${plain}\\b`).test(source))) {
      throw new Error(`nothing reads the variable ${name}`);
    }
  }
}
