/**
 * The name that is most like `text`, for "did you mean"; undefined when none is similar.
 * @param most letters that may differ.
 */
export function nearest(
  text: string,
  names: Iterable<string>,
  most: number = Math.max(2, Math.floor(text.length / 3)),
): string | undefined {
  let best: string | undefined;
  let least = Math.min(text.length, most + 1);
  for (const name of names) {
    const distance = editDistance(text.toLowerCase(), name.toLowerCase());
    // Short names differ in few letters, and mean nothing alike: zip and id.
    if (distance < least && distance * 2 <= Math.max(text.length, name.length)) {
      least = distance;
      best = name;
    }
  }
  return best;
}

/** Two neighbours that were swapped, as in `prot` for `port`, count as one letter. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let distances = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (distances[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : substituted;
      next.push(Math.min(substituted, swapped, (distances[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    [before, distances] = [distances, next];
  }
  return distances[b.length] ?? 0;
}
