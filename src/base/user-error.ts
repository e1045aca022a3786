/** Something that the user can correct; its message says how, and no stack is shown. */
export class UserError extends Error {
  override readonly name = "UserError";
}

/** A failure for a reason that may pass by itself: the same run, made again, may succeed. */
export class TryLater extends UserError {}
