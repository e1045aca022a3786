/**
 * Makes one call of many that are made at the same time: those of one turn of the event loop. A call
 * that is alone waits for the end of that turn, for no other.
 * @param run does what all of them ask; returns each one's result, or its error, in their order.
 */
export function gather<In, Out>(
  run: (inputs: readonly In[]) => Promise<readonly (Out | Error)[]>,
): (input: In) => Promise<Out> {
  let waiting: { input: In; resolve: (out: Out) => void; reject: (error: unknown) => void }[] = [];

  async function runAll(): Promise<void> {
    const calls = waiting;
    waiting = [];
    try {
      const results = await run(calls.map(({ input }) => input));
      for (const [index, { resolve, reject }] of calls.entries()) {
        const result = results[index];
        if (result instanceof Error) reject(result);
        else resolve(result as Out);
      }
    } catch (error) {
      for (const { reject } of calls) reject(error);
    }
  }

  return (input) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(() => void runAll());
      waiting.push({ input, resolve, reject });
    });
}
