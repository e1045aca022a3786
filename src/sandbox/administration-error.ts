/** The operator asked for something that cannot be done, or the file cannot be used; the message says why. */
export class AdministrationError extends Error {
  override readonly name = "AdministrationError";
}
