import { join } from "node:path";

/** Where the files of an installation are. */
export interface FolderPaths {
  readonly folder: string;
  readonly env: string;
  readonly mapping: string;
  /** The file that names what git must not keep. */
  readonly ignored: string;
  readonly secret: (name: string) => string;
}

/** @param folder an absolute path. */
export const pathsOf = (folder: string): FolderPaths => ({
  folder,
  env: join(folder, "env"),
  mapping: join(folder, "mapping.yaml"),
  ignored: join(folder, ".gitignore"),
  secret: (name) => join(folder, "secrets", name),
});
