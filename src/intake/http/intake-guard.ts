/** What every request to HTTP intake must pass before its body is read. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Overload } from "../../base/overload.ts";
import type { CountRequest } from "./rate-limit.ts";
import { Refusal, ALL_BODIES, BODIES_AT_ONCE, UNVERIFIED_BODIES } from "./limits.ts";
import { isOneOf, secretsOf, type SecretText } from "../../base/secrets.ts";
import { isUtf8 } from "node:buffer";
import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** Node reads headers as Latin-1, and many senders write UTF-8. What is no valid UTF-8 stays as Node has read it. */
export function headerText(value: string): string {
  const bytes = Buffer.from(value, "latin1");
  return isUtf8(bytes) ? bytes.toString("utf8") : value;
}

export type IntakeGuard = ReturnType<typeof createIntakeGuard>;

export function createIntakeGuard(
  app: FastifyInstance,
  count: CountRequest,
  refused: (why: Overload) => void,
) {
  const bodies = createBodyReader(app.server, () => refused("bodies"));
  return {
    /**
     * @param sender the name of a sender whose credentials are verified already, else undefined.
     * @throws Refusal
     */
    async admit(
      request: FastifyRequest,
      reply: FastifyReply,
      sender: string | undefined,
      tooFast?: 429 | 503,
    ): Promise<void> {
      await count(request, sender, tooFast);
      refuseEncoded(request);
      bodies.expect(request, reply, sender !== undefined);
    },
    /** A parser of fastify for the bodies of admitted requests. */
    bodiesUpTo: bodies.upTo,
    /** A hook of fastify: the handler of an admitted request begins when few others are under way. */
    turn: bodies.turn,
  };
}

/** A small compressed body can become a very large one; no known sender compresses. */
function refuseEncoded({ headers }: FastifyRequest): void {
  const encoding = headers["content-encoding"]?.trim().toLowerCase() ?? "identity";
  if (encoding === "identity") return;
  throw new Refusal(415, "Content-Encoding must be identity: send the body uncompressed", {
    "accept-encoding": "identity",
  });
}

/** Whether the request carries one of the tokens as its bearer token. */
export function hasToken(request: FastifyRequest, token: SecretText | undefined): boolean {
  const given = /^Bearer +(\S+) *$/i.exec(headerText(request.headers.authorization ?? ""))?.[1];
  return isOneOf(given, secretsOf(token));
}

export async function sendUnauthorised(reply: FastifyReply, error: string): Promise<void> {
  await reply.code(401).header("www-authenticate", "Bearer").send({ error });
}

/** A body that is larger by so many bytes begins as if it had come 1 ms later. */
const BYTES_PER_MS = 256;

interface Waiting {
  readonly bytes: number;
  /** The body with the smallest value begins first; on the scale of performance.now(). */
  readonly due: number;
  readonly begin: () => void;
}

/**
 * Lets few bodies be parsed and stored at once: meanwhile a body of JSON takes about ten times its size
 * of memory. A large body waits longer than a small one: one change must not wait for a whole import.
 * @param most bytes of all bodies that are parsed at once; a larger body is parsed alone.
 */
export function createTurns(most: number) {
  const waiting: Waiting[] = [];
  let busy = 0;

  function beginNext(): void {
    for (let [next] = waiting; next !== undefined; [next] = waiting) {
      if (busy > 0 && busy + next.bytes > most) return;
      waiting.shift();
      busy += next.bytes;
      next.begin();
    }
  }

  return {
    /**
     * Resolves when a body of so many bytes may be parsed; never if the connection is closed before. The body
     * counts until its response is sent.
     */
    take: (bytes: number, response: ServerResponse): Promise<void> =>
      new Promise((resolve) => {
        if (response.closed) return;
        let isBusy = false;
        const begin = () => {
          isBusy = true;
          resolve();
        };
        const one = { bytes, due: performance.now() + bytes / BYTES_PER_MS, begin };
        response.once("close", () => {
          if (isBusy) busy -= bytes;
          else waiting.splice(waiting.indexOf(one), 1);
          beginNext();
        });
        const later = waiting.findIndex(({ due }) => due > one.due);
        waiting.splice(later === -1 ? waiting.length : later, 0, one);
        beginNext();
      }),
  };
}

/** Room for a body at first, bytes; it is doubled until the body fits. */
const FIRST_BYTES = 16 * 1024;

/** Retry-After when there is no room, s. */
const RETRY_AFTER_S = 5;

type Payload = FastifyRequest["raw"];
type Done = (error: Error | null, body?: Buffer) => void;

/** @param refused called when a body is refused because of all the others. */
function createBodyReader(server: Server, refused: () => void) {
  const room = createRoom(server);
  const turns = createTurns(BODIES_AT_ONCE);
  const expected = new WeakMap<FastifyRequest, { held: number; readonly most: number }>();
  return {
    /** Must be called for each request before its body is read. */
    expect(request: FastifyRequest, reply: FastifyReply, isVerified: boolean): void {
      const { socket } = request.raw;
      const body = { held: 0, most: isVerified ? ALL_BODIES : UNVERIFIED_BODIES };
      expected.set(request, body);
      reply.raw.once("close", () => room.release(socket, body.held));
    },
    /** A parser of fastify for bodies up to so many bytes. */
    upTo: (limit: number) => (request: FastifyRequest, payload: Payload, done: Done) => {
      const body = expected.get(request);
      if (body === undefined) throw new Error("a body was read without being expected");
      readBody(payload, limit, done, (bytes) => {
        const isHeld = room.hold(payload.socket, bytes, body.most);
        if (isHeld) body.held += bytes;
        else refused();
        return isHeld;
      });
    },
    /** Resolves when the body that was read may be parsed. */
    turn: (request: FastifyRequest, reply: FastifyReply) =>
      turns.take(expected.get(request)?.held ?? 0, reply.raw),
  };
}

/** Counts the bytes that bodies hold, by connection: one that is closed holds nothing any more. */
function createRoom(server: Server) {
  const held = new Map<Socket, number>();
  let total = 0;
  function release(socket: Socket, bytes: number): void {
    const known = held.get(socket);
    if (known === undefined) return;
    total -= bytes;
    if (known > bytes) held.set(socket, known - bytes);
    else held.delete(socket);
  }
  server.on("connection", (socket: Socket) => {
    socket.once("close", () => release(socket, held.get(socket) ?? 0));
  });
  return {
    release,
    hold(socket: Socket, bytes: number, most: number): boolean {
      if (total + bytes > most) return false;
      total += bytes;
      held.set(socket, (held.get(socket) ?? 0) + bytes);
      return true;
    },
  };
}

/**
 * The bytes are copied: a sender can cut a body into chunks of one byte, each of which would keep
 * an object and the buffer that it was received in.
 * @param hold takes room for more bytes; false if there is none.
 */
function readBody(
  payload: Payload,
  limit: number,
  done: Done,
  hold: (bytes: number) => boolean,
): void {
  let buffer = Buffer.alloc(0);
  let size = 0;

  function end(error: Error | null): void {
    payload.off("data", add).off("end", finish).off("error", broken).off("close", broken);
    if (error === null) return done(null, buffer.subarray(0, size));
    buffer = Buffer.alloc(0);
    done(error);
  }
  function add(chunk: Buffer): void {
    const wanted = size + chunk.length;
    if (wanted > limit) return end(tooLarge(limit));
    if (wanted > buffer.length) {
      const room = Math.min(limit, Math.max(FIRST_BYTES, 2 * buffer.length, wanted));
      if (!hold(room - buffer.length)) return end(noRoom());
      const larger = Buffer.allocUnsafeSlow(room);
      buffer.copy(larger, 0, 0, size);
      buffer = larger;
    }
    size += chunk.copy(buffer, size);
  }
  const finish = () => end(null);
  const broken = () => end(new Refusal(400, "the body did not arrive completely"));

  if (Number(payload.headers["content-length"] ?? 0) > limit) return done(tooLarge(limit));
  payload.on("data", add).on("end", finish).on("error", broken).on("close", broken);
}

const tooLarge = (limit: number) =>
  new Refusal(
    413,
    `the body is too large (limit: ${limit / 1024 / 1024} MiB); send smaller batches`,
    { connection: "close" },
  );

const noRoom = () =>
  new Refusal(503, "too many bodies are being received at once; send this request again", {
    connection: "close",
    "retry-after": String(RETRY_AFTER_S),
  });
