import { UserError } from "../ops/user-error.ts";

/** A failure for a reason that may pass by itself: the same run, made again, may succeed. */
export class TryLater extends UserError {}
