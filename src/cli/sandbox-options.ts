import { InvalidArgumentError, Option } from "commander";
import { parseNetwork } from "../sandbox/addresses.ts";
import type { Network } from "../sandbox/addresses.ts";
import { AdministrationError } from "../sandbox/administration-error.ts";
import { SandboxDatabaseError } from "../sandbox/database.ts";
import { UserError } from "../ops/user-error.ts";

export function choice<T extends string>(
  flags: string,
  description: string,
  values: readonly T[],
  preset: T,
): Option {
  return new Option(flags, description).choices(values).default(preset);
}

export function integer(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`An integer from ${min} to ${max} is needed.`);
    }
    return value;
  };
}

export function networks(text: string, previous: Network[] = []): Network[] {
  const network = parseNetwork(text);
  if (network === undefined) throw new InvalidArgumentError("An address or network is needed.");
  return [...previous, network];
}

/** Runs a command; what the user can put right is said in one line, without a stack. */
export async function reportFailure(command: () => Promise<void>): Promise<void> {
  try {
    await command();
  } catch (error) {
    throw isUsersToMend(error) ? new UserError(error.message) : error;
  }
}

function isUsersToMend(error: unknown): error is Error {
  return (
    error instanceof AdministrationError ||
    error instanceof SandboxDatabaseError ||
    // A file that is not there, a port that is taken.
    (error instanceof Error && "syscall" in error)
  );
}
