import { Argument, Command, type Option } from "commander";
import { Choice, oneOf } from "./choice.ts";

/** Each asks this command what may come next; where it knows nothing, it may be a file. */
const SCRIPTS = {
  bash: `_crmsync() {
  local IFS=$'\\n'
  COMPREPLY=($(command crmsync completion bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _crmsync crmsync
`,
  zsh: `_crmsync() {
  local -a offer=("\${(@f)$(command crmsync completion zsh -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ $PREFIX == --*=* ]]; then compset -P '*='; fi
  if [[ -n "$offer" ]]; then compadd -a offer; else _files; fi
}
if (( ! $+functions[compdef] )); then autoload -U compinit && compinit -u; fi
compdef _crmsync crmsync
`,
  fish: `function __crmsync
    set -l word (commandline -ct)
    set -l option (string match -r '^--[^=]*=' -- $word)
    set -l offer (command crmsync completion fish -- (commandline -opc)[2..] "$word" 2>/dev/null)
    test -n "$offer"; or set offer (__fish_complete_path (string replace -- "$option" '' $word))
    printf '%s\\n' "$option"$offer
end
complete -c crmsync -f -a '(__crmsync)'
`,
} as const;

type Shell = keyof typeof SCRIPTS;

const SHELLS = Object.keys(SCRIPTS);

type Load = (wanted?: string) => Promise<Command>;

/** @param createProgram loads the command of this name, or all. */
export function completionCommand(createProgram: Load): Command {
  return new Command("completion")
    .description("print a script that completes commands, options and their values in a shell")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS).argParser(oneOf(SHELLS)))
    .argument("[words...]", "as the script asks: print what may stand in the place of the last one")
    .addHelpText(
      "after",
      `
For this shell alone, or in ~/.bashrc or ~/.zshrc:
  source <(crmsync completion bash)
  source <(crmsync completion zsh)
In fish, once:
  crmsync completion fish > ~/.config/fish/completions/crmsync.fish`,
    )
    .action(async (shell: Shell, words: readonly string[]) => {
      const text = words.length === 0 ? SCRIPTS[shell] : await offerFor(createProgram, words);
      process.stdout.write(text);
    });
}

/** @param words those after `crmsync`. @returns what may stand in the place of the last one, a line each. */
async function offerFor(createProgram: Load, words: readonly string[]): Promise<string> {
  // bash takes --option=value for three words.
  const before = words.slice(0, -1).filter((word) => word !== "=");
  const last = words.at(-1)?.replace(/^=$/, "") ?? "";
  const [, given, value = last] = /^(--[^=]+)=(.*)$/s.exec(last) ?? [];
  if (given !== undefined) before.push(given);
  let command = await createProgram(before[0]);
  let option: Option | undefined;
  for (const word of before) {
    const isValue = option !== undefined;
    option = isValue ? undefined : command.options.find((one) => isOf(one, word));
    if (isValue || option !== undefined) continue;
    command = command.commands.find((inner) => inner.name() === word) ?? command;
  }
  return wordsAt(command, option, value)
    .filter((word) => word.startsWith(value))
    .map((word) => `${word}\n`)
    .join("");
}

/** Whether the word is this option, and its value follows. */
const isOf = ({ long, optional, required, short }: Option, word: string): boolean =>
  (required || optional) && (word === long || word === short);

function wordsAt(command: Command, option: Option | undefined, value: string): readonly string[] {
  if (option instanceof Choice) return option.values;
  if (option !== undefined) return option.argChoices ?? [];
  const help = command.createHelp();
  return value.startsWith("-")
    ? help.visibleOptions(command).flatMap(({ long, short }) => [long ?? [], short ?? []].flat())
    : [
        ...help.visibleCommands(command).map((inner) => inner.name()),
        ...command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
      ];
}
