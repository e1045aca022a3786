import { validateHeaderName, validateHeaderValue } from "node:http";
import { z } from "zod";

/** mulberry32: numbers from 0 to 1 that are the same for the same seed. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** `before`: nothing is done. `after`: a write is stored, and the client gets no confirmation. */
const when = z.enum(["before", "after"]).default("before");

/** Headers that Node can send. */
const headers = z
  .record(z.string(), z.string())
  .refine((given) => Object.entries(given).every(isHeader), {
    error: "a name or a value cannot be sent in a header",
  })
  .default({});

function isHeader([name, value]: [string, string]): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}

const selection = {
  /** Only requests with this method. */
  method: z.enum(["GET", "HEAD", "POST", "PUT"]).optional(),
  /** Only paths that begin with this text, as sent: `/v1.1/business-relations/4711`. */
  path: z.string().startsWith("/").optional(),
  /** Strikes this many times. Default: 1; with a probability, without end. */
  times: z.int().min(1).optional(),
  /** Strikes this share of the matching requests, chosen by `seed`. */
  probability: z.number().min(0).max(1).optional(),
  seed: z.int().default(1),
};

/** A fault, as `POST /faults` accepts it. */
export const faultSchema = z.discriminatedUnion("fault", [
  z.strictObject({
    fault: z.literal("latency"),
    ms: z.int().min(0).max(3_600_000),
    /** Adds a random delay up to this, chosen by `seed`. */
    jitterMs: z.int().min(0).max(3_600_000).default(0),
    ...selection,
  }),
  z.strictObject({
    fault: z.literal("error"),
    status: z.int().min(400).max(599).default(500),
    body: z.enum(["json", "html", "empty"]).default("json"),
    headers,
    when,
    ...selection,
  }),
  z.strictObject({ fault: z.literal("reset"), when, ...selection }),
  z.strictObject({ fault: z.literal("hang"), when, ...selection }),
  /** Sends the full Content-Length and half of the body, then closes the connection. */
  z.strictObject({ fault: z.literal("truncate"), ...selection }),
  z.strictObject({
    fault: z.literal("rate-limit"),
    retryAfter: z.enum(["seconds", "date", "none"]).default("seconds"),
    seconds: z.int().min(0).max(86_400).default(1),
    /** Whether the three X-RateLimit headers are sent. */
    rateHeaders: z.boolean().default(true),
    /** Set or replace any header of the response. */
    headers,
    ...selection,
  }),
  z.strictObject({ fault: z.literal("revoked"), ...selection }),
  z.strictObject({ fault: z.literal("blocked"), ...selection }),
]);

export type Fault = z.infer<typeof faultSchema>;
type Kind = Fault["fault"];
export type FaultOf<K extends Kind> = Extract<Fault, { fault: K }>;

/** As JSON, it is what the fault server returns: without `random`, and null where no end is. */
interface Armed {
  readonly id: number;
  readonly fault: Fault;
  readonly random: () => number;
  /** Requests struck so far. */
  struck: number;
  /** Strikes left; infinite: without end. */
  left: number;
}

export interface Strike {
  readonly delayMs: number;
  readonly fault: Exclude<Fault, { fault: "latency" }> | undefined;
}

/** The armed faults. The same faults and seeds strike the same ones of the same requests. */
export class Faults {
  #armed: Armed[] = [];
  #lastId = 0;

  arm(fault: Fault): Armed {
    this.#lastId += 1;
    const unlimited = fault.probability === undefined ? 1 : Number.POSITIVE_INFINITY;
    const armed: Armed = {
      id: this.#lastId,
      fault,
      random: seededRandom(fault.seed),
      struck: 0,
      left: fault.times ?? unlimited,
    };
    this.#armed.push(armed);
    return armed;
  }

  /** @returns false when there is no such fault */
  disarm(id: number): boolean {
    const before = this.#armed.length;
    this.#armed = this.#armed.filter((armed) => armed.id !== id);
    return this.#armed.length < before;
  }

  disarmAll(): void {
    this.#armed = [];
  }

  list(): readonly Armed[] {
    return this.#armed;
  }

  /** What strikes this request: the sum of all latencies, and the first other fault. */
  strike(method: string, path: string): Strike {
    let delayMs = 0;
    let other: Strike["fault"];
    for (const armed of this.#armed) {
      const { fault } = armed;
      if (fault.fault !== "latency" && other !== undefined) continue;
      if (!strikes(armed, method, path)) continue;
      if (fault.fault === "latency") delayMs += fault.ms + armed.random() * fault.jitterMs;
      else other = fault;
    }
    return { delayMs, fault: other };
  }
}

function strikes(armed: Armed, method: string, path: string): boolean {
  const { fault } = armed;
  if (armed.left === 0) return false;
  if (fault.method !== undefined && fault.method !== method) return false;
  if (fault.path !== undefined && !path.startsWith(fault.path)) return false;
  if (fault.probability !== undefined && armed.random() >= fault.probability) return false;
  armed.left -= 1;
  armed.struck += 1;
  return true;
}
