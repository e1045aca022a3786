import { expect, test } from "vitest";
import { PageLoop } from "../../../src/core/service/list-pages.ts";

const page = (codes: string, nextCursor?: string) => ({
  kind: "page" as const,
  relations: codes.split("").map((crmCode) => ({ crmCode })),
  ...(nextCursor !== undefined && { nextCursor }),
});

const isEndless = (...pages: ReturnType<typeof page>[]) => {
  const loop = new PageLoop();
  return pages.map((one) => loop.add(one).isEndless);
};

test("a listing has no end when a cursor comes again, or when three pages in a row bring nothing new", () => {
  expect(isEndless(page("a", "1"), page("b", "2"), page("c", "1"))).toEqual([false, false, true]);
  const around = [page("ab", "1"), page("cd", "2"), page("ab", "3"), page("cd", "4")];
  expect(isEndless(...around, page("ab", "5"))).toEqual([false, false, false, false, true]);
  expect(isEndless(page("", "1"), page("", "2"), page("a", "3"), page("", "4"))).not.toContain(
    true,
  );
  expect(isEndless(page("a", "1"), page("a", "2"), page("a", "3"), page("a"))).not.toContain(true);
});

test("a relation counts once, however many pages have it", () => {
  const loop = new PageLoop();
  const fresh = ["aab", "bc", "c"].map((codes, n) => [...loop.add(page(codes, `${n}`)).fresh]);
  expect(fresh).toEqual([["a", "b"], ["c"], []]);
});
