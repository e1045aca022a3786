/** `crmsync init`: a folder with the variables and secrets that a daemon needs. */
import { relative, resolve } from "node:path";
import { Command } from "commander";
import { examineConfig } from "../config.ts";
import { WITHOUT_WEBHOOKS } from "../crm/connectors.ts";
import { mappingFileOf, presetNames } from "../mapping/load-mapping.ts";
import { MappingError } from "../mapping/mapping.ts";
import { commandName } from "./command-name.ts";
import { makeFolder, type Made } from "./init/folder.ts";
import { pathsOf, type FolderPaths } from "./init/paths.ts";
import { loadCommand, MADE_SECRETS } from "./init/variables.ts";
import { mappingTemplate } from "./mapping-template.ts";
import { printEither } from "./output.ts";
import { WrongUsage } from "./wrong-usage.ts";

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
  const unquotable = [paths.folder, paths.mapping].find((path) => /['\n\r]/.test(path));
  if (unquotable !== undefined) {
    throw new WrongUsage(`the path ${unquotable} has a quote or a line break: choose another one`);
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
  const crmsync = commandName();
  return [
    ...(service === undefined ? [`write the address of the service into ${paths.env}`] : []),
    `write the token of the service into ${paths.secret("service_token")}`,
    ...(mapping === undefined
      ? []
      : [`adapt the mapping file, then: ${crmsync} mapping check ${paths.mapping}`]),
    `in each terminal: ${loadCommand(paths.env)}`,
    `${crmsync} start, and in another terminal: ${crmsync} doctor`,
  ];
}
