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
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let distances = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const substituted = (distances[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(substituted, (distances[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    distances = next;
  }
  return distances[b.length] ?? 0;
}
