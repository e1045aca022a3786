import { expect, it } from "vitest";
import { believableTime, eventOrder, normalTime } from "../../../src/core/event/event-order.ts";

it.each([
  ["2026-11-20T09:30:11.902Z", "2026-11-20T09:30:11.902000000Z"],
  ["2026-11-20T09:30:11+05:30", "2026-11-20T04:00:11.000000000Z"],
  ["2026-11-20t09:30:11.1234567891z", "2026-11-20T09:30:11.123456789Z"],
  ["2026-04-31T00:00:00Z", undefined],
  ["2026-04-31T00:00:00.000Z", undefined],
  ["2026-04-30T23:59:59.999Z", "2026-04-30T23:59:59.999000000Z"],
  ["2026-02-29T10:00:00.000Z", undefined],
  ["2028-02-29T10:00:00.000Z", "2028-02-29T10:00:00.000000000Z"],
  ["2026-00-10T10:00:00.000Z", undefined],
  ["2026-02-00T10:00:00.000Z", undefined],
  ["2026-02-10T10:60:00.000Z", undefined],
  ["2026-11-20", undefined],
  ["2026-11-20T09:30:11", undefined],
  ["yesterday", undefined],
])("reads %s as %s", (text, expected) => {
  expect(normalTime(text)).toBe(expected);
});

it("orders by time, then sequence as text, then arrival", () => {
  const at = (time: string, sequence: string | undefined, arrival: number) =>
    eventOrder({ time, sequence }, arrival);
  const inOrder = [
    at("2026-11-20T09:30:11Z", undefined, 900),
    at("2026-11-20T10:30:11.5+01:00", "z", 1),
    at("2026-11-20T09:30:11.500001Z", undefined, 2),
    at("2026-11-20T09:30:11.500001Z", "0009", 1),
    at("2026-11-20T09:30:11.500001Z", "0010", 1),
    at("2026-11-20T09:30:11.500001Z", "0010", 9),
    at("2026-11-20T09:30:11.500001Z", "0010", 10),
    at("2026-11-20T09:30:11.500001Z", "00100", 1),
  ];
  const bytes = (text: string) => Buffer.from(text);
  expect(inOrder.toSorted((a, b) => Buffer.compare(bytes(a), bytes(b)))).toEqual(inOrder);
});

it("orders by sequence as numbers where its type says so", () => {
  const order = (sequence: string, sequencetype?: string) =>
    eventOrder({ time: "2026-11-20T09:30:11Z", sequence, sequencetype }, 1);
  const numbers = ["-2147483648", "-9", "0", "9", "10", "+11", "2147483647", "999999999999999999"];
  const orders = numbers.map((sequence) => order(sequence, "Integer"));
  expect(orders.toSorted()).toEqual(orders);
  expect(order("010", "Integer")).toBe(order("10", "integer"));
  expect(order("9") > order("10")).toBe(true);
  expect(order("9", "Letters") > order("10", "Letters")).toBe(true);
});

it.each([
  ["a time of the past", "2026-11-20T09:30:11+00:00", "2026-11-20T09:30:11+00:00"],
  ["a time within the tolerance", "2026-11-20T10:00:00.900Z", "2026-11-20T10:00:00.900Z"],
  ["a time beyond it", "2026-11-21T09:00:00Z", "2026-11-20T10:00:01.000Z"],
  ["no time", undefined, "2026-11-20T09:59:59.000Z"],
])("%s", (_what, time, expected) => {
  const arrivedAt = Date.parse("2026-11-20T10:00:00Z");
  expect(believableTime(time, arrivedAt - 1000, arrivedAt)).toBe(expected);
});

it("a sender's own time of sending counts only while it is not ahead", () => {
  const arrivedAt = Date.parse("2026-11-20T10:00:00Z");
  const yearAhead = Date.parse("2027-11-20T10:00:00Z");
  expect(believableTime(undefined, yearAhead, arrivedAt)).toBe("2026-11-20T10:00:00.000Z");
});
