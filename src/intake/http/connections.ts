/** Follows the connections of a server, and cuts those that would harm the others. */
import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { FastifyInstance, onRequestHookHandler } from "fastify";
import type { Overload } from "../../base/overload.ts";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";

export interface Connection {
  /** Requests received and not yet answered. */
  requests: number;
  /** When it was opened, the last response ended, or a part of the next request was seen. */
  quietSince: number;
  /** Bytes received by then. */
  bytes: number;
}

export type Connections = ReadonlyMap<Socket, Connection>;

const followed = new WeakMap<Server, Connections>();

function connectionsOf(server: Server): Connections {
  const known = followed.get(server) ?? follow(server);
  followed.set(server, known);
  return known;
}

function follow(server: Server): Connections {
  const connections = new Map<Socket, Connection>();
  server.on("connection", (socket: Socket) => {
    connections.set(socket, { requests: 0, quietSince: performance.now(), bytes: 0 });
    socket.once("close", () => connections.delete(socket));
  });
  // Before the listener that answers the request, which must know the count.
  server.prependListener("request", ({ socket }, response) => {
    const connection = connections.get(socket);
    if (connection === undefined) return;
    connection.requests += 1;
    response.once("close", () => {
      connection.requests -= 1;
      connection.quietSince = performance.now();
      connection.bytes = socket.bytesRead;
    });
  });
  return connections;
}

export interface ConnectionLimits {
  /** Open connections. Above it, the one that has been idle for the longest time is closed. */
  readonly connections: number;
  /** Requests on one connection that are not answered yet: more were pipelined to do harm. */
  readonly unanswered: number;
  /** A client that reads less than LEAST_READ bytes of what waits for it in this time is cut, ms. */
  readonly readResponseMs: number;
}

/**
 * Limits open connections, unanswered requests on each of them, and how slowly a client may read a
 * response. Node itself limits only the time in which a request must arrive.
 */
export function limitConnections(
  app: FastifyInstance,
  limits: ConnectionLimits,
  refused: (why: Overload) => void,
): void {
  const connections = connectionsOf(app.server);
  const cutOnes = new WeakSet<Socket>();

  function cut(socket: Socket, why: Overload): void {
    if (socket.destroyed) return;
    cutOnes.add(socket);
    socket.destroy();
    refused(why);
  }

  /** All requests that were received together with the one that led to the cut end here. */
  const endIfCut: onRequestHookHandler = (request, reply, done) => {
    if (cutOnes.has(request.raw.socket)) void reply.hijack();
    else done();
  };

  app.server.on("connection", (socket: Socket) => {
    if (connections.size > limits.connections) cut(idlestOf(connections, socket), "connections");
  });
  app.addHook("onRequest", (request, reply, done) => {
    const { socket } = request.raw;
    if ((connections.get(socket)?.requests ?? 0) > limits.unanswered) cut(socket, "pipelined");
    endIfCut.call(app, request, reply, done);
  });
  app.addHook("preHandler", endIfCut);
  app.addHook("onSend", async ({ raw: { socket } }, { raw: response }) => {
    let before = readBytesOf(socket);
    const look = setInterval(() => {
      const read = readBytesOf(socket);
      // An export may take minutes, and has nothing to be read while it is made.
      if (response.writableLength > 0 && read - before < LEAST_READ) cut(socket, "unread");
      before = read;
    }, limits.readResponseMs).unref();
    response.once("close", () => clearInterval(look));
  });
}

const LEAST_READ = 65_536;

/** What the client, or the buffers on the way to it, have taken. */
const readBytesOf = ({ bytesWritten, writableLength }: Socket): number =>
  bytesWritten - writableLength;

/** The connection that has waited longest for its next request; the newest one if none waits. */
function idlestOf(connections: Connections, newest: Socket): Socket {
  let idlest = newest;
  let since = Number.POSITIVE_INFINITY;
  for (const [socket, { requests, quietSince }] of connections) {
    if (requests > 0 || quietSince >= since) continue;
    idlest = socket;
    since = quietSince;
  }
  return idlest;
}

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
