/** The completion scripts in real shells on a real terminal: tabs are typed, and the line is run. */
import { execFile } from "node:child_process";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { isolatedEnv } from "../../support/process.ts";
import { requireTool, type Tool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";

const MAIN = join(import.meta.dirname, "../../../src/cli/main.ts");

const TERMINAL: Tool = { commands: ["script"], check: ["--version"], debianPackage: "bsdutils" };

const tool = (name: string): Tool => ({
  commands: [name],
  check: ["--version"],
  debianPackage: name,
});

/** By shell: how it starts without anybody's settings, loads the script, and prints what it runs. */
const SHELLS = {
  bash: {
    start: "bash --norc --noprofile -i",
    load: "source <(crmsync completion bash)",
    print: 'crmsync() { echo "ran: $*"; }',
  },
  zsh: {
    start: "zsh -f -i",
    load: "source <(crmsync completion zsh)",
    print: 'crmsync() { print "ran: $*"; }',
  },
  fish: {
    start: "fish --no-config -i",
    load: "crmsync completion fish | source",
    print: 'function crmsync; echo "ran: $argv"; end',
  },
} as const;

/** What is typed, and what the shell makes of it. */
const TYPED = [
  ["crmsync dea\tl\tx", "dead list x"],
  ["crmsync dead list --rea\tunm\tx", "dead list --reason unmappable x"],
  ["crmsync dead list --reason=unm\tx", "dead list --reason=unmappable x"],
  ["crmsync dead drop --field birthD\tx", "dead drop --field birthDate x"],
  ["crmsync sandbox --db tenant tok\tcr\tx", "sandbox --db tenant token create x"],
  ["crmsync completion f\tx", "completion fish x"],
  ["crmsync push rec\tx", "push records.ndjson x"],
  ["crmsync preview --mapping map\ttw\tx", "preview --mapping mappings/twenty.yaml x"],
  ["crmsync preview --mapping=map\ttw\tx", "preview --mapping=mappings/twenty.yaml x"],
] as const;

test.for(Object.entries(SHELLS))(
  "%s completes commands, options, values and files",
  async ([name, shell], context) => {
    const terminal = await requireTool(context, TERMINAL);
    await requireTool(context, tool(name));
    await using dir = await tempDir();
    await mkdir(join(dir.path, "mappings"));
    await writeFile(join(dir.path, "records.ndjson"), "");
    await writeFile(join(dir.path, "mappings/twenty.yaml"), "");
    await writeFile(
      join(dir.path, "crmsync"),
      `#!/bin/sh\nexec "${process.execPath}" "${MAIN}" "$@"\n`,
    );
    await chmod(join(dir.path, "crmsync"), 0o755);
    const lines = [shell.load, shell.print, ...TYPED.map(([typed]) => typed), "exit"];
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const child = execFile(
      terminal,
      ["-qfec", shell.start, "/dev/null"],
      {
        cwd: dir.path,
        env: isolatedEnv({ PATH: `${dir.path}:${process.env["PATH"]}`, TERM: "dumb" }),
      },
      (error, stdout) => (error === null ? resolve(stdout) : reject(error)),
    );
    child.stdin?.end(`${lines.join("\n")}\n`);
    const ran = [...(await promise).replaceAll("\r", "").matchAll(/^ran: (.*)$/gm)];
    // A completed word is followed by a blank.
    expect(ran.map(([, line]) => line)).toEqual(TYPED.map(([, line]) => line));
  },
);
