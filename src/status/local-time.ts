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
