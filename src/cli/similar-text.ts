import type { Similar } from "../state/record-names.ts";

/** What may be meant by a name that nothing has; "": nothing is like it. */
export function similarText({ more, records }: Similar): string {
  const names = records.map(({ crmCode, subject }) =>
    subject === undefined || crmCode === undefined
      ? (subject ?? crmCode ?? "")
      : `${subject} (crmCode ${crmCode})`,
  );
  const asks = names.length === 0 ? "" : `; do you mean ${names.join(", ")}?`;
  return asks + (more === "" ? "" : `; ${more}`);
}
