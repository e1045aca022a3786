/** The operator asked for something that cannot be done; the message says why. */
export class AdministrationError extends Error {
  override readonly name = "AdministrationError";
}
