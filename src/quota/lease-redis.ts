/**
 * The Redis client that Bottleneck works on, with what its scripts lack:
 * the server's clock instead of each process's own, errors as they were before Redis 7 put `ERR `
 * in front (its self-healing compares whole texts), keys under our own prefix, and when each
 * grant was asked for, since a process may have slept before it read the answer.
 */
import { Redis } from "ioredis";

const CLIENT_CLOCK = "local now = tonumber(ARGV[1])";
const SERVER_CLOCK = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
`;

const HEALED = /^ERR (?=UNKNOWN_CLIENT|SETTINGS_KEY_NOT_FOUND|OVERWEIGHT)/;

type Callback = (error: Error | null, reply?: unknown) => void;
type Script = (...args: unknown[]) => unknown;

export class LeaseRedis extends Redis {
  /** Per lease log, when the requests for its grants were sent, oldest first. */
  readonly #askedAt = new Map<string, number[]>();

  override defineCommand(...[name, definition]: Parameters<Redis["defineCommand"]>): void {
    const lua = definition.lua.replace(CLIENT_CLOCK, SERVER_CLOCK);
    super.defineCommand(name, { ...definition, lua });
    const commands = this as unknown as Record<string, Script>;
    const script = commands[name];
    if (script === undefined || lua === definition.lua) return;
    commands[name] = (...args) => script.apply(this, this.#adapt(name, args));
  }

  /** When the grant that has just begun was asked for, by `performance.now()`. */
  grantAskedAt(id: string): number {
    return this.#askedAt.get(id)?.shift() ?? Number.NEGATIVE_INFINITY;
  }

  #adapt(name: string, args: unknown[]): unknown[] {
    const [count, ...rest] = args;
    const keys = rest.slice(0, Number(count)).map((key) => String(key).replace(/^b_/, ""));
    const last = rest.at(-1);
    const values = rest.slice(Number(count), -1);
    const askedAt = performance.now();
    const callback: Callback = (error, reply) => {
      if (error !== null) error.message = error.message.replace(HEALED, "");
      if (name === "register" && Array.isArray(reply) && reply[0] === 1) {
        const id = (keys[0] ?? "").replace(/_settings$/, "");
        this.#askedAt.set(id, [...(this.#askedAt.get(id) ?? []), askedAt]);
      }
      (last as Callback)(error, reply);
    };
    return [count, ...keys, ...values, callback];
  }
}
