const NUMBER_DIGITS = 16;

/** The order of an event, which lua/short-order.lua has shortened in a staged hash. */
export function wholeOrder(short: string): string {
  const [, time, number = ""] = /^(.*)~(\d+)$/s.exec(short) ?? [];
  if (time === undefined) return short;
  return `${time}000000Z\t\t${number.padStart(NUMBER_DIGITS, "0")}`;
}

/** When the event of an order happened, ms; NaN for a text that is none. */
export const timeOfOrder = (order: string): number => Date.parse(order.split("\t")[0] ?? "");
