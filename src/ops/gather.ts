/**
 * Combines all calls of one turn of the event loop into one call of `run`. A single call waits only for
 * the end of that turn, never for another call.
 * @param run handles all inputs; returns a result or an error for each of them, in their order.
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
