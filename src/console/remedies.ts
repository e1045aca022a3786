/** What docs/runbook.md says to look at and to do about a finding. */
import { existsSync, readFileSync } from "node:fs";
import { ROOT } from "../ops/version.ts";
import { html, type Html } from "./html.ts";

interface Remedy {
  readonly look: string | undefined;
  readonly act: string | undefined;
}

let sections: ReadonlyMap<string, Remedy> | undefined;

/** @param runbook as a finding names it: `docs/runbook.md#section`. */
export function remedyView(runbook: string): Html {
  sections ??= readSections(runbookText());
  const { look, act } = sections.get(runbook.split("#")[1] ?? "") ?? {};
  return html`${look !== undefined && html`<p class="remedy"><strong>Look.</strong> ${inline(look)}</p>`}
    ${act !== undefined && html`<p class="remedy"><strong>Do.</strong> ${inline(act)}</p>`}
    <p class="remedy"><code>${runbook}</code></p>`;
}

/** A page without remedies is better than none. */
function runbookText(): string {
  const file = new URL("docs/runbook.md", ROOT);
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

/** Section, as links name it → its two paragraphs. */
export function readSections(markdown: string): ReadonlyMap<string, Remedy> {
  const parts = markdown.split(/^### /m).slice(1);
  return new Map(
    parts.map((part) => {
      const [title = ""] = part.split("\n", 1);
      const name = title
        .toLowerCase()
        .replaceAll(/[^\w -]/g, "")
        .replaceAll(" ", "-");
      return [name, { look: paragraph(part, "Look"), act: paragraph(part, "Do") }];
    }),
  );
}

/** What stands behind a bold word, up to the next one or the end of its paragraph or list. */
function paragraph(part: string, word: string): string | undefined {
  const [, text] = new RegExp(`\\*\\*${word}\\.\\*\\*([^]*)`).exec(part) ?? [];
  const [own] = text?.split(/\*\*[A-Z]\w+\.\*\*|\n\n(?!- |\d+\. )/, 1) ?? [];
  return own
    ?.trim()
    .replaceAll(/\s*\n- /g, " • ")
    .replaceAll(/\s+/g, " ");
}

/** Code, links and emphasis of Markdown; a link and what is emphasised show their text. */
const inline = (text: string): Html[] =>
  text
    .replaceAll(/\[([^\]]+)\]\([^)]*\)/g, "$1")
    .split("`")
    .map((piece, n) =>
      n % 2 === 0 ? html`${piece.replaceAll(/\*([^*]+)\*/g, "$1")}` : html`<code>${piece}</code>`,
    );
