/** The folder of a new installation: its variables, its secrets and its mapping file. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { UserError } from "../../ops/user-error.ts";
import { writeNew } from "../write-new.ts";
import type { FolderPaths } from "./paths.ts";
import { MADE_SECRETS, variablesText, type VariableOptions } from "./variables.ts";

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
