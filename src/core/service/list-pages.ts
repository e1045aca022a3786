/** Lists the relations of the service, page after page, and recognises a listing that would never end. */
import type { Permit } from "../quota/permit.ts";
import type { Sending, ServiceClient } from "./client.ts";
import type { Page, Reply } from "./reply.ts";

/** A service may answer a page without a match, and a next cursor; not again and again. */
const MOST_IDLE_PAGES = 2;

/** What to ask for after a reply: the next page, the same one, the first one, or nothing more. */
export type Next<Result> = "next" | "again" | "start" | { readonly ends: Result };

/** What a reply answers, and what its page has brought. */
export interface PageAsked extends Seen {
  /** When it was asked for, ms. */
  readonly askedAt: number;
  /** Undefined: the first page. */
  readonly cursor: string | undefined;
}

/**
 * @param from cursor of the page to begin with; undefined: the first one
 * @param take what the caller makes of each reply
 * @returns with what it has ended; undefined: the last page was taken
 */
export async function listPages<Result>(
  service: {
    readonly client: Pick<ServiceClient, "listPage">;
    readonly acquire: () => Promise<Permit>;
    readonly now: () => number;
    readonly sending?: Sending;
  },
  from: string | undefined,
  take: (reply: Reply<"list">, asked: PageAsked) => Promise<Next<Result>>,
): Promise<Result | undefined> {
  let cursor = from;
  let loop = new PageLoop();
  for (;;) {
    const permit = await service.acquire();
    const askedAt = service.now();
    const reply = await service.client.listPage(permit, cursor, service.sending);
    const seen = reply.kind === "page" ? loop.add(reply) : NOTHING_SEEN;
    const next = await take(reply, { askedAt, cursor, ...seen });
    if (typeof next === "object") return next.ends;
    if (next === "start") {
      cursor = undefined;
      loop = new PageLoop();
    } else if (next === "next" && reply.kind === "page") {
      if (reply.nextCursor === undefined) return undefined;
      cursor = reply.nextCursor;
    }
  }
}

/** What a page has brought. */
interface Seen {
  /** Its crmCodes that no page before had. */
  readonly fresh: ReadonlySet<string>;
  /** The listing goes on with a cursor that it has given before, or with pages that bring no new relation. */
  readonly isEndless: boolean;
}

const NOTHING_SEEN: Seen = { fresh: new Set(), isEndless: false };

export class PageLoop {
  readonly #cursors = new Set<string>();
  readonly #codes = new Set<string>();
  #idle = 0;

  add({ relations, nextCursor }: Page): Seen {
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
