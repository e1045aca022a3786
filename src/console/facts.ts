/** A list of terms and what is so of each; what is undefined, false or empty is left out. */
import { html, type Html, type Value } from "./html.ts";

export const facts = (all: Readonly<Record<string, Value>>): Html =>
  html`<dl>
    ${Object.entries(all)
      .filter(([, value]) => value !== undefined && value !== false && value !== "")
      .map(
        ([term, value]) =>
          html`<dt>${term}</dt>
            <dd>${value}</dd>`,
      )}
  </dl>`;
