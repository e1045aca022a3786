import { createHmac, timingSafeEqual } from "node:crypto";

/** A place in a listing: the last position listed, and the position where the listing ends. */
export interface Place {
  readonly from: number;
  readonly until: number;
}

const MAC_BYTES = 16;

/** Writes places as signed, opaque cursors that are valid for one tenant only. */
export class Cursors {
  readonly #key: Uint8Array;

  constructor(key: Uint8Array) {
    this.#key = key;
  }

  write(tenantId: number, place: Place): string {
    const plain = Buffer.from(`${place.from}.${place.until}`);
    return Buffer.concat([this.#mac(tenantId, plain), plain]).toString("base64url");
  }

  /** @returns undefined unless exactly this cursor was written for this tenant */
  read(tenantId: number, cursor: string): Place | undefined {
    const bytes = Buffer.from(cursor, "base64url");
    if (bytes.length <= MAC_BYTES || bytes.toString("base64url") !== cursor) return undefined;
    const plain = bytes.subarray(MAC_BYTES);
    if (!timingSafeEqual(bytes.subarray(0, MAC_BYTES), this.#mac(tenantId, plain)))
      return undefined;
    const [from, until] = plain.toString().split(".").map(Number);
    return { from: from!, until: until! };
  }

  #mac(tenantId: number, plain: Uint8Array): Buffer {
    const mac = createHmac("sha256", this.#key).update(`${tenantId}:`).update(plain).digest();
    return mac.subarray(0, MAC_BYTES);
  }
}
