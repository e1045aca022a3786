/** Everything that can be typed after `crmsync`, read from the commands themselves. */
import type { Argument, Command, Option } from "commander";
import { Choice } from "../choice.ts";

/** What follows an option, or stands as an argument. */
export interface Operand {
  /** The closed set of values; empty when any value is possible. */
  readonly values: readonly string[];
  readonly isFile: boolean;
}

export interface CompletedOption {
  /** With its dashes. */
  readonly names: readonly string[];
  readonly description: string;
  /** Undefined for a switch. */
  readonly operand: Operand | undefined;
}

export interface CompletedCommand {
  /** Its words after `crmsync`, joined by a blank; "" for crmsync itself. */
  readonly path: string;
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletedOption[];
  readonly arguments: readonly Operand[];
}

export function commandsOf(command: Command, path = ""): CompletedCommand[] {
  const help = command.createHelp();
  const subcommands = help.visibleCommands(command);
  const below = subcommands
    .filter((inner) => command.commands.includes(inner))
    .flatMap((inner) => commandsOf(inner, join(path, inner.name())));
  return [
    {
      path,
      subcommands: subcommands.map((inner) => ({
        name: inner.name(),
        description: inner.description(),
      })),
      options: help.visibleOptions(command).map(completedOption),
      arguments: command.registeredArguments.map((argument) => operandOf(argument)),
    },
    ...below,
  ];
}

export const join = (path: string, word: string): string =>
  path === "" ? word : `${path} ${word}`;

function completedOption(option: Option): CompletedOption {
  return {
    names: [option.long, option.short].filter((name) => name !== undefined),
    description: option.description,
    operand: option.required || option.optional ? operandOf(option) : undefined,
  };
}

function operandOf(from: Option | Argument): Operand {
  const values = from instanceof Choice ? from.values : (from.argChoices ?? []);
  // A mapping is a file or a preset.
  const name = "flags" in from ? from.flags : from.name();
  return { values, isFile: /\b(?:file|dir|mapping)\b/.test(name.replace(/^.*</, "")) };
}
