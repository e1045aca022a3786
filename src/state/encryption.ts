import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";

/** Keeps personal data unreadable at rest; without a key it leaves texts as they are. */
export interface Encryption {
  encrypt(text: string): string;
  /** @throws Error when the text was encrypted with another key, or when no key is configured. */
  decrypt(encrypted: string): string;
}

const MARK = "aes256gcm:";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** @param key 32 bytes, or undefined to leave texts as they are. */
export function createEncryption(key: Buffer | undefined): Encryption {
  return {
    encrypt(text) {
      if (key === undefined || text === "") return text;
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", key, nonce);
      const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return MARK + Buffer.concat([nonce, cipher.getAuthTag(), body]).toString("base64");
    },
    decrypt(encrypted) {
      if (!encrypted.startsWith(MARK)) return encrypted;
      if (key === undefined) throw new Error("stored data is encrypted: set STATE_KEY");
      const bytes = Buffer.from(encrypted.slice(MARK.length), "base64");
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, NONCE_BYTES));
      decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
      try {
        const body = decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES));
        return Buffer.concat([body, decipher.final()]).toString("utf8");
      } catch {
        throw new Error("STATE_KEY is not the key that stored data was encrypted with");
      }
    },
  };
}
