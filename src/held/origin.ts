import type { HeldTermination } from "../state/held-terminations.ts";

interface Origin {
  readonly type: string | undefined;
  readonly subject: string | undefined;
  readonly source: string | undefined;
  readonly id: string | undefined;
}

/** What its event says of itself; the event was checked when it was accepted. */
export function originOf({ event }: HeldTermination): Origin {
  const { type, subject, source, id } = JSON.parse(event) as Partial<Origin>;
  return { type, subject, source, id };
}
