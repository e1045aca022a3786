import { PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PAGE_SIZE_MIN } from "../core/service-spec/limits.ts";
import type { UnknownFields } from "./validate-relation.ts";

export interface ListParameters {
  readonly pageSize: number;
  readonly includeTerminated: boolean;
  readonly cursor: string | undefined;
}

export const LIST_PARAMETERS = [
  {
    name: "includeTerminated",
    description: "Also list terminated business relations.",
    schema: { type: "boolean", default: false },
  },
  {
    name: "pageSize",
    description: "Business relations per page.",
    schema: {
      type: "integer",
      minimum: PAGE_SIZE_MIN,
      maximum: PAGE_SIZE_MAX,
      default: PAGE_SIZE_DEFAULT,
    },
  },
  {
    name: "cursor",
    description: "The nextCursor of the previous page.",
    schema: { type: "string" },
  },
] as const;

/** Reads the query of a list request: its parameters, or all of its problems. */
export function parseListParameters(
  query: URLSearchParams,
  unknownParameters: UnknownFields,
): ListParameters | { readonly problems: string[] } {
  const problems: string[] = [];
  for (const name of new Set(query.keys())) {
    if (!LIST_PARAMETERS.some((known) => known.name === name)) {
      if (unknownParameters === "reject") {
        problems.push(`${JSON.stringify(name.slice(0, 50))} is not a parameter of this operation`);
      }
    } else if (query.getAll(name).length > 1) {
      problems.push(`${name} is given more than once`);
    }
  }
  const pageSize = query.get("pageSize") ?? String(PAGE_SIZE_DEFAULT);
  if (!isPageSize(pageSize)) {
    problems.push(`pageSize must be an integer from ${PAGE_SIZE_MIN} to ${PAGE_SIZE_MAX}`);
  }
  const includeTerminated = query.get("includeTerminated") ?? "false";
  if (includeTerminated !== "true" && includeTerminated !== "false") {
    problems.push("includeTerminated must be true or false");
  }
  if (problems.length > 0) return { problems };
  return {
    pageSize: Number(pageSize),
    includeTerminated: includeTerminated === "true",
    cursor: query.get("cursor") ?? undefined,
  };
}

function isPageSize(text: string): boolean {
  return /^\d+$/.test(text) && Number(text) >= PAGE_SIZE_MIN && Number(text) <= PAGE_SIZE_MAX;
}
