/** Lists of contacts whose pages are numbered: when a record leaves such a list, those after it move to earlier pages. */
import { isObject } from "../../core/event/problem.ts";
import { textOf } from "./json-value.ts";
import { NO_LIST, toPage, type ListedPage, type NotListed } from "./record-lister.ts";
import type { ApiResult } from "./record-reader.ts";

/** The first page has no place; another one has its number, and how many records there were. */
export const pageNumberOf = (place: string | undefined): number =>
  Number(place?.split("|")[0] ?? 1);

/**
 * @param totalName where `meta` has the number of all records; `total_pages` is that of pages.
 * @param place the one that was asked for.
 */
export function toNumberedPage(
  result: ApiResult,
  totalName: string,
  place: string | undefined,
): ListedPage | NotListed {
  if (result.kind !== "found") return result;
  const { meta } = result.body;
  const counts = isObject(meta) ? [meta[totalName], meta["total_pages"]] : [];
  const [total, pages] = counts.map(countOf);
  if (total === undefined || pages === undefined) return NO_LIST;
  return toPage(result, "id", ({ contacts: list }) => {
    const size = Array.isArray(list) ? list.length : 0;
    return { list, total, next: placeAfter(place, size, total, pages) };
  });
}

/** One page back for each page of records that have left the list since the page before. */
function placeAfter(
  place: string | undefined,
  size: number,
  total: number,
  pages: number,
): string | undefined {
  const page = pageNumberOf(place);
  const gone = Number(place?.split("|")[1] ?? total) - total;
  const next = gone > 0 ? Math.max(1, page - Math.ceil(gone / Math.max(1, size))) : page + 1;
  return gone > 0 || next <= pages ? `${next}|${total}` : undefined;
}

const countOf = (value: unknown): number | undefined =>
  /^\d{1,9}$/.test(textOf(value)) ? Number(value) : undefined;
