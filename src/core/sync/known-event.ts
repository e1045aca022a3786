/** Whether an event came before, and to which relation its record led. Pure. */
import { newestOrders } from "./known.ts";
import type { KnownRecord } from "./record.ts";
import type { StateToStage } from "./stage.ts";

/** Whether an event of this source and id came before: with the same content, or with another one. */
export type SeenAs = "same" | "changed" | undefined;

/** Of events with one id, the contents of so many are remembered. */
const MOST_CONTENTS = 16;

/** Stands for the content of a state that no event brought. */
const NO_CONTENT = "-";

/** @param contents what is remembered of its key */
export function seenAs(contents: string | null, content: string = NO_CONTENT): SeenAs {
  if (contents === null) return undefined;
  return contentsIn(contents).has(content) ? "same" : "changed";
}

/** What is remembered of an event: hashes of its contents, those of reads with the number of their arrival. */
const contentsIn = (contents: string | null): Map<string, string> =>
  new Map(
    (contents ?? "").split(" ").map((one) => {
      const [content = "", arrival = ""] = one.split(":");
      return [content, arrival] as const;
    }),
  );

const arrivalIn = (order: string): string => order.slice(order.lastIndexOf("\t") + 1);

type Told = Pick<StateToStage, "content" | "isRead" | "order" | "payload">;

/** A record that was read, changed, and read again as it was within one second: the times are equal, and so are the events. */
export function isNews(
  { content = NO_CONTENT, isRead, payload }: Told,
  contents: string | null,
  known: KnownRecord,
): boolean {
  const newest = newestOrders(known)[payload === undefined ? "status" : "fields"];
  return isRead === true && arrivalIn(newest) > (contentsIn(contents).get(content) ?? "");
}

/** What is remembered of the event from now on. */
export function contentsAfter(
  { content = NO_CONTENT, isRead, order }: Told,
  contents: string | null,
): string {
  const told = isRead === true ? `${content}:${arrivalIn(order)}` : content;
  const others = contents?.split(" ").filter((one) => !one.startsWith(`${content}:`)) ?? [];
  return [...others.slice(1 - MOST_CONTENTS), told].join(" ");
}

type Led = Pick<StateToStage, "crmCode" | "fieldsOrder" | "noted" | "order" | "writer">;

/** The crmCode to which a record of the CRM led before: in most mappings its own id. */
export function codeBefore({ noted }: Pick<Led, "noted">, led: string | null): string {
  const subject = noted?.event.subject ?? "";
  return led ?? subject.slice(subject.indexOf("/") + 1);
}

/**
 * To which crmCode a record of the CRM leads, where its own id does not say it: its deletion may come without it. An event
 * that is late says where it led before.
 * @param other the record of the crmCode to which it led before, if it is another one
 * @returns `leads`: it is to be remembered; `double`: two relations of one record, the older one first
 */
export function whereItLeads(
  state: Led,
  led: string | null,
  other: KnownRecord | undefined,
): { readonly leads: boolean; readonly double?: readonly [string, string] } {
  const { crmCode, fieldsOrder, order, writer } = state;
  const before = codeBefore(state, led);
  if (before === crmCode) return { leads: false };
  const wrote = [other?.row?.writer, other?.staged?.fields?.writer].includes(writer);
  const isOf = wrote && writer !== undefined && other !== undefined;
  if (isOf && newestOrders(other).fields > (fieldsOrder ?? order))
    return { leads: false, double: [crmCode, before] };
  return led === null && !isOf ? { leads: true } : { leads: true, double: [before, crmCode] };
}
