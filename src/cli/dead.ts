/** `crmsync dead`: lists, shows, redrives and drops dead letters. */
import { Command, InvalidArgumentError } from "commander";
import { GROUP_ID } from "../dead-letters/group-of.ts";
import { DEAD_REASONS } from "../sync/dead-letter.ts";
import { EVENT_FIELDS, RECORD_FIELDS } from "../sync/outcomes.ts";
import { WHY_OPTION } from "./asked.ts";
import { Choice } from "./choice.ts";
import { drop, redrive, type ActOptions } from "./dead/act.ts";
import { list, show } from "./dead/list.ts";

/** As the metrics and the log name them. */
const FIELDS = [...new Set([...RECORD_FIELDS, ...EVENT_FIELDS, "other"])];

const NAMES = "its id as list shows it, its crmCode, or its record, such as contact/7";

export function deadCommand(): Command {
  const dead = new Command("dead")
    .description("list, show, redrive and drop dead letters")
    .addHelpText(
      "after",
      `
A dead letter is deleted DEAD_LETTER_DAYS (30) after it was stored last; list says when that is.`,
    );
  filtered(dead, "list", "list them, oldest first")
    .option("--json", "print one line of JSON per dead letter, or per group")
    .option("--group", "one entry per fault, with its number of dead letters, largest first")
    .action(list);
  dead
    .command("show")
    .description("show one dead letter with its event (which contains personal data)")
    .argument("<name>", NAMES)
    .option("--json", "print as JSON")
    .action(show);
  selecting(
    dead,
    "redrive",
    "accept the events again, in their original order; a dead letter stays until its record passes",
    redrive,
  )
    .option("--yes", "with --apply on a terminal: do not ask")
    .option("--dry-run", "only say what would pass now, which is what happens without --apply")
    .addHelpText(
      "after",
      `
It says beforehand what would become of each event now, by the present mapping (MAPPING), validation
and value lists. With --apply on a terminal it says so too, and asks.`,
    );
  selecting(dead, "drop", "delete them for good", drop).option(...WHY_OPTION);
  return dead;
}

function filtered(dead: Command, name: string, description: string): Command {
  return dead
    .command(name)
    .description(description)
    .addOption(new Choice("--reason <reason>", "only dead letters of this reason", DEAD_REASONS))
    .addOption(
      new Choice(
        "--field <field>",
        "only dead letters that name this field of the service or the event",
        FIELDS,
      ),
    )
    .option("--source <source>", "only dead letters of events from this source")
    .option(
      "--in-group <id>",
      "only dead letters of this group, as list --group shows it",
      groupId,
    );
}

function selecting(
  dead: Command,
  name: string,
  description: string,
  act: (names: readonly string[], options: ActOptions) => Promise<void>,
): Command {
  return filtered(dead, name, description)
    .argument("[names...]", `${NAMES}; without, the filters or --all select them`)
    .option("--all", "all dead letters")
    .option("--apply", "do it; without it, only print what would be done")
    .option("--json", "print the numbers as one line of JSON")
    .action((names: string[], options: ActOptions, command: Command) => {
      const { all, apply, dryRun, field, inGroup, reason, source, yes } = options;
      if (apply && dryRun) command.error("error: give --apply or --dry-run, not both");
      if (yes && !apply) command.error("error: --yes needs --apply");
      const isSelected = Boolean(all || reason || field || source || inGroup);
      if (names.length > 0 && isSelected) {
        command.error("error: select by names, or by --all and filters, not both");
      }
      if (names.length > 0 || isSelected) return act(names, options);
      command.error(
        "error: select dead letters: by their names, --reason, --field, --source, --in-group, or --all",
      );
    });
}

function groupId(text: string): string {
  if (GROUP_ID.test(text)) return text;
  throw new InvalidArgumentError("It must be the id of a group, such as g:0123456789.");
}
