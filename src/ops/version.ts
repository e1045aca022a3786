import { existsSync, readFileSync } from "node:fs";

/** It lies above src/ in a checkout and above dist/ when built. */
const packageFile = ["../../package.json", "../../../package.json"]
  .map((place) => new URL(place, import.meta.url))
  .find((file) => existsSync(file));

/** The folder of package.json. */
export const ROOT: URL = new URL(".", packageFile ?? import.meta.url);

export const VERSION: string =
  packageFile === undefined
    ? "unknown"
    : (JSON.parse(readFileSync(packageFile, "utf8")) as { version: string }).version;
