/** A length of time for people. @param ms */
export function duration(ms: number): string {
  const seconds = Math.round(Math.max(0, ms) / 1000);
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800
    ? `${(seconds / 3600).toFixed(1)} h`
    : `${Math.round(seconds / 86_400)} days`;
}
