/** Verifies the files of an audit trail, with what Redis knows of its chains. */
import { resolve } from "node:path";
import type { Config } from "../../base/config.ts";
import { UserError } from "../../base/user-error.ts";
import { KEEP_HEADS_MS, type AuditActs } from "../../core/state/audit-acts.ts";
import { whereOf } from "./file-sink.ts";
import { LineHashes, readLines, type Head } from "./line.ts";
import { auditFiles } from "./search.ts";
import { Verification, type Fault, type KnownHead, type Verified } from "./verify.ts";

export interface VerifyOptions {
  /** Lines that the trail must contain, instead of those that Redis knows. */
  readonly head?: readonly Head[];
  /** The line before the first one. */
  readonly after?: Head;
}

/** AUDIT_LOG and what it was rotated to, the oldest first. @throws UserError where it names no file. */
export async function trailFiles({ AUDIT_LOG: path }: Pick<Config, "AUDIT_LOG">) {
  if (path === undefined || path === "stdout")
    throw new UserError("name the files of the audit trail: AUDIT_LOG names none here");
  const files = (await auditFiles(path)).toReversed();
  // What is missing is named by the error of reading it.
  return files.at(-1) === path ? files : [...files, path];
}

type ReadHeads = AuditActs["heads"];

/**
 * @param files the oldest first
 * @param readHeads asks Redis, which may be away
 * @returns `note`: why no head is known from Redis
 */
export async function verifyFiles(
  { auditKeys }: Pick<Config, "auditKeys">,
  files: readonly string[],
  readHeads: ReadHeads,
  { after, head }: VerifyOptions = {},
): Promise<Verified & { readonly note: Fault | undefined }> {
  const { known, note } =
    head === undefined
      ? await knownHeads(files, readHeads)
      : { known: head.map((one) => ({ head: one, from: "--head", isRequired: true })) };
  const forgottenBefore = Date.now() - KEEP_HEADS_MS;
  const verification = new Verification(new LineHashes(auditKeys), after, known, forgottenBefore);
  for (const file of files) {
    let number = 0;
    for await (const text of readLines(file)) verification.add(text, file, (number += 1));
  }
  const verified = verification.end();
  const notes = [
    ...verified.notes,
    ...(note === undefined ? endsUnknown(verified.chains, known) : [note]),
  ];
  return { ...verified, notes, note };
}

/** To be called before the files are read: a line that is written meanwhile is no fault. */
async function knownHeads(
  files: readonly string[],
  readHeads: ReadHeads,
): Promise<{ known: KnownHead[]; note?: Fault }> {
  const paths = files.map((file) => resolve(file));
  const places = new Set(paths.map(whereOf));
  try {
    const known = [...(await readHeads())].map(([chain, { where, ...stored }]) => {
      // A container has another host name each time.
      const isSamePath = paths.some((path) => where.startsWith(`${path} on `));
      return {
        head: { chain, ...stored },
        from: "Redis",
        isRequired: places.has(where),
        elsewhere: isSamePath ? where : undefined,
      };
    });
    return { known };
  } catch (error) {
    const says = `a cut-off end goes unnoticed without --head: ${(error as Error).message}`;
    return { known: [], note: { file: "", line: 0, says } };
  }
}

/** Chains whose end nothing outside these files confirms. */
function endsUnknown(chains: Verified["chains"], known: readonly KnownHead[]): Fault[] {
  return chains.flatMap(({ head: { chain }, isDoubted = false }) => {
    if (isDoubted || known.some(({ head }) => head.chain === chain)) return [];
    const says = `no head of the chain ${chain} is known from elsewhere: a cut-off end goes unnoticed without --head`;
    return [{ file: "", line: 0, says }];
  });
}
