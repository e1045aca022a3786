/** Recognises a listing that would never end. */
import type { Page } from "./reply.ts";

/** A service may answer a page without a match, and a next cursor; not again and again. */
const MOST_IDLE_PAGES = 2;

/** Of one listing, page after page. */
export class PageLoop {
  readonly #cursors = new Set<string>();
  #before: ReadonlySet<string> = new Set();
  #idle = 0;

  /**
   * Whether the listing goes on without an end: with a cursor that it has given before, or with pages that bring no
   * relation but those of the page before.
   */
  isSeen({ relations, nextCursor }: Page): boolean {
    if (nextCursor === undefined) return false;
    const isNew = relations.some(({ crmCode }) => !this.#before.has(crmCode));
    this.#before = new Set(relations.map(({ crmCode }) => crmCode));
    this.#idle = isNew ? 0 : this.#idle + 1;
    const isAgain = this.#cursors.has(nextCursor);
    this.#cursors.add(nextCursor);
    return isAgain || this.#idle > MOST_IDLE_PAGES;
  }
}
