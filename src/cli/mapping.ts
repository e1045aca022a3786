import { Command } from "commander";
import { EXIT_CONFIG } from "../base/config.ts";
import { CONNECTORS } from "../intake/crm/connectors.ts";
import { loadMapping, mappingFileOf, presetNames } from "../intake/mapping/load-mapping.ts";
import {
  checkDeletions,
  mappingWarnings,
  MODULE_WARNING,
  placeholderFields,
} from "../intake/mapping/mapping-warnings.ts";
import { businessRelationMapping } from "../intake/mapping/business-relation.ts";
import { MappingError, type Mapping, type CrmRecord } from "../intake/mapping/mapping.ts";
import { unreadLines } from "../intake/mapping/unread-paths.ts";
import { examineMappingFile, mappingText, MODULE } from "../intake/mapping/read-mapping-file.ts";
import { printable } from "../base/printable.ts";
import {
  inputOfRecord,
  inputsOfText,
  readInputs,
  readText,
  unreadIn,
} from "../whole/preview/read-records.ts";
import { senderOf } from "../whole/preview/webhook-bodies.ts";
import { print, printJson } from "./output.ts";
import { crmsync } from "../base/command.ts";
import { relative, basename, dirname, join } from "node:path";
import { styleText } from "node:util";
import { readCases, casesFileOf, casesText } from "../whole/preview/mapping-cases.ts";
import { runCase, type Difference } from "../whole/preview/run-case.ts";
import { guessMapping } from "../intake/mapping/guess-mapping.ts";
import { UserError } from "../base/user-error.ts";
import { previewOne, unknownService } from "../whole/preview/preview-one.ts";
import { Choice, WrongUsage } from "./arguments.ts";
import { readFileSync, rmSync, writeFileSync } from "node:fs";

export function mappingCommand(): Command {
  const mapping = new Command("mapping").description("write, check and test mapping files");
  addInitCommand(mapping);
  mapping
    .command("check")
    .description("list every mistake of a mapping, with its line and what to do")
    .argument("<mapping>", "a file, or the name of a preset")
    .option(
      "--sample <file>",
      "records of the CRM: name what the mapping reads and none of them has",
    )
    .option("--object <object>", "the CRM's object of the sample, if its records do not name it")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
The daemon does not start with a mapping that has a mistake, except for one that only the check finds:
a crmCode that cannot be made for a deletion without its record. Exit code: 78 if there is a mistake.`,
    )
    .action(check);
  addTestCommand(mapping);
  return mapping;
}

interface CheckOptions {
  readonly sample?: string;
  readonly object?: string;
  readonly json?: true;
}

async function check(name: string, options: CheckOptions): Promise<void> {
  const { problems, warnings: ofFile } = await examine(name);
  // A module can only be checked by loading it.
  const mapping = problems.length === 0 ? await loadMapping(name) : undefined;
  const warnings = [...ofFile, ...(mapping ? await unreadOf(mapping, options) : [])];
  await mapping?.close();
  const objects = mapping?.objects ?? [];
  if (mapping !== undefined) warnings.push(...neverSent(mapping));
  if (options.json === true) {
    const ok = problems.length === 0;
    printJson({ ok, objects, problems, warnings });
    if (!ok) process.exitCode = EXIT_CONFIG;
    return;
  }
  for (const warning of warnings) print(`warning: ${warning}`);
  if (problems.length > 0) throw new MappingError(name, problems);
  print(`${name} has no mistakes${objects.length > 0 ? `; it maps ${objects.join(", ")}` : ""}`);
}

/** Fields that a CRM's webhooks never bring, so that only its API fills them. */
function neverSent({ objects, reads }: Mapping): string[] {
  return CONNECTORS.flatMap(({ name, neverSent = {}, needs }) =>
    Object.entries(neverSent).flatMap(([object, fields]) => {
      const read = objects.includes(object) ? fields.filter((field) => reads.has(field)) : [];
      const secrets = needs.filter((variable) => !variable.endsWith("_URL"));
      return read.map(
        (field) =>
          `it reads ${field} of ${object}, which the webhooks of ${name} never bring: set ${secrets.join(" and ")}, so that crmsync reads the record itself; without them the service keeps what it has there`,
      );
    }),
  );
}

async function unreadOf(mapping: Mapping, { sample, ...options }: CheckOptions): Promise<string[]> {
  if (sample === undefined) return [];
  const { inputs } = await readInputs(sample, mapping, options);
  return unreadLines(unreadIn(inputs, mapping)).map(printable);
}

const PIPEDRIVE = "pipedrive";

/** All mistakes of a mapping file, and as warnings what its author probably did not mean. */
async function examine(name: string): Promise<{ problems: readonly string[]; warnings: string[] }> {
  if (name === businessRelationMapping.name) return { problems: [], warnings: [] };
  let path: string;
  let text: string;
  try {
    path = mappingFileOf(name);
    text = mappingText(path);
  } catch (error) {
    if (!(error instanceof MappingError)) throw error;
    return { problems: error.problems, warnings: [] };
  }
  if (MODULE.test(path)) return { problems: [], warnings: [MODULE_WARNING] };
  const { file } = examineMappingFile(text, name);
  const deletions = file === undefined ? [] : await checkDeletions(file);
  const { problems } = examineMappingFile(text, name, deletions);
  if (file === undefined) return { problems, warnings: [] };
  const copy = crmsync`mapping init --from pipedrive FILE`;
  const where = name === PIPEDRIVE ? `, in a copy: ${copy}` : "";
  const preset = mappingText(mappingFileOf(PIPEDRIVE));
  return {
    problems,
    warnings: [...mappingWarnings(file), ...placeholderFields(file, preset, where)],
  };
}

export function addTestCommand(mapping: Command): void {
  mapping
    .command("test")
    .description("run the cases of a mapping: what records and webhook bodies must become")
    .argument("<file>", "the mapping, with its cases in NAME.test.yaml beside it; or these cases")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
docs/mapping.md describes the cases; mapping init writes two. Nothing is sent and no Redis is needed.
Exit code: 1 if a case fails, 78 if the mapping or its cases have a mistake or are missing.`,
    )
    .action(test);
}

async function test(name: string, options: { json?: true }): Promise<void> {
  const given = readCases(name);
  const mapping = await loadMapping(given.mapping);
  const cases: { name: string; line: number; ok: boolean; differences: Difference[] }[] = [];
  try {
    for (const one of given.cases) {
      const differences = await runCase(one, mapping, given);
      cases.push({ name: one.name, line: one.line, ok: differences.length === 0, differences });
    }
  } finally {
    await mapping.close();
  }
  const failed = cases.filter(({ ok }) => !ok).length;
  const file = relative(".", given.file);
  if (options.json === true) {
    const result = { ok: failed === 0, mapping: given.mapping, file: given.file, cases };
    printJson(result);
  } else {
    for (const { name: title, line, ok, differences } of cases) {
      const place = ok ? "" : `  ${file}:${line}`;
      const shown = `${ok ? "✓" : "✗"} ${printable(title)}${place}`;
      print(styleText(ok ? "green" : "red", shown));
      for (const one of differences) print(differenceText(one));
    }
    print(`${cases.length - failed} passed, ${failed} failed`);
  }
  if (failed > 0) process.exitCode = 1;
}

function differenceText({ path, expected, actual }: Difference): string {
  const shown = (value: unknown) => printable(JSON.stringify(value));
  const is = actual === undefined ? "there is nothing" : `it is ${shown(actual)}`;
  return `    ${path.padEnd(28)} ${expected === undefined ? is : `expected ${shown(expected)}, but ${is}`}`;
}

interface InitOptions {
  readonly from?: string;
  readonly record?: string;
  readonly object?: string;
}

export function addInitCommand(mapping: Command): void {
  mapping
    .command("init")
    .description("write a mapping file with comments, to start from, and two cases to test it")
    .addOption(new Choice("--from <preset>", "the preset (default: generic)", presetNames()))
    .option("--record <file>", "guess the mapping from the names in this record of the CRM")
    .option("--object <object>", "with --record: the CRM's object, when the record does not say it")
    .argument("[file]", "the file to write; - for standard output", "mapping.yaml")
    .addHelpText(
      "after",
      `
--record takes a record, an event or an export; of the body of a CRM's webhook it names the preset.
The cases, in NAME.test.yaml, then hold the values of that record.`,
    )
    .action(init);
}

async function init(file: string, { from, object, record }: InitOptions): Promise<void> {
  if (record === undefined && object !== undefined) throw new WrongUsage("--object needs --record");
  if (record !== undefined && from !== undefined)
    throw new WrongUsage(
      "--record guesses a mapping, --from takes a preset: leave one of them out",
    );
  const sample = record === undefined ? undefined : await readSample(record, object, file);
  const text = sample?.text ?? mappingTemplate(from ?? "generic");
  if (file === "-") {
    process.stdout.write(text);
    return;
  }
  if (!writeNew(file, text))
    throw new UserError(`${file} already exists; choose another file name`);
  const lacks = sample?.lacks ?? [];
  if (lacks.length > 0) {
    process.stdout.write(
      `${file} was written, without ${lacks.join(" and ")}: the service requires this, and no field of the record has a usual name of it. Write it, then run:
  ${crmsync`mapping check ${file}`}\n`,
    );
    return;
  }
  const cases = casesFileOf(file);
  const isNew = writeNew(
    cases,
    sample === undefined ? casesTemplate(from ?? "generic", file) : await casesOf(sample, file),
  );
  const also = isNew ? `, and ${cases} with two cases of it` : `; ${cases} stays as it is`;
  const options = sample === undefined ? [] : ["--object", sample.object, ...sample.idOption];
  process.stdout.write(
    `${file} was written${also}. Adapt it to your CRM, then run:
  ${crmsync`mapping check ${file}`}
  ${crmsync`mapping test ${file}`}
  ${crmsync`preview ${record ?? "RECORD.json"} --mapping ${file} ${options}`}\n`,
  );
}

interface Sample {
  readonly text: string;
  readonly object: string;
  readonly id: string;
  readonly record: CrmRecord;
  /** The name of the file that holds the record. */
  readonly from: string;
  readonly idOption: readonly string[];
  readonly lacks: readonly string[];
}

/**
 * The first record of a file, and the mapping that is guessed for it.
 * @param file where the mapping is written.
 * @throws UserError when it is a webhook's body, for which there is a preset.
 */
async function readSample(path: string, given: string | undefined, file: string): Promise<Sample> {
  const { text } = await readText(path);
  const sender = senderOf(text);
  if (sender !== undefined) {
    throw new UserError(
      `${path} is a body of the webhooks of ${sender}, which crmsync reads itself: use its preset (MAPPING=${sender}), or adapt a copy of that:
  ${crmsync`mapping init --from ${sender} ${file}`}`,
    );
  }
  const { inputs } = await inputsOfText(path, text, { objects: [] }, {});
  const first = inputs.find((input) => input.record !== undefined);
  if (first?.record === undefined) throw new UserError(`${path} holds no record`);
  const { context, hasId, record } = first;
  const from = basename(path);
  // Records that come without an event, and do not name their object, get the object `record`.
  const object = given ?? (context.object === "record" ? undefined : context.object);
  const guessed = await guessMapping({ record, from, object, schema: schemaOf("mapping") });
  const { idField = "id" } = guessed;
  const idFrom = hasId ? {} : { idFrom: idField };
  const of = { object: guessed.object, ...idFrom };
  const id = hasId
    ? context.recordId
    : inputOfRecord(path, record, { objects: [] }, of).context.recordId;
  const idOption = hasId ? [] : ["--id-from", idField];
  return { ...guessed, id, record, from, idOption };
}

/** The record with what becomes of it, and its deletion. */
async function casesOf({ from, id, object, record }: Sample, file: string): Promise<string> {
  const mapping = await loadMapping(file);
  const input = { object, id, record };
  const one = inputOfRecord(from, record, mapping, input);
  const made = await previewOne(one, mapping, unknownService(mapping.keeps));
  await mapping.close();
  const { crmCode, ...payload } = made.payload ?? {};
  const warnings = made.warnings.map(({ field, reason }) => ({ field, reason }));
  const problems = made.problems.map(({ field }) => ({ field }));
  const became = problems.length > 0 ? { problems } : { crmCode, payload };
  return casesText(
    [
      `yaml-language-server: $schema=${schemaOf("mapping-test")}`,
      "",
      `Made from ${from}: replace values of real persons before you share this file.`,
      "docs/mapping.md describes the cases.",
    ],
    [
      { name: `the record of ${from}`, input, expect: { ...became, warnings } },
      {
        name: "its deletion",
        input: { event: { type: "crm.record.deleted", subject: `${object}/${id}` } },
        expect: { crmCode: made.crmCode, status: "terminated" },
      },
    ],
  );
}

/** Editors check files by their schemas, which lie beside the presets. @returns the whole path */
const schemaOf = (name: string): string =>
  join(dirname(mappingFileOf("generic")), `${name}.schema.json`);

/** The text of a new mapping file. */
export const mappingTemplate = (preset: string): string =>
  withSchema(mappingFileOf(preset), "mapping");

/** The text of the cases of a new mapping file. */
const casesTemplate = (preset: string, file: string): string =>
  withSchema(casesFileOf(mappingFileOf(preset)), "mapping-test").replaceAll(
    `${preset}.yaml`,
    basename(file),
  );

const withSchema = (file: string, name: string): string =>
  readFileSync(file, "utf8").replace(`./${name}.schema.json`, schemaOf(name));

/**
 * @returns false when the file is there already: it stays as it is.
 * @throws UserError when it cannot be written; no part of it is left.
 */
export function writeNew(file: string, text: string, mode = 0o666): boolean {
  try {
    writeFileSync(file, text, { mode, flag: "wx" });
    return true;
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return false;
    // A part of it would be in the way of the next try.
    rmSync(file, { force: true });
    throw new UserError(`${file} cannot be written (${code})`);
  }
}
