/** Finds nesting deep enough to overflow the stack of recursive code such as JSON.stringify. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (levels === 0) return true;
  for (const key in value) {
    if (isDeeperThan(levels - 1, (value as Record<string, unknown>)[key])) return true;
  }
  return false;
}
