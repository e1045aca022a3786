/** How many events a CRM sends in each hour of a day, and which fault strikes in which hour. */
import type { FaultName } from "../chaos/faults.ts";
import { FAULTS, type Fault } from "../chaos/faults.ts";

export const HOURS_PER_DAY = 24;

/** Share of the day's busiest hour, by hour: quiet nights, two peaks, and a short import at 22:00. */
const SHAPE = [
  0.05, 0.05, 0.05, 0.05, 0.05, 0.1, 0.2, 0.4, 0.7, 1, 0.9, 0.8, 0.5, 0.7, 0.9, 1, 0.8, 0.5, 0.3,
  0.2, 0.1, 0.1, 1.2, 0.05,
] as const;

/** Near the quota of 1000, because a fault costs requests of its own. */
const BUSIEST = 750;

export const eventsOfHour = (hour: number): number =>
  Math.round((SHAPE[hour % HOURS_PER_DAY] ?? 0) * BUSIEST);

const named = (...names: FaultName[]): Fault[] => names.map((name) => FAULTS[name]);

/** Ends every process but the first, whose memory is measured. */
const killsOfOthers: Fault = async ({ daemons }, _, over) => {
  while (!over.aborted) {
    for (const daemon of daemons.slice(1)) await daemon.restart("SIGKILL");
  }
};

const FAULTS_OF_DAY = [
  ...named(
    "service killed",
    "502, HTML, after",
    "reset after the commit",
    "Redis killed",
    "storm of 429, date",
    "401 and back",
    "truncated responses",
    "connections refused",
    "no response after the commit",
    "Redis frozen",
    "service slow",
  ),
  killsOfOthers,
];

/** Every second hour has a fault, each day the same ones: days can be compared. */
export const faultOfHour = (hour: number): Fault | undefined =>
  hour % 2 === 1 ? FAULTS_OF_DAY[((hour - 1) / 2) % FAULTS_OF_DAY.length] : undefined;
