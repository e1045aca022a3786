import { existsSync, readFileSync } from "node:fs";

/** The version in package.json, which lies above src/ in a checkout and above dist/ when built. */
export const VERSION: string = readVersion(["../../package.json", "../../../package.json"]);

function readVersion(places: readonly string[]): string {
  for (const place of places) {
    const file = new URL(place, import.meta.url);
    if (existsSync(file)) {
      return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
    }
  }
  return "unknown";
}
