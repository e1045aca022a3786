/**
 * The modes of a change, and every way from one to the next. docs/architecture.md draws it, and tests hold both against
 * the reducers: each arrow happens, and no reducer takes another way.
 */
import type { KnownRecord } from "./record.ts";

export const MODES = {
  settled: "nothing waits: the ledger has what was proven",
  dead: "nothing waits: a dead letter has the last event, or one that is newer than what was settled",
  waits: "it may be sent once it is due; or the service has it, and it is read once more",
  taken: "a worker has it alone; what comes meanwhile waits beside it",
  held: "a person must release it",
} as const;
export type Mode = keyof typeof MODES;

export function modeOf({ letter, staged }: Pick<KnownRecord, "letter" | "staged">): Mode {
  if (staged === undefined) return letter === undefined ? "settled" : "dead";
  if (staged.taken !== undefined) return "taken";
  return staged.held === undefined ? "waits" : "held";
}

/** Settled or dead: nothing waits. */
type End = "ended";

type Reducer =
  | "stage"
  | "take"
  | "settle"
  | "release"
  | "drop"
  | "cancel"
  | "restore"
  | "forget"
  | "storeLetter";

export interface Arrow {
  readonly from: Mode | End;
  readonly to: Mode | End;
  /** Which reducers take this way. */
  readonly by: readonly Reducer[];
  readonly name: string;
}

export const CHART: readonly Arrow[] = [
  { from: "ended", to: "waits", by: ["stage"], name: "an event wants what is not proven" },
  { from: "ended", to: "held", by: ["stage"], name: "a record of the CRM ends that of another" },
  { from: "settled", to: "dead", by: ["storeLetter"], name: "intake rejects an event" },
  { from: "dead", to: "settled", by: ["stage", "forget"], name: "what it says no longer matters" },
  { from: "waits", to: "taken", by: ["take"], name: "its turn" },
  { from: "waits", to: "held", by: ["stage"], name: "a record of the CRM ends that of another" },
  {
    from: "waits",
    to: "ended",
    by: ["stage", "cancel", "restore", "forget"],
    name: "nothing is to be sent any more",
  },
  { from: "taken", to: "settled", by: ["settle"], name: "the service has it" },
  { from: "taken", to: "dead", by: ["settle"], name: "no request can bring it to the service" },
  { from: "taken", to: "waits", by: ["settle"], name: "again, or a newer one; or to be read" },
  { from: "taken", to: "held", by: ["settle"], name: "a guard, or the newer one is held" },
  {
    from: "taken",
    to: "ended",
    by: ["drop", "cancel", "restore", "forget"],
    name: "its worker has died, or it is behind",
  },
  { from: "held", to: "waits", by: ["release", "stage"], name: "approved, or it ends no more" },
  {
    from: "held",
    to: "ended",
    by: ["drop", "stage", "restore", "forget"],
    name: "a person refuses it, or nothing is to be done",
  },
];

/** The arrow of one step; undefined: the chart has none. */
export const arrowOf = (from: Mode, to: Mode, by?: Reducer): Arrow | undefined =>
  CHART.find(
    (arrow) =>
      isIn(from, arrow.from) && isIn(to, arrow.to) && (by === undefined || arrow.by.includes(by)),
  );

const isIn = (mode: Mode, of: Mode | End): boolean =>
  mode === of || (of === "ended" && (mode === "settled" || mode === "dead"));
