import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createProgram } from "../../../src/cli/program.ts";
import { checkCommand, checkMention, checkVariables } from "../../support/command-line.ts";
import {
  blocksOf,
  checkSyntax,
  commandsIn,
  nameOf,
  PAGES,
  ROOT,
} from "../../support/doc-blocks.ts";

const BLOCKS = PAGES.flatMap(blocksOf);

it.for(BLOCKS.map((block) => [nameOf(block), block.text] as const))(
  "the commands of %s exist, with these options",
  async ([, text]) => {
    checkSyntax(text);
    checkVariables(text);
    const commands = commandsIn(text);
    expect(commands).not.toEqual([]);
    for (const command of commands) await checkCommand(command);
  },
);

/** `crmsync dead list` in a sentence or a table. */
const MENTION = /`crmsync ([a-z][^`\n]*)`/g;

it.for(PAGES)("every command that %s mentions exists, with these options", async (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  for (const [, words = ""] of text.matchAll(MENTION)) await checkMention(words.split(/\s+/));
});

it.for(["demo", "reconcile", "sandbox"])(
  "docs/%s.md explains every option of its command",
  async (name) => {
    const text = readFileSync(join(ROOT, `docs/${name}.md`), "utf8");
    const command = (await createProgram()).commands.find((each) => each.name() === name);
    const options = command?.options.map(({ long }) => long ?? "") ?? [];
    expect(options).toContain("--json");
    expect(options.filter((option) => !text.includes(option))).toEqual([]);
  },
);

it.for(PAGES)("every redis-cli of %s is told which Redis", (page) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  // What follows is an argument: `redis-cli` alone is only named, and in its container it needs no address.
  const without = text.match(/(?<!exec redis )\bredis-cli (?!-u )[^`\n]*/g) ?? [];
  expect(without).toEqual([]);
});

it("the pages show and mention commands", () => {
  expect(BLOCKS.length).toBeGreaterThan(20);
  const text = readFileSync(join(ROOT, "docs/runbook.md"), "utf8");
  expect([...text.matchAll(MENTION)].length).toBeGreaterThan(30);
});

it.for([
  ["crmsnyc status", /unknown tool: crmsnyc/],
  ["crmsync staus", /unknown command 'staus'/],
  ["crmsync status --wach", /unknown option '--wach'/],
  ["crmsync push --lane fast changes.ndjson", /fast/],
  ["crmsync push", /missing required argument/],
  ["crmsync dead redrive --reason oops --apply", /oops/],
  ["docker compose exec crmsync crmsync doctr", /unknown command 'doctr'/],
  ["docker compose exec crmsnyc crmsync doctor", /crmsnyc is none of/],
  ["docker compose --profile dmo up", /dmo is none of/],
  ["kubectl exec deploy/crmsync-snyc -- crmsync status", /no deployment crmsync-snyc/],
  ["kubectl apply -k deploy/kubernets", /deploy\/kubernets does not exist/],
  ["npm run becnh", /no script becnh/],
  ["npm start -- --sandbocks", /unknown option '--sandbocks'/],
  ["npx vitest run --project unitt", /test\/unitt does not exist/],
  ["node deploy/generat.ts", /does not exist/],
  ["cat file | gerp x", /unknown tool: gerp/],
  ["echo $(crmsync dead lst)", /unknown command 'lst'/],
  ["openssl rand 3 > a/b && opnssl rand 3 > a/b", /unknown tool: opnssl/],
] as const)("a mistake is found: %s", async ([text, message]) => {
  const check = async () => {
    for (const command of commandsIn(text)) await checkCommand(command);
  };
  await expect(check()).rejects.toThrow(message);
});

it("a mistake is found: syntax, and a variable that does not exist", () => {
  expect(() => checkSyntax("crmsync status (")).toThrow(/syntax error/);
  expect(() => checkVariables("INGEST_AUHT=none npm start")).toThrow(/INGEST_AUHT/);
});

it.for([
  ["dead lst", /dead has no command lst/],
  ["status --wach", /no option --wach/],
  ["replicate FILE", /crmsync has no command replicate/],
] as const)("a mistake in a sentence is found: crmsync %s", async ([words, message]) => {
  await expect(checkMention(words.split(" "))).rejects.toThrow(message);
});
