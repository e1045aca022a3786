/** `crmsync audit`: verifies audit trails, and prints their newest lines. */
import { Command, InvalidArgumentError } from "commander";
import { headText, parseHead, type Head } from "../people/audit/line.ts";
import { chainText, type Fault, type Verified } from "../people/audit/verify.ts";
import { trailFiles, verifyFiles, type VerifyOptions } from "../people/audit/verify-files.ts";
import { readConfig } from "../base/config.ts";
import { counted } from "../base/counted.ts";
import { printEither } from "./output.ts";
import { withStores } from "./operator.ts";

/** So many faults are printed for people, at most. */
const MAX_PRINTED = 100;

export function auditCommand(): Command {
  const audit = new Command("audit").description(
    "verify the audit trail, and print its newest lines",
  );
  audit
    .command("verify")
    .description("find missing, changed, inserted, moved and cut-off lines of the audit trail")
    .argument(
      "[files...]",
      "its files, the oldest first (.gz too; - for standard input); default: AUDIT_LOG and what it was rotated to",
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

async function verify(
  given: readonly string[],
  options: VerifyOptions & { readonly json?: true },
): Promise<void> {
  const config = readConfig();
  const files = given.length > 0 ? given : await trailFiles(config);
  const { note, ...result } = await verifyFiles(config, files, headsInRedis, options);
  if (result.faults.length === 0 && note === undefined && options.head === undefined)
    await foundLines(result.chains);
  printEither(options.json, jsonOf(result), textOf(result));
  if (result.faults.length > 0) process.exitCode = 1;
}

const headsInRedis = () => withStores(({ auditActs }) => auditActs.heads());

/** A trail that a process has found cut, or removed, and that is whole from its first line on, is no finding any more. */
const foundLines = (chains: Verified["chains"]): Promise<void> =>
  withStores(async ({ auditActs }) => {
    for (const { first, head } of chains) if (first === 1) await auditActs.foundLines(head.chain);
  });

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
