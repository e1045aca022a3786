/** A time for people: to the second, in UTC, with the zone. */
export const clockTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;
