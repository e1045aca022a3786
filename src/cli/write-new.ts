import { rmSync, writeFileSync } from "node:fs";
import { UserError } from "../ops/user-error.ts";

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
