/** `crmsync init`: a folder with the variables and secrets that a daemon needs. */
import { relative, resolve, join } from "node:path";
import { Command } from "commander";
import { examineConfig } from "../base/config.ts";
import { WITHOUT_WEBHOOKS } from "../intake/crm/connectors.ts";
import { mappingFileOf, presetNames } from "../intake/mapping/load-mapping.ts";
import { MappingError } from "../intake/mapping/mapping.ts";
import { printEither } from "./output.ts";
import { isPrintable } from "../base/printable.ts";
import { crmsync, shell, shellWord } from "../base/command.ts";
import { mappingTemplate, writeNew } from "./mapping.ts";
import { WrongUsage } from "./arguments.ts";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { UserError } from "../base/user-error.ts";

interface InitOptions {
  readonly service?: string;
  readonly mapping?: string;
  readonly json?: true;
}

export function initCommand(): Command {
  return new Command("init")
    .description("write the variables and make the secrets of a new installation, in one folder")
    .argument("[folder]", "the folder", "crmsync")
    .option("--service <url>", "the address of the service, without /v1.1")
    .option("--mapping <mapping>", "a mapping file to use, or a preset to write one from")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
Secrets and files that are there already stay as they are.`,
    )
    .action(init);
}

function init(folder: string, { service, mapping, json }: InitOptions): void {
  const isPreset = mapping !== undefined && presetNames().includes(mapping);
  const own = mapping === undefined || isPreset ? undefined : ownMapping(mapping);
  const inFolder = pathsOf(resolve(folder));
  const paths = own === undefined ? inFolder : { ...inFolder, mapping: own };
  // A shell and systemd would read them differently.
  const unquotable = [paths.folder, paths.mapping].find(
    (path) => path.includes("'") || !isPrintable(path),
  );
  if (unquotable !== undefined) {
    throw new WrongUsage(
      `the path ${unquotable} has a quote or a control character: choose another one`,
    );
  }
  const made = makeFolder(paths, {
    ...(service !== undefined && { service: addressOf(service) }),
    hasMapping: mapping !== undefined,
    pullFrom: WITHOUT_WEBHOOKS.find(({ name }) => name === mapping),
    ...(isPreset && { mapping: mappingTemplate(mapping) }),
  });
  const next = nextSteps(paths, service, mapping);
  const lines = [...describe(paths, made), "", "Next:", ...next.map((step) => `  ${step}`)];
  printEither(json, { folder: paths.folder, ...made, next }, lines.join("\n"));
}

/** A mapping file stays where it is. @throws WrongUsage when it is not there. */
function ownMapping(name: string): string {
  try {
    return mappingFileOf(name);
  } catch (error) {
    if (!(error instanceof MappingError)) throw error;
    throw new WrongUsage(`--mapping ${name}: ${error.problems.join("; ")}`);
  }
}

/** @throws WrongUsage when the daemon would refuse it. */
function addressOf(service: string): string {
  const { config, problems } = examineConfig({ SERVICE_BASE_URL: service }, []);
  const [problem] = problems;
  if (problem !== undefined) throw new WrongUsage(problem.replace("SERVICE_BASE_URL", "--service"));
  return config.SERVICE_BASE_URL?.replaceAll("'", "%27") ?? "";
}

function describe(paths: FolderPaths, { written, kept }: Made): string[] {
  const purposes: Readonly<Record<string, string>> = {
    [paths.env]: "the variables",
    [paths.ignored]: "keeps secrets and data out of git",
    [paths.mapping]: "what becomes of the CRM's records",
    [paths.secret("service_token")]: "the token that the service has made for you",
    ...Object.fromEntries(
      Object.entries(MADE_SECRETS).map(([name, purpose]) => [paths.secret(name), purpose]),
    ),
  };
  const lines = [...written, ...kept].map((file) => {
    const name = relative(paths.folder, file).padEnd(24);
    return `  ${name}${purposes[file]}${kept.includes(file) ? " (it was there, and is as it was)" : ""}`;
  });
  return [`In ${paths.folder}:`, ...lines];
}

function nextSteps(paths: FolderPaths, service: string | undefined, mapping: string | undefined) {
  return [
    ...(service === undefined ? [`write the address of the service into ${paths.env}`] : []),
    `write the token of the service into ${paths.secret("service_token")}`,
    ...(mapping === undefined
      ? []
      : [`adapt the mapping file, then: ${crmsync`mapping check ${paths.mapping}`}`]),
    `in each terminal: ${loadCommand(paths.env)}`,
    `${crmsync`start`}, and in another terminal: ${crmsync`doctor`}`,
  ];
}

export type Made = ReturnType<typeof makeFolder>;

/**
 * Writes what is missing, the variables last: what an interrupted call has left is completed by the next one.
 * @param options.mapping the text of the mapping file, if one is to be written.
 * @param options.hasMapping whether the variables name a mapping file.
 * @throws UserError when the variables are there already, or a file cannot be written.
 */
export function makeFolder(
  paths: FolderPaths,
  options: VariableOptions & { readonly mapping?: string },
) {
  if (existsSync(paths.env)) {
    throw new UserError(
      `${paths.env} already exists, and nothing was changed: edit it, or choose another folder`,
    );
  }
  const written: string[] = [];
  /** Files that were there before: they stay as they are. */
  const kept: string[] = [];
  const write = (file: string, text: string) =>
    (writeNew(file, text, 0o600) ? written : kept).push(file);
  for (const folder of [paths.folder, paths.secret("")]) makeOwnFolder(folder);
  write(paths.ignored, "/secrets/\n/data/\n");
  // The service makes this token; the file is there so that only its owner can read what is written into it.
  write(paths.secret("service_token"), "");
  for (const name of Object.keys(MADE_SECRETS)) write(paths.secret(name), newSecret(name));
  if (options.mapping !== undefined) write(paths.mapping, options.mapping);
  write(paths.env, variablesText(paths, options));
  return { written, kept };
}

/** STATE_KEY is 32 bytes in base64. Without a line end: Prometheus sends a token as the file has it. */
const newSecret = (name: string): string =>
  randomBytes(32).toString(name === "state_key" ? "base64" : "hex");

function makeOwnFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    throw new UserError(`the folder ${folder} cannot be made (${code})`);
  }
}

export type FolderPaths = ReturnType<typeof pathsOf>;

/** Where the files of an installation are. @param folder an absolute path. */
export const pathsOf = (folder: string) => ({
  folder,
  env: join(folder, "env"),
  mapping: join(folder, "mapping.yaml"),
  /** Names what git must not keep. */
  ignored: join(folder, ".gitignore"),
  secret: (name: string): string => join(folder, "secrets", name),
});

/** The files of secrets that `crmsync init` makes, and what each one is for. */
export const MADE_SECRETS = {
  ingest_token: "for senders of events",
  viewer_token: "for people and programs that look: /status, /metrics, the console",
  operator_token: "for people who act in the console",
  state_key:
    "encrypts the state in Redis: keep a copy elsewhere, nothing opens the state without it",
} as const;

export interface VariableOptions {
  readonly service?: string;
  readonly hasMapping: boolean;
  /** A CRM that has no webhooks, and the variables of its API. */
  readonly pullFrom?: { readonly name: string; readonly needs: readonly string[] } | undefined;
}

/** What the file of variables says; a shell and systemd can read it. */
export function variablesText(
  { folder, env, secret, mapping }: FolderPaths,
  { service = "", hasMapping, pullFrom }: VariableOptions,
): string {
  return `# The variables of crmsync. docs/configuration.md has all of them.
# A shell loads them by: ${loadCommand(env)}

# The address of the service, without /v1.1, and the file of its token.
SERVICE_BASE_URL=${service && shellWord(service)}
SERVICE_TOKEN_FILE=${shellWord(secret("service_token"))}
# The day on which the service made the token, as 2026-01-31: crmsync warns before the token has expired.
# SERVICE_TOKEN_ISSUED_AT=

# Files of crmsync itself. Without REDIS_URL it runs a redis-server of its own, whose data lies there, too.
DATA_DIR=${shellWord(`${folder}/data`)}
# REDIS_URL=redis://127.0.0.1:6379

# What becomes of the CRM's records. Without a mapping file they must be payloads of the service.
${hasMapping ? "" : "# "}MAPPING=${shellWord(mapping)}
${pullFrom === undefined ? "" : pullText(pullFrom)}
# Events by HTTP, from this machine only, with the token of the file.
HTTP_HOST=127.0.0.1
HTTP_PORT=8080
INGEST_TOKEN_FILE=${shellWord(secret("ingest_token"))}

# Tokens of people: who looks, and who acts.
VIEWER_TOKEN_FILE=${shellWord(secret("viewer_token"))}
OPERATOR_TOKEN_FILE=${shellWord(secret("operator_token"))}

# Encrypts what crmsync writes into Redis.
STATE_KEY_FILE=${shellWord(secret("state_key"))}
`;
}

const pullText = ({ name, needs }: NonNullable<VariableOptions["pullFrom"]>): string => `
# The CRM has no webhooks: it is asked for what has changed. docs/crm/${name}.md says what its variables are.
PULL_FROM=${name}
${needs.map((variable) => `# ${variable}=\n`).join("")}`;

export const loadCommand = (env: string): string => shell`set -a; . ${env}; set +a`;
