/**
 * Asks EspoCRM what has changed by `modifiedAt`, and by `createdAt` of records that were never modified. It does not tell
 * what was deleted: that is what a list of all ids lacks.
 */
import {
  changesByTime,
  type ChangePuller,
  type PulledChange,
  type TimedPage,
} from "./change-puller.ts";
import {
  idsAfter,
  listOf,
  listPage,
  type EspocrmPage,
  type Selection,
  type Where,
} from "./espocrm-api.ts";
import { textOf, timeOf } from "./json-value.ts";
import { NO_LIST, type NotListed } from "./record-lister.ts";

const CHANGED = "modifiedAt";
const CREATED = "createdAt";

export const espocrmPuller: ChangePuller = {
  async open(api, object, fields) {
    const list = await listOf(api, object, fields);
    if (list.kind !== "list") return list;
    return {
      ...changesByTime((since, next) => changedSince(list.page, toSeconds(since), next)),
      async ids(cursor) {
        const page = await listPage(api, object, { where: idsAfter(cursor), select: "id" });
        return page.kind === "page" ? { ...page, ids: page.records.map(({ id }) => id) } : page;
      },
    };
  },
};

/** @param next the field that is asked by; and the last record of the page before, by its time and id. */
async function changedSince(
  list: (selection: Selection) => Promise<EspocrmPage | NotListed>,
  since: string,
  next: string = CHANGED,
): Promise<TimedPage | NotListed> {
  const [field = "", time, id = ""] = next.split("|");
  const after: Where =
    time === undefined
      ? { type: "greaterThanOrEquals", attribute: field, value: since }
      : {
          type: "or",
          value: [
            { type: "greaterThan", attribute: field, value: time },
            {
              type: "and",
              value: [{ type: "equals", attribute: field, value: time }, ...idsAfter(id)],
            },
          ],
        };
  const unchanged: readonly Where[] =
    field === CREATED ? [{ type: "isNull", attribute: CHANGED }] : [];
  // EspoCRM itself sorts by id what has the same time.
  const page = await list({ where: [after, ...unchanged], orderBy: field });
  if (page.kind !== "page") return page;
  const times = new Map(page.listed.map((one) => [one.id, textOf(one.record[field])]));
  if ([...times.values()].some((text) => !TIME.test(text))) return NO_LIST;
  const changes = page.records.map(
    (one): PulledChange & { readonly askedBy: string | undefined } => {
      // Events of EspoCRM carry our clock's time, which its own cannot be compared with.
      return { ...one, at: undefined, askedBy: timeOf(times.get(one.id)) };
    },
  );
  const last = page.next;
  if (last !== undefined)
    return { kind: "page", changes, next: `${field}|${times.get(last)}|${last}` };
  return { kind: "page", changes, next: field === CHANGED ? CREATED : undefined };
}

/** In UTC. */
const TIME = /^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}$/;

const toSeconds = (time: string): string => time.slice(0, 19).replace("T", " ");
