import { UserError } from "../../base/user-error.ts";
import { AdministrationError } from "../../sandbox/database.ts";

/** Runs a command. What the operator, or the file, must be corrected for is thrown as a UserError. */
export async function withUserErrors<Result>(command: () => Promise<Result>): Promise<Result> {
  try {
    return await command();
  } catch (error) {
    if (isRefusedByFile(error)) {
      throw new UserError(`the database file cannot be used further: ${error.message}`);
    }
    throw error instanceof AdministrationError ? new UserError(error.message) : error;
  }
}

/** SQLite's results about the file and its disk: busy, readonly, I/O error, corrupt, full, not a database. */
const ABOUT_THE_FILE: ReadonlySet<number> = new Set([5, 8, 10, 11, 13, 26]);

function isRefusedByFile(error: unknown): error is Error {
  // The lowest byte is the result, the others say more about it.
  return (
    error instanceof Error && "errcode" in error && ABOUT_THE_FILE.has(Number(error.errcode) & 0xff)
  );
}
