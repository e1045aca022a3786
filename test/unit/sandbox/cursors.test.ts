import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { Cursors } from "../../../src/sandbox/cursors.ts";

const cursors = new Cursors(randomBytes(32));
const place = { from: 5000, until: 100_000 };

test("reading a cursor returns the place that was written", () => {
  expect(cursors.read(1, cursors.write(1, place))).toEqual(place);
});

test("a cursor is invalid for another tenant and with another key", () => {
  const cursor = cursors.write(1, place);
  expect(cursors.read(2, cursor)).toBeUndefined();
  expect(cursors.read(11, cursor)).toBeUndefined();
  expect(new Cursors(randomBytes(32)).read(1, cursor)).toBeUndefined();
});

test("a changed cursor is invalid", () => {
  const cursor = cursors.write(1, place);
  const position = fc.integer({ min: 0, max: cursor.length - 1 });
  fc.assert(
    fc.property(position, fc.string({ maxLength: 2 }), (at, text) => {
      const changed = cursor.slice(0, at) + text + cursor.slice(at + 1);
      fc.pre(changed !== cursor);
      expect(cursors.read(1, changed)).toBeUndefined();
    }),
  );
  for (const other of ["", "=", `${cursor}=`, `${cursor} `, `${cursor}A`, cursor.slice(0, -1)]) {
    expect(cursors.read(1, other)).toBeUndefined();
  }
});
