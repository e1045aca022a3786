/**
 * Whether this process may map: with APPROVALS=mapping a second person must have approved its mapping. Until then
 * events stay in the inbox, and what was staged before is sent.
 */
import { basename } from "node:path";
import type { WaitingMapping } from "../src/core/state/heartbeats.ts";
import type { Logger } from "../src/base/log.ts";
import type { Mapping } from "../src/intake/mapping/mapping.ts";
import { namedMapping } from "../src/operate/status/approval-text.ts";
import type { Stores } from "../src/operate/status/stores.ts";

/** How long an answer counts, ms. */
const KNOWN_MS = 2000;

interface GateParts extends Pick<Stores, "approvals" | "clock" | "config"> {
  readonly log: Logger;
  readonly mapping: Mapping;
}

export class MappingGate {
  readonly #parts: GateParts;
  #asked: Promise<boolean> | undefined;
  #askedAt = Number.NEGATIVE_INFINITY;
  #since: number | undefined;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  /** By what Redis said at most two seconds ago. @throws while Redis is away */
  isOpen(): Promise<boolean> {
    if (this.#asked !== undefined && performance.now() - this.#askedAt < KNOWN_MS)
      return this.#asked;
    this.#askedAt = performance.now();
    return (this.#asked = this.#ask());
  }

  /** The mapping, while it waits. */
  async waiting(): Promise<WaitingMapping | undefined> {
    if (await this.isOpen()) return undefined;
    const { config, mapping } = this.#parts;
    const since = this.#since ?? 0;
    return { name: basename(config.MAPPING), hash: mapping.hash, since };
  }

  async #ask(): Promise<boolean> {
    const { approvals, clock, config, log, mapping } = this.#parts;
    const isOpen = await approvals.mayMap(config.APPROVALS, mapping.hash);
    if (isOpen) this.#since = undefined;
    else if (this.#since === undefined) {
      this.#since = clock.now();
      log.warn({ mapping: namedMapping(mapping) }, "mapping.waits");
    }
    return isOpen;
  }
}
