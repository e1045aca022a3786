import { existsSync, readFileSync } from "node:fs";

/** package.json lies above src/ in a checkout, and above dist/ when built. */
const packageFile = ["../../package.json", "../../../package.json"]
  .map((place) => new URL(place, import.meta.url))
  .find((file) => existsSync(file));

/** The folder of package.json. */
export const ROOT: URL = new URL(".", packageFile ?? import.meta.url);

interface Package {
  readonly version: string;
  readonly engines: { readonly node: string };
}

const own =
  packageFile === undefined
    ? undefined
    : (JSON.parse(readFileSync(packageFile, "utf8")) as Package);

export const VERSION: string = own?.version ?? "unknown";

/** Why this Node cannot run crmsync; undefined when it can. @param version as `24.6.0` */
export function nodeProblem(version: string): string | undefined {
  const needed = own?.engines.node.replace(/^>=/, "") ?? "0";
  if (!isOlder(version, needed)) return undefined;
  return `needs Node ${needed} or newer, and ${process.execPath} is ${version}: install a newer one, and put it first on the PATH`;
}

/** Compares by major and minor number. */
export function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [wantMajor = 0, wantMinor = 0] = than.split(".").map(Number);
  return major < wantMajor || (major === wantMajor && minor < wantMinor);
}
