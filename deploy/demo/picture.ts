/**
 * `node deploy/demo/picture.ts`: runs the demo in a terminal and draws its last screen as
 * docs/images/demo.svg. Needs the command `script` of util-linux, which provides the terminal.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
// A CommonJS module: its names exist only on the default export.
import xterm from "@xterm/headless";
import { screenToSvg } from "./screen-to-svg.ts";

const ROOT = join(import.meta.dirname, "../..");
const PROMPT = "\u001b[32m$\u001b[39m npm run demo\r\n";
const SIZE = { cols: 106, rows: 40 };

const terminal = new xterm.Terminal({ ...SIZE, allowProposedApi: true });
const write = (data: string | Uint8Array) =>
  new Promise<void>((resolve) => {
    terminal.write(data, resolve);
  });

await write(PROMPT);
const demo = spawn(
  "script",
  [
    "-qefc",
    `stty cols ${SIZE.cols} rows ${SIZE.rows}; exec node src/cli/main.ts demo`,
    "/dev/null",
  ],
  {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, TERM: "xterm-256color" },
  },
);
const ended = once(demo, "exit");
for await (const chunk of demo.stdout) await write(chunk as Buffer);
const [code] = (await ended) as [number];
if (code !== 0) {
  console.error(`The demo ended with ${code}: no picture is written.`);
  process.exit(1);
}
writeFileSync(join(ROOT, "docs/images/demo.svg"), screenToSvg(terminal.buffer.active, SIZE.cols));
