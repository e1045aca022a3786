import { UserError } from "../ops/user-error.ts";

/** Arguments or options that make no sense together: exit code 2. */
export class WrongUsage extends UserError {}
