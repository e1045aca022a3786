/**
 * The key of the ledger's fingerprints: random, made once, kept in Redis sealed with the first key of
 * STATE_KEY. A rotation seals it anew and changes no fingerprint. What it is sealed with tells every
 * process whether it can open what is in Redis.
 */
import { randomBytes } from "node:crypto";
import type { Redis } from "ioredis";
import { contentHashWith, type ContentHash } from "../event/event-order.ts";
import { fingerprintWith, type FingerprintOf } from "../sync/fingerprint.ts";
import type { Keeps } from "../sync/keeps.ts";
import { marksWith } from "../sync/marks.ts";
import type { Keys } from "./keys.ts";
import { keyIdOf, type Sealing } from "./sealing.ts";
import { Store } from "./store.ts";

const ABOUT = "fingerprints";
const KEY_BYTES = 32;

/** How fingerprints are made that leave these kept fields out. */
type FingerprintsWithout = (keeps: Keeps) => FingerprintOf;

interface KeyringOptions {
  /** Whether rows get marks (src/core/sync/marks.ts). */
  readonly marks?: boolean;
  /**
   * The service's token: without STATE_KEY the key of the marks. It is not in Redis, and a person who has it can read the
   * relations at the service anyway.
   */
  readonly token?: () => string | undefined;
}

interface Known {
  readonly fingerprints: FingerprintsWithout;
  readonly contentHash: ContentHash;
}

export class Keyring extends Store {
  readonly #sealing: Sealing;
  readonly #options: KeyringOptions;
  #known: Known | undefined;

  constructor(redis: Redis, keys: Keys, sealing: Sealing, options: KeyringOptions = {}) {
    super(redis, keys);
    this.#sealing = sealing;
    this.#options = options;
  }

  /** Whether this process was found to have the key that Redis is sealed with. */
  get isOpen(): boolean {
    return this.#known !== undefined;
  }

  /**
   * Makes the key of the fingerprints, or seals it again with the first key of STATE_KEY, where necessary.
   * Only a daemon may: a command must not seal Redis with a key that the daemons do not have.
   * @throws UnknownKey when Redis is sealed with a key that this process does not have.
   * @returns whether the key is new: the fingerprints that the ledger has were made without one.
   */
  async open(): Promise<{ isNew: boolean }> {
    let isNew = false;
    const stored = await this.redis.get(this.keys.keyring);
    if (stored !== null && !this.#sealing.isCurrent(stored)) {
      const opened = await this.#sealing.open(stored, ABOUT);
      await this.#store(stored, await this.#sealing.seal(opened, ABOUT));
    } else if (stored === null && this.#sealing.keyId !== undefined) {
      const made = randomBytes(KEY_BYTES).toString("base64");
      isNew = await this.#store("", await this.#sealing.seal(made, ABOUT));
    }
    this.#known = await this.#read();
    return { isNew };
  }

  /** How this process makes fingerprints; asks Redis once, and changes nothing. @throws as `open` */
  async fingerprintsWithout(): Promise<FingerprintsWithout> {
    return (this.#known ??= await this.#read()).fingerprints;
  }

  /** As `fingerprintsWithout`, for the content of events. @throws as `open` */
  async contentHash(): Promise<ContentHash> {
    return (this.#known ??= await this.#read()).contentHash;
  }

  /** @throws as `open` */
  async fingerprintOf(keeps: Keeps): Promise<FingerprintOf> {
    return (await this.fingerprintsWithout())(keeps);
  }

  /** Id of the key that Redis is sealed with, if this process does not have it. */
  async missingKey(): Promise<string | undefined> {
    const stored = await this.redis.get(this.keys.keyring);
    const keyId = stored === null ? undefined : keyIdOf(stored);
    return keyId === undefined || this.#sealing.keyIds.includes(keyId) ? undefined : keyId;
  }

  async #read(): Promise<Known> {
    const stored = await this.redis.get(this.keys.keyring);
    const opened = stored === null ? undefined : await this.#sealing.open(stored, ABOUT);
    const key = opened === undefined ? undefined : Buffer.from(opened, "base64");
    const secret = this.#options.marks === true ? (key ?? this.#options.token?.() ?? "") : "";
    const marksOf = secret === "" ? undefined : marksWith(secret);
    const fingerprints: FingerprintsWithout = (keeps) => fingerprintWith(key, keeps, marksOf);
    return { fingerprints, contentHash: contentHashWith(key) };
  }

  #store(before: string, after: string): Promise<boolean> {
    const { keyring } = this.keys;
    return this.commit([["GET", keyring, before]], [["SET", keyring, after]]);
  }
}
