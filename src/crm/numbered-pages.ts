/** Lists whose pages are numbered: when a record leaves such a list, those after it move to earlier pages. */
import { isObject, textOf, type Json } from "./json-value.ts";
import { NO_LIST, toPage, type ListedPage, type NotListed } from "./record-lister.ts";
import type { ApiResult } from "./record-reader.ts";

interface NumberedList {
  /** Where the answer has its records. */
  readonly list: string;
  /** Where `meta` has the number of all records; `total_pages` is that of pages. */
  readonly total: string;
}

/** The first page has no place; another one has its number, and how many records there were. */
export const pageNumberOf = (place: string | undefined): number =>
  Number(place?.split("|")[0] ?? 1);

/** @param place the one that was asked for. */
export function toNumberedPage(
  result: ApiResult,
  { list, total: totalName }: NumberedList,
  place: string | undefined,
): ListedPage | NotListed {
  if (result.kind !== "found") return result;
  const { meta } = result.body;
  const counts = isObject(meta) ? [meta[totalName], meta["total_pages"]] : [];
  const [total, pages] = counts.map(countOf);
  if (total === undefined || pages === undefined) return NO_LIST;
  return toPage(result, "id", (body: Json) => {
    const records = body[list];
    const size = Array.isArray(records) ? records.length : 0;
    return { list: records, total, next: placeAfter(place, size, total, pages) };
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
