/** Something that the user can correct; its message says how, and no stack is shown. */
export class UserError extends Error {
  override readonly name = "UserError";
}
