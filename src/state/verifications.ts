/**
 * Proofs that are verified once, some minutes later: an earlier request of the same record had no
 * answer, and could still have taken effect after the state that was proven. What is verified is
 * kept until then, encrypted.
 */
import type { Redis } from "ioredis";
import { redisScript, type RedisScript } from "../ops/redis-script.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import type { DueProof, Settlement, TakenState, WantedState } from "../sync/staged-state.ts";
import type { Sealing } from "./sealing.ts";
import type { Keys } from "./keys.ts";

/** One value of the hash. */
interface StoredProof {
  /** What the ledger's row said when the state was settled; see `proofOf`. */
  readonly proof: string;
  /** When it was settled, ms. */
  readonly at: number;
  /** WantedState as JSON, encrypted. */
  readonly wanted: string;
}

/** With the stored text, which tells whether the record was settled again since. */
export type ClaimedProof = DueProof & { readonly stored: string };

/** @returns what settle.lua keeps, to verify it later; undefined when no earlier request may overwrite it. */
export async function proofToVerify(
  { crmCode, earlierFields, event, eventOrder, late, order, payload, status, variant }: TakenState,
  { finished, row }: Settlement,
  sealing: Sealing,
): Promise<string | undefined> {
  if (!late || !finished || typeof row === "string" || row.uncertain) return undefined;
  const fieldsOrder = earlierFields?.order;
  const wanted: WantedState = {
    order,
    fieldsOrder,
    payload,
    variant,
    status,
    event,
    eventOrder,
  };
  const stored: StoredProof = {
    proof: proofOf(row),
    at: Date.now(),
    wanted: await sealing.seal(JSON.stringify(wanted), crmCode),
  };
  return JSON.stringify(stored);
}

export class Verifications {
  readonly #redis: Redis;
  readonly #keys: Keys;
  readonly #sealing: Sealing;
  readonly #claim: RedisScript<[] | [string, string]>;
  readonly #withdraw: RedisScript<number>;
  readonly #finish: RedisScript<number>;

  constructor(redis: Redis, keys: Keys, sealing: Sealing) {
    this.#redis = redis;
    this.#keys = keys;
    this.#sealing = sealing;
    this.#claim = redisScript(redis, new URL("./lua/claim-proof.lua", import.meta.url));
    this.#withdraw = redisScript(redis, new URL("./lua/withdraw-proof.lua", import.meta.url));
    this.#finish = redisScript(redis, new URL("./lua/finish-proof.lua", import.meta.url));
  }

  async anyDue(): Promise<boolean> {
    return (await this.#redis.zcount(this.#keys.verify, 0, Date.now())) > 0;
  }

  /**
   * Gives one due proof to this process.
   * @param leaseMs after this, another process may claim it.
   */
  async claim(leaseMs: number): Promise<ClaimedProof | undefined> {
    const keys = [this.#keys.verify, this.#keys.verifyProofs, this.#keys.ledger];
    const [crmCode, stored] = await this.#claim(keys, [leaseMs, this.#keys.staged("")]);
    if (crmCode === undefined || stored === undefined) return undefined;
    const { at, proof, wanted } = JSON.parse(stored) as StoredProof;
    return {
      crmCode,
      stored,
      at,
      proven: readProof(proof),
      wanted: JSON.parse(await this.#sealing.open(wanted, crmCode)) as WantedState,
    };
  }

  /**
   * The service has something else: the ledger's row becomes uncertain.
   * @returns false when the record has changed meanwhile; then nothing is done.
   */
  async withdraw({ crmCode, stored }: ClaimedProof): Promise<boolean> {
    const keys = [this.#keys.verifyProofs, this.#keys.ledger, this.#keys.staged(crmCode)];
    return (await this.#withdraw(keys, [crmCode, stored])) === 1;
  }

  /** Forgets a proof, unless the record was settled again meanwhile. */
  async finish({ crmCode, stored }: ClaimedProof): Promise<void> {
    await this.#finish([this.#keys.verify, this.#keys.verifyProofs], [crmCode, stored]);
  }
}

/** The part of a row that one GET can verify. */
const proofOf = ({ exists, fingerprint, terminated }: LedgerRow): string =>
  `${exists === undefined ? -1 : Number(exists)}|${fingerprint ?? ""}|${Number(terminated)}`;

function readProof(text: string): DueProof["proven"] {
  const [exists, fingerprint = ""] = text.split("|");
  return { exists: exists === "1", fingerprint: fingerprint === "" ? undefined : fingerprint };
}
