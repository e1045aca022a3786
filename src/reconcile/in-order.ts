/** Works on several items at once, and yields the results in the order of the items. */
export async function* inOrder<Item, Result>(
  items: AsyncIterable<Item>,
  width: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Result> {
  const running: Promise<Result>[] = [];
  try {
    for await (const item of items) {
      const result = work(item);
      result.catch(() => {}); // awaited below
      running.push(result);
      if (running.length >= width) yield await (running.shift() as Promise<Result>);
    }
    while (running.length > 0) yield await (running.shift() as Promise<Result>);
  } finally {
    // What was begun ends before the caller closes the mapping.
    await Promise.allSettled(running);
  }
}
