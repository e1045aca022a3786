/** `crmsync audit`: verifies audit trails, and prints their newest lines. */
import { resolve } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { whereOf } from "../audit/file-sink.ts";
import { headText, LineHashes, parseHead, type Head, readLines } from "../audit/line.ts";
import {
  chainText,
  Verification,
  type Fault,
  type KnownHead,
  type Verified,
} from "../audit/verify.ts";
import { readConfig, type Config } from "../config.ts";
import { counted } from "../ops/counted.ts";
import { UserError } from "../ops/user-error.ts";
import { printEither } from "./output.ts";
import { withStores } from "./operator.ts";

/** So many faults are printed for people, at most. */
const MAX_PRINTED = 100;

interface VerifyOptions {
  readonly head?: readonly Head[];
  readonly after?: Head;
  readonly json?: true;
}

export function auditCommand(): Command {
  const audit = new Command("audit").description(
    "verify the audit trail, and print its newest lines",
  );
  audit
    .command("verify")
    .description("find missing, changed, inserted, moved and cut-off lines of the audit trail")
    .argument(
      "[files...]",
      "its files, the oldest first (.gz too; - for standard input); default: AUDIT_LOG",
    )
    .option(
      "--head <head>",
      "a line that it must contain, as audit head or the log prints it (several times: for several chains); default: those that Redis knows",
      addHead,
    )
    .option("--after <head>", "the line before the first one, if older files are not kept", headOf)
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
With AUDIT_KEY the lines are checked with it. Exit code: 1 if there is a fault.`,
    )
    .action(verify);
  audit
    .command("head")
    .description("print the newest line of each audit trail that Redis knows: keep it elsewhere")
    .option("--json", "print as JSON")
    .action(printHeads);
  return audit;
}

async function verify(given: readonly string[], options: VerifyOptions): Promise<void> {
  const config = readConfig();
  const files = given.length > 0 ? given : [auditFile(config)];
  const { known, note } = await knownHeads(files, options);
  const verification = new Verification(new LineHashes(config.auditKeys), options.after, known);
  for (const file of files) {
    let number = 0;
    for await (const text of readLines(file)) verification.add(text, file, (number += 1));
  }
  const verified = verification.end();
  const notes = [
    ...verified.notes,
    ...(note === undefined ? endsUnknown(verified.chains, known) : [note]),
  ];
  const result = { ...verified, notes };
  printEither(options.json, jsonOf(result), textOf(result));
  if (verified.faults.length > 0) process.exitCode = 1;
}

function auditFile({ AUDIT_LOG }: Config): string {
  if (AUDIT_LOG !== undefined && AUDIT_LOG !== "stdout") return AUDIT_LOG;
  throw new UserError("name the files of the audit trail: AUDIT_LOG names none here");
}

/** To be called before the files are read: a line that is written meanwhile is no fault. */
async function knownHeads(
  files: readonly string[],
  { head }: VerifyOptions,
): Promise<{ known: KnownHead[]; note?: Fault }> {
  if (head !== undefined) {
    return { known: head.map((one) => ({ head: one, from: "--head", isRequired: true })) };
  }
  const paths = files.map((file) => resolve(file));
  const places = new Set(paths.map(whereOf));
  const known: KnownHead[] = [];
  try {
    await withStores(async ({ auditActs }) => {
      for (const [chain, { where, ...stored }] of await auditActs.heads()) {
        const isRequired = places.has(where);
        // A container has another host name each time.
        const isSamePath = paths.some((path) => where.startsWith(`${path} on `));
        const elsewhere = isSamePath ? where : undefined;
        known.push({ head: { chain, ...stored }, from: "Redis", isRequired, elsewhere });
      }
    });
    return { known };
  } catch (error) {
    const says = `a cut-off end goes unnoticed without --head: ${(error as Error).message}`;
    return { known, note: { file: "", line: 0, says } };
  }
}

/** Chains whose end nothing outside these files confirms. */
function endsUnknown(chains: Verified["chains"], known: readonly KnownHead[]): Fault[] {
  return chains.flatMap(({ head: { chain } }) => {
    if (known.some(({ head }) => head.chain === chain)) return [];
    const says = `no head of the chain ${chain} is known from elsewhere: a cut-off end goes unnoticed without --head`;
    return [{ file: "", line: 0, says }];
  });
}

const jsonOf = ({ lines, faults, notes, chains }: Verified) => ({
  ok: faults.length === 0,
  lines,
  chains: chains.map(({ first, head }) => ({ first, ...head, head: headText(head) })),
  faults,
  notes,
});

function textOf({ lines, faults, notes, chains }: Verified): string {
  const more = faults.length - MAX_PRINTED;
  return [
    ...faults.slice(0, MAX_PRINTED).map(placed),
    ...(more > 0 ? [`and ${more} more`] : []),
    ...notes.map((note) => `note: ${placed(note)}`),
    ...chains.map(chainText),
    `${counted(lines, "line")}, ${faults.length === 0 ? "no fault" : counted(faults.length, "fault")}`,
  ].join("\n");
}

const placed = ({ file, line, says }: Fault): string =>
  `${file === "" ? "" : `${file}:${line}: `}${says}`;

const addHead = (text: string, before: readonly Head[] | undefined): readonly Head[] => [
  ...(before ?? []),
  headOf(text),
];

function headOf(text: string): Head {
  const head = parseHead(text);
  if (head === undefined) {
    throw new InvalidArgumentError(
      "It must be a line's chain, number and hash, as audit head prints it.",
    );
  }
  return head;
}

async function printHeads({ json }: { readonly json?: true }): Promise<void> {
  await withStores(async ({ auditActs }) => {
    const heads = [...(await auditActs.heads())].map(([chain, { seq, hash, where, at }]) => {
      return { head: headText({ chain, seq, hash }), where, at: new Date(at).toISOString() };
    });
    const lines = heads.map(({ at, head, where }) => `${head}  ${where}  ${at}`);
    const none = "Redis knows no audit trail: AUDIT_LOG was never set";
    printEither(json, heads, lines.join("\n") || none);
  });
}
