/** Which blocks of the pages the tests run; test/unit/docs/commands.test.ts checks all of them. */
import { blocksOf, commandsIn, type Block } from "./doc-blocks.ts";

/** A block with one of these commands is not run. */
const NOT_RUN: readonly RegExp[] = [
  /^docker /, // needs a Docker engine
  /^kubectl /, // needs a cluster
  /^(sudo|useradd|systemd-run) /, // changes the machine
  /^npm (ci|install) /, // .ci/run does it
  /^(npm run (bench|chaos|check|format|soak)|npx vitest)\b/, // takes long, or runs this very test
  /^crmsync (approvals (approve|reject)|.*--why) /, // needs two persons: test/integration/approvals
  /^node deploy\//, // writes into the repository
  /^(crmsync sandbox (--.*)?|npm start .*)$/, // serves until Ctrl-C; one daemon runs for all blocks
];

export const runnable = (page: string): Block[] =>
  blocksOf(page).filter(({ text }) => {
    const commands = commandsIn(text).map((command) => `${command.join(" ")} `);
    return !commands.some((command) => NOT_RUN.some((pattern) => pattern.test(command)));
  });
