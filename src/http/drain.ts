/** Closes an HTTP server without cutting a request, as during a roll-out. */
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { connectionsOf } from "./connections.ts";

/**
 * A connection that was quiet for this long may be closed. Before that, its client may well be
 * sending the next request, which would be lost on its way.
 */
const QUIET_MS = 1000;
const CHECK_MS = 25;

export type Drain = ReturnType<typeof drainable>;

export function drainable(app: FastifyInstance) {
  const { server } = app;
  const connections = connectionsOf(server);
  let closing: Promise<void> | undefined;
  // Node's own would close connections on which the next request is already on its way.
  server.closeIdleConnections = () => {};
  app.addHook("onSend", async (_request, reply) => {
    if (closing !== undefined) reply.header("connection", "close");
  });

  function closeQuiet(quietMs: number): void {
    const now = performance.now();
    for (const [socket, connection] of connections) {
      if (connection.requests > 0) continue;
      if (socket.bytesRead !== connection.bytes) {
        connection.bytes = socket.bytesRead;
        connection.quietSince = now;
      } else if (now - connection.quietSince >= quietMs) {
        socket.destroy();
      }
    }
  }

  async function closeAll(quietMs: number): Promise<void> {
    const closed = app.close();
    while (server.listening || connections.size > 0) {
      // By then this turn of the event loop has read everything that has arrived.
      await setImmediate();
      closeQuiet(quietMs);
      await sleep(CHECK_MS);
    }
    await closed;
  }

  return {
    /**
     * Accepts no more connections. On the open ones, requests are still answered, now with
     * `Connection: close`; those that stay quiet are closed, or all idle ones at once if not `patient`.
     * Resolves when the last one is closed, however often it is called.
     */
    close(patient: boolean): Promise<void> {
      closing ??= closeAll(patient ? QUIET_MS : 0);
      return closing;
    },
  };
}
