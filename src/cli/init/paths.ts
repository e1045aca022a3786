import { join } from "node:path";

export type FolderPaths = ReturnType<typeof pathsOf>;

/** Where the files of an installation are. @param folder an absolute path. */
export const pathsOf = (folder: string) => ({
  folder,
  env: join(folder, "env"),
  mapping: join(folder, "mapping.yaml"),
  /** Names what git must not keep. */
  ignored: join(folder, ".gitignore"),
  secret: (name: string): string => join(folder, "secrets", name),
});
