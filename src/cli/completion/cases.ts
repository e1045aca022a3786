/** What the scripts decide by: the command so far and a word, as one text. */
import { join, type CompletedCommand, type Operand } from "./command-tree.ts";

/** Words that lead from one command to the next. */
export const stepsOf = (commands: readonly CompletedCommand[]): string[] =>
  commands.map(({ path }) => path).filter((path) => path !== "");

export interface ValueCase {
  /** The option at its command. */
  readonly at: string;
  readonly operand: Operand;
}

/** Options that a value follows. */
export const valueCasesOf = (commands: readonly CompletedCommand[]): ValueCase[] =>
  commands.flatMap(({ path, options }) =>
    options.flatMap(({ names, operand }) =>
      operand === undefined ? [] : names.map((name) => ({ at: join(path, name), operand })),
    ),
  );

/** What may stand where no option stands. */
export const wordsOf = (command: CompletedCommand): Operand => ({
  values: [
    ...command.subcommands.map(({ name }) => name),
    ...command.arguments.flatMap(({ values }) => values),
  ],
  isFile: command.arguments.some(({ isFile }) => isFile),
});
