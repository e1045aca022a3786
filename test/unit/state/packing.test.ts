import { createHash } from "node:crypto";
import { deflateRawSync } from "node:zlib";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pack, unpack } from "../../../src/state/packing.ts";
import { DICTIONARIES } from "../../../src/state/packing-dictionary.ts";
import { DamagedValue } from "../../../src/state/sealing.ts";
import { personEvent } from "../../support/person-event.ts";

const json = fc
  .oneof(fc.jsonValue({ maxDepth: 4 }), fc.string({ unit: "binary" }))
  .map((value) => JSON.stringify(value));

const roundTrip = async (payload: string, event: string) => unpack(await pack({ payload, event }));

describe("a packed value", () => {
  test("has what was packed, whatever the JSON", () =>
    fc.assert(
      fc.asyncProperty(json, json, async (payload, event) => {
        expect(await roundTrip(payload, event)).toEqual({ payload, event });
        expect(await roundTrip("", event)).toEqual({ payload: "", event });
        expect(await roundTrip(payload, "")).toEqual({ payload, event: "" });
      }),
      { numRuns: 150 },
    ));

  test.each([
    ["lone surrogates", "\ud800 \udfff"],
    ["emoji", "👩‍👩‍👧‍👦 Zoë"],
    ["U+0000", "\0"],
    ["1 MB that compresses well", "Luxembourg ".repeat(90_000)],
    ["1 MB that does not", createHash("shake256", { outputLength: 500_000 }).digest("hex")],
  ])("has %s", async (_what, text) => {
    const event = JSON.stringify({ ...personEvent("1"), text });
    expect(await roundTrip(JSON.stringify({ text }), event)).toEqual({
      payload: JSON.stringify({ text }),
      event,
    });
  });

  test("takes a quarter of its texts", async () => {
    const fields = {
      firstName: "Katarzyna",
      lastName: "Oberweis",
      birthDate: "1968-07-23",
      countryOfResidence: "PL",
      address: "81, rue du Fossé",
      city: "Gdynia",
      email: "k.oberweis@chello.pl",
    };
    // The dictionary has texts of 2026: a later time takes some bytes more.
    const event = personEvent("100234", fields, { id: "4711-6", time: "2026-11-24T10:15:30.123Z" });
    const record = JSON.stringify((event["data"] as { record: unknown }).record);
    const texts = { payload: record, event: JSON.stringify(event) };
    const packed = await pack(texts);
    expect(packed.length).toBeLessThan((texts.payload.length + texts.event.length) / 4);
  });

  test.each([
    ["is empty", Buffer.alloc(0)],
    ["has no separator", Buffer.from("\0payload and event")],
    ["names an unknown dictionary", Buffer.from([99, 1, 2, 3])],
    ["is no deflate", Buffer.from([1, 0xff, 0xff, 0xff])],
    ["is longer than any", Buffer.concat([Buffer.of(1), deflateRawSync(Buffer.alloc(65 << 20))])],
  ])("that %s is damaged", async (_what, packed) => {
    await expect(unpack(packed)).rejects.toThrow(DamagedValue);
  });

  test("that is cut off is damaged", async () => {
    const packed = await pack({ payload: "{}", event: JSON.stringify(personEvent("1")) });
    for (const length of [1, 5, packed.length - 1]) {
      await expect(unpack(packed.subarray(0, length)), String(length)).rejects.toThrow(
        DamagedValue,
      );
    }
  });
});

test("a dictionary never changes: values that were packed with it must be read", () => {
  const digests = [...DICTIONARIES].map(([number, bytes]) => [
    number,
    createHash("sha256").update(bytes).digest("hex").slice(0, 16),
  ]);
  expect(digests).toEqual([[1, "0e16f2fd5a3cd79e"]]);
});
