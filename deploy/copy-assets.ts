/** Copies the sources that are not TypeScript (Lua scripts, the pages' HTML, script and style, openapi.yaml) into dist. */
import { cpSync, globSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

for (const file of globSync("{src,workers}/**/*.{lua,html,js,css,yaml}", { cwd: root })) {
  cpSync(join(root, file), join(root, "dist", file));
}
