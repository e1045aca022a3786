/** `crmsync reconcile`: the whole CRM against the whole service. */
import { resolve } from "node:path";
import { Command, InvalidArgumentError } from "commander";
import { readConfig } from "../base/config.ts";
import { normalTime } from "../core/event/event-order.ts";
import { connectOnce } from "../base/connect-redis.ts";
import { FIELD_NAMES } from "../intake/mapping/fields.ts";
import { counted } from "../base/counted.ts";
import { UserError } from "../base/user-error.ts";
import { PLAN_KEPT_HOURS } from "../core/state/reconciliations.ts";
import { openStores } from "../operate/status/stores.ts";
import { openPlan, type OpenPlan } from "../whole/reconcile/plan-file.ts";
import { openSession, type Session } from "../whole/reconcile/session.ts";
import { listCrm, LISTED_CRMS, openSnapshotOf } from "../whole/reconcile/crm-snapshot.ts";
import { openSnapshot, type OpenSnapshot } from "../whole/reconcile/open-snapshot.ts";
import { unfinishedPlan } from "../whole/reconcile/carry-out.ts";
import { WHY_OPTION } from "./asked.ts";
import { recordAct, withStores } from "./operator.ts";
import { applyIt, forgetComparison, listComparisons } from "./reconcile/apply.ts";
import { confirmed, showBar } from "./output.ts";
import { compareAll, type ReconcileOptions } from "./reconcile/compare.ts";
import { COLUMNS, numbersOf, ROWS } from "../intake/snapshot/item.ts";
import { ENCODINGS } from "../intake/snapshot/scan-file.ts";
import { Choice, wholeNumber, WrongUsage } from "./arguments.ts";

const DEFAULT_MAX_AGE_HOURS = 24;

export function reconcileCommand(): Command {
  return new Command("reconcile")
    .description("compare all records of the CRM with all relations of the service, and repair")
    .argument(
      "[snapshot]",
      "JSON lines, a JSON list, an API's answer, or CSV; - for standard input",
    )
    .addOption(new Choice("--from <crm>", "list the CRM itself, by its API", LISTED_CRMS))
    .option(
      "--mapping <mapping>",
      "preset or file: show what it would change, if it is not the daemon's",
    )
    .option(
      "--object <object>",
      "the CRM's object, for records that do not name it; with --from the only one to list",
    )
    .option("--id-from <field>", "the field that holds the records' id, when it is not id")
    .option(
      "--as-of <time>",
      "when the snapshot was taken, with a time zone; else its file tells",
      timeOf,
    )
    .option("--plan <file>", "where to write the plan; else into DATA_DIR/reconcile")
    .option("--apply [plan]", "carry out a plan; without one, compare first and ask")
    .option("--yes", "with --apply: do not ask")
    .option(
      "--max-age <hours>",
      "do not use a plan that is older",
      // Redis remembers for so long whether a plan was used.
      wholeNumber(1, PLAN_KEPT_HOURS),
      DEFAULT_MAX_AGE_HOURS,
    )
    .option("--terminate-missing", "also plan to terminate relations that the CRM does not have")
    .option("--include-foreign", "also those that crmsync has not written, with other crmCodes")
    .option(
      "--max-terminate <n>",
      "most terminations in a plan; else 20, or 1 % of the active relations if that is more",
      wholeNumber(0),
    )
    .addOption(
      new Choice("--encoding <name>", "how a file was saved; else it is found out", ENCODINGS),
    )
    .option("--whole", "an object around a list of records has all records of the CRM")
    .option("--records <path>", "where that list is, as data.contacts; it has all records")
    .option("--skip-rows <numbers>", "rows of a table that are no records, as 2 or 1,-1", rowsOf)
    .option("--skip-columns <numbers>", "columns of a table that are left out, as 1", columnsOf)
    .option("--first-load", "most records are new at the service")
    .option(
      "--accept <fields>",
      "with --apply: fields that may change on more than 5 relations and 10 %",
      fieldsOf,
    )
    .option("--report <file>", "write each difference to this file, as JSON lines or .csv")
    .option("--show-values", "with --report: also the values, which are personal data")
    .option("--forget <plan>", "dismiss a comparison whose plan is not to be carried out")
    .option(...WHY_OPTION)
    .option("--list", "print the last ten comparisons, and what became of their plans")
    .option("--json", "print the result as JSON")
    .addHelpText(
      "after",
      `
Without --apply nothing is sent. It costs one request per 5000 relations, tells what differs, and
writes a plan. --apply carries out what is in the plan and still true: it stages a few hundred
changes at once in the lane bulk, which a running daemon sends as the quota allows; live changes go
first, and newer ones win. A plan is used once. If it is interrupted, the same command continues.
--from lists the objects that the mapping names, with the credentials by which the daemon reads
records (docs/webhooks.md), and compares them as it compares a file.
docs/reconcile.md describes it. Exit code: 1 when it stopped and said why, 3 when another
person must approve the plan first (APPROVALS), else 0, also with differences.`,
    )
    .action(reconcile);
}

/** Requires a time zone, as a marker in RECONCILE_DIR does: without one, each machine would read another time. */
function timeOf(text: string): number {
  if (normalTime(text) === undefined) {
    throw new InvalidArgumentError(
      "It must be a time with its zone, as 2026-11-21T08:00:00Z or 2026-11-21T09:00:00+01:00.",
    );
  }
  return Date.parse(text.toUpperCase());
}

/** @throws InvalidArgumentError for a field that the service does not have: a typing mistake accepts nothing. */
function fieldsOf(text: string): string[] {
  const fields = text.split(",").map((field) => field.trim());
  const unknown = fields.find((field) => !FIELD_NAMES.includes(field));
  if (unknown === undefined) return fields;
  throw new InvalidArgumentError(`The service has no field ${unknown}.`);
}

/** @throws InvalidArgumentError */
function numbersIn(text: string, form: RegExp): number[] {
  try {
    return numbersOf(text, "They", form);
  } catch (error) {
    throw new InvalidArgumentError((error as UserError).message);
  }
}

const rowsOf = (text: string): number[] => numbersIn(text, ROWS);
const columnsOf = (text: string): number[] => numbersIn(text, COLUMNS);

async function reconcile(name: string | undefined, options: ReconcileOptions): Promise<void> {
  requireSense(name, options);
  if (options.list) return listComparisons(options);
  const { forget } = options;
  if (forget !== undefined) return withStores((stores) => forgetComparison(stores, forget));
  const plan = typeof options.apply === "string" ? await openPlan(options.apply) : undefined;
  const config = readConfig();
  const stores = openStores(config, await connectOnce(config));
  try {
    const session = await openSession(config, stores, options.mapping);
    try {
      await runIn(session, name, plan, options);
    } finally {
      await session.close();
    }
  } finally {
    await stores.close();
  }
}

function requireSense(name: string | undefined, options: ReconcileOptions): void {
  const { apply, from, report, showValues, yes } = options;
  if (showValues && report === undefined) throw new WrongUsage("--show-values needs --report FILE");
  if (yes && apply === undefined) throw new WrongUsage("--yes needs --apply");
  if (apply === true && !yes && !process.stdin.isTTY) {
    throw new WrongUsage("--apply without a plan asks before it sends: give --yes, or a plan");
  }
  for (const [option, file] of Object.entries({ "--report": report, "--plan": options.plan })) {
    if (file === undefined || name === undefined || resolve(file) !== resolve(name)) continue;
    throw new WrongUsage(`${option} would overwrite the snapshot: name another file`);
  }
  if (options.list || options.forget !== undefined) requireNothingElse(name, options);
  else if (typeof apply === "string") requireSenseOfPlan(options);
  else if (from !== undefined) requireSenseOfList(name, options);
  else if (name === undefined) {
    throw new WrongUsage("name the snapshot: a file, - for standard input, or --from CRM");
  }
}

/** --max-age has a default, so that it cannot be told whether it was given. */
const BESIDE_LIST: ReadonlySet<string> = new Set(["forget", "json", "list", "maxAge"]);

function requireNothingElse(name: string | undefined, options: ReconcileOptions): void {
  if (name === undefined && Object.keys(options).every((one) => BESIDE_LIST.has(one))) return;
  throw new WrongUsage("--list and --forget compare nothing: give one alone, or with --json");
}

/** Options that only a comparison uses. A plan that exists does not change with them. */
const OF_COMPARISONS =
  `from object idFrom asOf plan terminateMissing includeForeign maxTerminate firstLoad encoding whole
  records skipRows skipColumns report`.split(/\s+/);

function requireSenseOfPlan(options: ReconcileOptions): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || !OF_COMPARISONS.includes(name)) continue;
    const option = `--${name.replaceAll(/[A-Z]/g, (one) => `-${one.toLowerCase()}`)}`;
    throw new WrongUsage(
      `${option} is for comparisons, and changes nothing of a plan that exists: leave it out, or make a new plan with it`,
    );
  }
}

function requireSenseOfList(name: string | undefined, options: ReconcileOptions): void {
  const { asOf, idFrom, object, terminateMissing } = options;
  if (name !== undefined) throw new WrongUsage("give a file or --from, not both");
  if (asOf !== undefined) {
    throw new WrongUsage("--as-of is for files: of a list of the CRM it is known when it began");
  }
  if (idFrom !== undefined) {
    throw new WrongUsage("--id-from is for files: a list of the CRM says which id a record has");
  }
  if (object !== undefined && terminateMissing) {
    throw new WrongUsage(
      "--terminate-missing would terminate the relations of all other objects: leave out --object",
    );
  }
}

async function runIn(
  session: Session,
  name: string | undefined,
  plan: OpenPlan | undefined,
  options: ReconcileOptions,
): Promise<void> {
  if (session.deployed !== undefined && options.apply !== undefined) {
    throw new UserError(
      `the daemon has the mapping ${session.deployed}, and not ${session.mapping.name}: nothing is sent by a mapping that is not in use. Compare without --apply, or start the daemon with this mapping first`,
    );
  }
  const begun = plan ?? (await begunList(session, options));
  const snapshot = await (begun === undefined
    ? newSnapshot(session, name, options)
    : openSnapshotOf(session, begun, name));
  try {
    if (plan !== undefined) requireAccepted(plan, options);
    await (begun === undefined
      ? compareAndApply(session, snapshot, options)
      : applyIt(session, snapshot, begun, options));
  } finally {
    snapshot.close();
  }
}

/** What the comparison has warned of is carried out if a person has named it. */
function requireAccepted({ file, header }: OpenPlan, { accept = [] }: ReconcileOptions): void {
  const doubts = header.doubts?.filter((field) => !accept.includes(field)) ?? [];
  if (doubts.length === 0) return;
  throw new UserError(
    `the comparison that made the plan ${file} has warned of ${doubts.join(", ")}: look at it again; if it is right, give --accept ${doubts.join(",")}`,
  );
}

/** The plan from a list of this CRM that an earlier run has begun to carry out. */
const begunList = async (session: Session, options: ReconcileOptions) =>
  options.from === undefined || options.apply === undefined
    ? undefined
    : begunPlan(session, { from: options.from }, options);

/**
 * Finds the plan that an earlier run has begun and not finished. It is continued as it was made. This
 * command's options do not change it, and a message says so.
 */
async function begunPlan(
  session: Session,
  of: Parameters<typeof unfinishedPlan>[1],
  { plan: elsewhere }: ReconcileOptions,
): Promise<OpenPlan | undefined> {
  const begun = await unfinishedPlan(session, of, elsewhere);
  if (begun === undefined) return undefined;
  const { file, header } = begun;
  process.stderr.write(
    `goes on with the plan ${file} of ${header.madeAt}, which was interrupted, as it was made. The options of this command do not change it: when it has ended, run the command again\n`,
  );
  return begun;
}

async function newSnapshot(
  session: Session,
  name: string | undefined,
  options: ReconcileOptions,
): Promise<OpenSnapshot> {
  const { encoding, from, object, records, skipColumns, skipRows } = options;
  if (from !== undefined) return listWithBar(session, from, object);
  const snapshot = await openSnapshot(name ?? "-", session.dir, encoding);
  const { terminateMissing = false, whole = records !== undefined } = options;
  const mustBeWhole = terminateMissing && !whole;
  return { ...snapshot, reading: { records, skipColumns, skipRows, mustBeWhole } };
}

/** @param object lists this one only */
async function listWithBar(
  session: Session,
  crm: string,
  object: string | undefined,
): Promise<OpenSnapshot> {
  const { stores } = session;
  const bar = showBar(`listing ${crm}`, "records");
  // Most CRMs do not say how many records they have: about as many as the service.
  const expected = await stores.redis.hlen(stores.keys.ledger);
  try {
    return await listCrm(session, crm, {
      object,
      onProgress({ objects }) {
        const listed = Object.values(objects).reduce((sum, records) => sum + records, 0);
        bar.update(listed, expected);
      },
    });
  } finally {
    bar.stop();
  }
}

async function compareAndApply(
  session: Session,
  snapshot: OpenSnapshot,
  options: ReconcileOptions,
): Promise<void> {
  if (options.apply !== undefined && snapshot.listing === undefined) {
    const begun = await begunPlan(session, { hash: snapshot.scan.hash }, options);
    if (begun !== undefined) return applyIt(session, snapshot, begun, options);
  }
  // The report holds values of persons: who makes it is recorded.
  if (options.showValues) await recordAct(session.stores, "reconcile.show");
  const plan: OpenPlan | undefined = await compareAll(session, snapshot, options);
  if (options.apply === undefined || plan === undefined || plan.entries === 0) return;
  const { doubts = [] } = plan.header;
  const warned = doubts.length === 0 ? "" : `, with what is said of ${doubts.join(", ")}`;
  const question = `carry out ${counted(plan.entries, "change")}${warned}?`;
  if (options.yes || (await confirmed(question))) await applyIt(session, snapshot, plan, options);
}
