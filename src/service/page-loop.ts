/** What one listing has brought, page after page: it recognises a listing that would never end. */
import type { Page } from "./reply.ts";

/** A service may answer a page without a match, and a next cursor; not again and again. */
const MOST_IDLE_PAGES = 2;

export class PageLoop {
  readonly #cursors = new Set<string>();
  readonly #codes = new Set<string>();
  #idle = 0;

  /**
   * @returns the crmCodes of the page that no page before had; and whether the listing goes on without an end: with
   *   a cursor that it has given before, or with pages that bring no new relation.
   */
  add({ relations, nextCursor }: Page): {
    readonly fresh: ReadonlySet<string>;
    readonly isEndless: boolean;
  } {
    const codes = relations.map(({ crmCode }) => crmCode);
    const fresh = new Set(codes.filter((code) => !this.#codes.has(code)));
    for (const code of fresh) this.#codes.add(code);
    if (nextCursor === undefined) return { fresh, isEndless: false };
    this.#idle = fresh.size > 0 ? 0 : this.#idle + 1;
    const isAgain = this.#cursors.has(nextCursor);
    this.#cursors.add(nextCursor);
    return { fresh, isEndless: isAgain || this.#idle > MOST_IDLE_PAGES };
  }
}
