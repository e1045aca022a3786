import { relative } from "node:path";
import { fileURLToPath } from "node:url";

/** How this command is called where it runs: installed, or in a checkout. */
export function commandName(): string {
  const isCheckout = import.meta.url.endsWith(".ts");
  const main = relative(".", fileURLToPath(new URL("main.ts", import.meta.url)));
  return isCheckout ? `node ${/\s/.test(main) ? `'${main}'` : main}` : "crmsync";
}
