import { Argument, Command } from "commander";
import { oneOf } from "./choice.ts";
import { bashScript, zshScript } from "./completion/bash-and-zsh.ts";
import { commandsOf, type CompletedCommand } from "./completion/command-tree.ts";
import { fishScript } from "./completion/fish.ts";

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript } as const satisfies Record<
  string,
  (commands: readonly CompletedCommand[]) => string
>;

const SHELLS = Object.keys(SCRIPTS);

/** @param createProgram loads all commands. */
export function completionCommand(createProgram: () => Promise<Command>): Command {
  return new Command("completion")
    .description("print a script that completes commands, options and their values in a shell")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS).argParser(oneOf(SHELLS)))
    .addHelpText(
      "after",
      `
For this shell alone, or in ~/.bashrc or ~/.zshrc:
  source <(crmsync completion bash)
  source <(crmsync completion zsh)
In fish, once and after each update:
  crmsync completion fish > ~/.config/fish/completions/crmsync.fish`,
    )
    .action(async (shell: keyof typeof SCRIPTS) => {
      process.stdout.write(SCRIPTS[shell](commandsOf(await createProgram())));
    });
}
