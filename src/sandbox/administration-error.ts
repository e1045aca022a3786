/** What the operator asked for cannot be done; the message says why. */
export class AdministrationError extends Error {
  override readonly name = "AdministrationError";
}
