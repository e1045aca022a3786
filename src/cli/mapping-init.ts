/** `crmsync mapping init`: a mapping file to start from, and two cases of it. */
import { basename, dirname, join } from "node:path";
import type { Command } from "commander";
import { guessMapping } from "../mapping/guess-mapping.ts";
import { loadMapping, presetNames, mappingFileOf } from "../mapping/load-mapping.ts";
import type { CrmRecord } from "../mapping/mapping.ts";
import { UserError } from "../ops/user-error.ts";
import { casesFileOf, casesText } from "../preview/mapping-cases.ts";
import { previewOne, unknownService } from "../preview/preview-one.ts";
import { inputOfRecord, readInputs } from "../preview/read-records.ts";
import { Choice, WrongUsage } from "./arguments.ts";
import { commandName } from "./command-name.ts";
import { writeNew } from "./write-new.ts";
import { readFileSync } from "node:fs";

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
--record takes what preview takes: a record, an event, a webhook's body or an export. The cases, in
NAME.test.yaml, then hold the values of that record.`,
    )
    .action(init);
}

async function init(file: string, { from, object, record }: InitOptions): Promise<void> {
  if (record === undefined && object !== undefined) throw new WrongUsage("--object needs --record");
  if (record !== undefined && from !== undefined)
    throw new WrongUsage(
      "--record guesses a mapping, --from takes a preset: leave one of them out",
    );
  const sample = record === undefined ? undefined : await readSample(record, object);
  const text = sample?.text ?? mappingTemplate(from ?? "generic");
  if (file === "-") {
    process.stdout.write(text);
    return;
  }
  if (!writeNew(file, text))
    throw new UserError(`${file} already exists; choose another file name`);
  const cases = casesFileOf(file);
  const isNew = writeNew(
    cases,
    sample === undefined ? casesTemplate(from ?? "generic", file) : await casesOf(sample, file),
  );
  const crmsync = commandName();
  const also = isNew ? `, and ${cases} with two cases of it` : `; ${cases} stays as it is`;
  const options = sample === undefined ? "" : ` --object ${sample.object}${sample.idOption}`;
  process.stdout.write(
    `${file} was written${also}. Adapt it to your CRM, then run:
  ${crmsync} mapping check ${file}
  ${crmsync} mapping test ${file}
  ${crmsync} preview ${record ?? "RECORD.json"} --mapping ${file}${options}\n`,
  );
}

interface Sample {
  readonly text: string;
  readonly object: string;
  readonly id: string;
  readonly record: CrmRecord;
  /** The name of the file that holds the record. */
  readonly from: string;
  readonly idOption: string;
}

/** The first record of a file, and the mapping that is guessed for it. */
async function readSample(path: string, given: string | undefined): Promise<Sample> {
  const { inputs } = await readInputs(path, { objects: [] }, {});
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
  const idOption = hasId ? "" : ` --id-from ${/^\w+$/.test(idField) ? idField : `'${idField}'`}`;
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
