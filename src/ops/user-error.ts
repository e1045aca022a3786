/** Something that the user can correct; its message says how, and no stack is shown. */
export class UserError extends Error {
  constructor(message: string) {
    super(message);
    this.name = "UserError";
  }
}
