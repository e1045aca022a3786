import { UserError } from "../../ops/user-error.ts";
import { AdministrationError } from "../../sandbox/administration-error.ts";
import { SandboxDatabaseError } from "../../sandbox/database.ts";
import { isClosedPipe } from "../closed-pipe.ts";

/** Runs a command. An error that the user can correct is thrown as a UserError. */
export async function withUserErrors(command: () => Promise<void>): Promise<void> {
  try {
    await command();
  } catch (error) {
    throw isUsersToCorrect(error) ? new UserError(error.message) : error;
  }
}

function isUsersToCorrect(error: unknown): error is Error {
  return (
    error instanceof AdministrationError ||
    error instanceof SandboxDatabaseError ||
    // A system call failed: for example, a file does not exist or a port is in use.
    (error instanceof Error && "syscall" in error && !isClosedPipe(error))
  );
}
