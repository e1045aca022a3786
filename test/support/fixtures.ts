import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseExactly } from "../../src/core/event/exact-json.ts";

const FIXTURES = join(import.meta.dirname, "../fixtures");

export const fixtureText = (path: string): string => readFileSync(join(FIXTURES, path), "utf8");

export const fixture = (path: string): unknown => parseExactly(fixtureText(path));
