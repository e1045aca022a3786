/** Every command, as the table of commands defines it. */
import { InvalidArgumentError, type Command, type Option } from "commander";
import { expect, test } from "vitest";
import { Choice } from "../../../src/cli/arguments.ts";
import { createProgram } from "../../../src/cli/program.ts";

const program = await createProgram();

function allOf(command: Command, path = "crmsync"): [string, Command][] {
  const below = command.commands.flatMap((inner) => allOf(inner, `${path} ${inner.name()}`));
  return [[path, command], ...below];
}

const COMMANDS = allOf(program);

function helpOf(command: Command): string {
  let text = "";
  command.configureOutput({ writeOut: (part) => void (text += part) }).outputHelp();
  return text;
}

test.for(COMMANDS)("the help of `%s` says what everything in it does", ([path, command]) => {
  const help = command.createHelp();
  const text = helpOf(command);
  expect(text).toMatch(new RegExp(`^Usage: ${path}\\b`));
  // A default or a choice that is no text would be printed so.
  expect(text).not.toMatch(/\{\}|\[object|undefined|null|\[\]/);
  const parts = [
    ["the command", help.commandDescription(command)],
    ...help.visibleCommands(command).map((one) => [one.name(), help.subcommandDescription(one)]),
    ...help.visibleOptions(command).map((one) => [one.flags, help.optionDescription(one)]),
    ...command.registeredArguments.map((one) => [one.name(), one.description]),
  ];
  for (const [name, description] of parts) expect(description, name).toMatch(/\w{3}/);
});

/** They print what is for a shell or a file. */
const FOR_FILES = new Set(["crmsync mapping init", "crmsync sandbox export"]);

test("every command that prints has --json", () => {
  const without = COMMANDS.filter(
    ([, { commands, options }]) =>
      commands.length === 0 && !options.some(({ long }) => long === "--json"),
  );
  const names = without.map(([path]) => path);
  expect(names.filter((path) => !FOR_FILES.has(path))).toEqual([]);
});

const optionsWith = (wanted: (option: Option) => boolean) =>
  COMMANDS.flatMap(([path, { options }]) =>
    options.filter(wanted).map((option) => [`${path} ${option.long}`, option] as const),
  );

test("every option with a closed set of values suggests the nearest one", () => {
  const closed = optionsWith((option) => option instanceof Choice);
  expect(closed.length).toBeGreaterThan(15);
  expect(optionsWith(({ argChoices }) => argChoices !== undefined)).toEqual(
    closed.filter(([, { argChoices }]) => argChoices !== undefined),
  );
  for (const [path, option] of closed) {
    if (!(option instanceof Choice)) continue;
    const [value = ""] = option.values;
    expect(option.parseArg?.(value, undefined), path).toBe(value);
    const wrong = () => option.parseArg?.(`${value}x`, undefined);
    expect(wrong, path).toThrow(InvalidArgumentError);
    expect(wrong, path).toThrow(option.values.join(", "));
    expect(wrong, path).toThrow(/; did you mean [\w.-]+\?$/);
  }
});
