import type { Keys } from "./keys.ts";

const DAY_MS = 86_400_000;

/** Days for which (`source`, `id`) is remembered; today counts as an eighth. */
const SEEN_DAYS = 7;
export const SEEN_TTL_S = (SEEN_DAYS + 1) * 86_400;

/** The sets of event keys that were seen: today's, then the earlier ones. */
export function seenKeys(keys: Keys): string[] {
  const today = Math.floor(Date.now() / DAY_MS);
  return Array.from({ length: SEEN_DAYS + 1 }, (_, ago) => keys.seen(today - ago));
}
