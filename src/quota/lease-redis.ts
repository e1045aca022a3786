/**
 * The Redis client for Bottleneck. It amends Bottleneck's scripts: the clock that all processes
 * share instead of each one's own; errors without the `ERR ` that Redis 7 puts before them
 * (Bottleneck's self-healing compares whole texts); keys under our own prefix; and a lease that is
 * requested twice is counted once. It also notes when each lease was requested, because a process may
 * sleep before it reads the reply.
 */
import { readScript, toldTime, WorkRedis } from "../ops/redis-script.ts";

const OWN_CLOCK = "local now = tonumber(ARGV[1])";
const SHARED_CLOCK = new URL("../ops/lua/now.lua", import.meta.url);

/**
 * A request for a lease that was lost with its connection is sent again. If only its reply was lost, Redis
 * has the lease: counted twice and ended once, its slot would be missing for ever.
 */
const LEASE_REQUEST = "local expiration = tonumber(ARGV[num_static_argv + 3])";
const UNLESS_COUNTED = `${LEASE_REQUEST}
if redis.call('hexists', job_weights_key, index) == 1 then return {true, 0} end`;

/** Errors that Bottleneck recognises and repairs. */
const HEALED = /^(?:ERR )?(?=UNKNOWN_CLIENT|SETTINGS_KEY_NOT_FOUND|OVERWEIGHT)/;

/** Errors of Bottleneck's scripts: a lease log is gone; or a log no longer knows this process. */
const IS_GONE = "SETTINGS_KEY_NOT_FOUND";
const IS_UNKNOWN = "UNKNOWN_CLIENT";

/** Scripts by which a process begins. Bottleneck never tries them again: after an error it would give no lease. */
const BEGINNINGS: ReadonlySet<string> = new Set(["init", "register_client", "update_settings"]);

/** Pause before they are tried again, ms. */
const BEGIN_AGAIN_MS = 500;

/** While nothing waits for a slot, one of this many heartbeats looks for leases of dead processes to end. */
const IDLE_HEARTBEATS = 20;

type Callback = (error: Error | null, reply?: unknown) => void;
type Script = (...args: unknown[]) => unknown;

export class LeaseRedis extends WorkRedis {
  readonly #bottlenecks = new Set<string>();
  /** Lease log → when its leases were requested, oldest first. */
  readonly #requestedAt = new Map<string, number[]>();
  #idleHeartbeats = 0;
  /** Whether anything of this process waits for a slot. */
  isWaiting: () => boolean = () => true;
  /** Called when a lease log is gone, or has no lease of this process; before Bottleneck repairs it. */
  onForgotten: (id: string, isGone: boolean) => void = () => {};
  /** Whether to begin again after an error, as a daemon does while Redis rejects writes. */
  beginsAgain = false;

  override defineCommand(...[name, definition]: Parameters<WorkRedis["defineCommand"]>): void {
    if (definition.lua.includes(OWN_CLOCK)) this.#bottlenecks.add(name);
    if (!this.#bottlenecks.has(name)) return super.defineCommand(name, definition);
    const lua = definition.lua
      .replace(OWN_CLOCK, () => readScript(SHARED_CLOCK))
      .replace(LEASE_REQUEST, UNLESS_COUNTED);
    super.defineCommand(name, { ...definition, lua });
    const commands = this as unknown as Record<string, Script>;
    const script = commands[name];
    if (script === undefined) return;
    const send: Script = (...args) => script.apply(this, this.#adapt(name, args));
    commands[name] = name === "heartbeat" ? (...args) => this.#heartbeat(send, args) : send;
    if (BEGINNINGS.has(name)) commands[name] = (...args) => this.#begin(send, args);
  }

  #begin(send: Script, args: unknown[]): void {
    const callback = args.at(-1) as Callback;
    send(...args.slice(0, -1), (error: Error | null, reply?: unknown) => {
      const isFinal = error === null || HEALED.test(error.message);
      if (isFinal || !this.beginsAgain || this.status === "end") return callback(error, reply);
      this.emit("error", error);
      setTimeout(() => this.#begin(send, args), BEGIN_AGAIN_MS).unref();
    });
  }

  /** When the lease that was granted just now was requested, by `performance.now()`. */
  leaseRequestedAt(id: string): number {
    return this.#requestedAt.get(id)?.shift() ?? Number.NEGATIVE_INFINITY;
  }

  /**
   * A heartbeat ends leases, and tells the calls that wait for a slot. It is not sent when there is neither.
   * A process that Bottleneck has forgotten meanwhile registers again with its next lease. While Redis is
   * away, heartbeats would wait for it, two more each second.
   */
  #heartbeat(send: Script, args: unknown[]): void {
    const callback = args.at(-1) as Callback;
    if (this.status !== "ready") return callback(null, []);
    if (this.isWaiting()) return void send(...args);
    this.#idleHeartbeats += 1;
    // Both logs in turn.
    if (this.#idleHeartbeats % (2 * IDLE_HEARTBEATS) > 1) return callback(null, []);
    const [, , , expirations] = args;
    const log = String(expirations).replace(/^b_/, "");
    void this.zcount(log, "-inf", `(${toldTime() || Date.now()}`, (error, ended) => {
      if (ended === undefined || ended === 0) callback(error ?? null, []);
      else send(...args);
    });
  }

  #adapt(name: string, args: unknown[]): unknown[] {
    const [count, ...rest] = args;
    const keys = rest.slice(0, Number(count)).map((key) => String(key).replace(/^b_/, ""));
    const last = rest.at(-1);
    const values = [...rest.slice(Number(count), -1), toldTime()];
    const requestedAt = performance.now();
    const id = (keys[0] ?? "").replace(/_settings$/, "");
    const callback: Callback = (error, reply) => {
      if (error !== null) error.message = error.message.replace(HEALED, "");
      const isGone = error?.message === IS_GONE;
      if (isGone || error?.message === IS_UNKNOWN) this.onForgotten(id, isGone);
      if (name === "register" && Array.isArray(reply) && reply[0] === 1) {
        this.#requestedAt.set(id, [...(this.#requestedAt.get(id) ?? []), requestedAt]);
      }
      (last as Callback)(error, reply);
    };
    return [count, ...keys, ...values, callback];
  }
}
