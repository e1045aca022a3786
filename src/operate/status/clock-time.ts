/** A time for people: to the second, in UTC, with the zone. */
export const clockTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** A length of time for people. @param ms */
export function duration(ms: number): string {
  const seconds = Math.round(Math.max(0, ms) / 1000);
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800
    ? `${(seconds / 3600).toFixed(1)} h`
    : `${Math.round(seconds / 86_400)} days`;
}

const CLOCK = {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
} as const;

/** Clock time in the reader's zone, with the date when it is not today. */
export function localTime(isoTime: string): string {
  const date = new Date(isoTime);
  const sameDay = date.toDateString() === new Date().toDateString();
  const clock = date.toLocaleTimeString("en-GB", CLOCK);
  return sameDay ? clock : `${date.toLocaleDateString("en-CA")} ${clock}`;
}
