/**
 * Seals the personal data that crmsync keeps in Redis. Texts: JWE in its compact form (RFC 7516), `dir`
 * with A256GCM. The header names the key (`kid`) and what the value is about (`sub`); it is
 * authenticated, so that no value can be moved to another record.
 */
import { createHash } from "node:crypto";
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader } from "jose";

const HEADER = { alg: "dir", enc: "A256GCM" } as const;

/** Redis holds a value that was sealed with a key which this process does not have. */
export class UnknownKey extends Error {
  override readonly name = "UnknownKey";
  readonly keyId: string;

  constructor(keyId: string, known: readonly string[]) {
    const have =
      known.length === 0
        ? "STATE_KEY is not set"
        : `STATE_KEY holds only ${known.map((id) => `the key ${id}`).join(" and ")}`;
    super(
      `Redis holds data that was sealed with the key ${keyId}, and ${have}: set STATE_KEY to that key, or to the new one, a blank and that one`,
    );
    this.keyId = keyId;
  }
}

/** A value is not what was sealed, or is about something else: somebody has written to Redis. */
export class DamagedValue extends Error {
  override readonly name = "DamagedValue";
}

export class Sealing {
  /** Id of the key that seals; undefined: values stay as they are. */
  readonly keyId: string | undefined;
  readonly #keys: ReadonlyMap<string, Buffer>;

  /** @param keys 32 bytes each; the first one seals, all of them open. */
  constructor(keys: readonly Buffer[]) {
    this.#keys = new Map(keys.map((key) => [idOf(key), key]));
    [this.keyId] = this.#keys.keys();
  }

  get keyIds(): readonly string[] {
    return [...this.#keys.keys()];
  }

  /** @param about the record, or the kind of value, for which alone it can be opened. */
  async seal(text: string, about: string): Promise<string> {
    const { keyId } = this;
    const key = keyId === undefined ? undefined : this.#keys.get(keyId);
    if (keyId === undefined || key === undefined || text === "") return text;
    return new CompactEncrypt(Buffer.from(text, "utf8"))
      .setProtectedHeader({ ...HEADER, kid: keyId, sub: about })
      .encrypt(key);
  }

  /**
   * Leaves a value as it is that was never sealed: it is from before the key.
   * @throws UnknownKey, DamagedValue
   */
  async open(value: string, about: string): Promise<string> {
    if (!isSealed(value)) return value;
    const keyId = keyIdOf(value) ?? "";
    const key = this.#keys.get(keyId);
    if (key === undefined) throw new UnknownKey(keyId, this.keyIds);
    const options = {
      keyManagementAlgorithms: [HEADER.alg],
      contentEncryptionAlgorithms: [HEADER.enc],
    };
    const opened = await compactDecrypt(value, key, options).catch(() => undefined);
    if (opened?.protectedHeader["sub"] !== about) {
      throw new DamagedValue("a value in Redis is not what crmsync has sealed");
    }
    return Buffer.from(opened.plaintext).toString("utf8");
  }

  /** Whether a value is sealed with the key that seals now; without one, whether it is not sealed. */
  isCurrent(value: string): boolean {
    return value === "" || (isSealed(value) ? keyIdOf(value) : undefined) === this.keyId;
  }
}

/** A JWE begins with the base64url of `{"`; what crmsync seals begins with a brace. */
const isSealed = (value: string): boolean => value.startsWith("eyJ");

/** Id of the key that a text is sealed with; undefined for a text that is no JWE. */
export function keyIdOf(sealed: string): string | undefined {
  try {
    const { kid } = decodeProtectedHeader(sealed);
    return kid;
  } catch {
    return undefined;
  }
}

/** Names a key without telling anything about it. */
const idOf = (key: Buffer): string =>
  createHash("sha256").update("crmsync key id").update(key).digest("base64url").slice(0, 8);
