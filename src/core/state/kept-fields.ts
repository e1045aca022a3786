/**
 * The kept fields of the mapping that is in use, for every process: also one that only sends, and may
 * have no mapping, must not overwrite them.
 */
import { NO_KEEPS, textOfKeeps, type Keeps } from "../sync/keeps.ts";
import { Store } from "./store.ts";

export class StoredKeptFields extends Store {
  async current(): Promise<Keeps> {
    return keepsIn((await this.redis.get(this.keys.keptFields)) ?? "");
  }

  /** Whether processes work with other kept fields than these. False while none has said any. */
  async differFrom(keeps: Keeps): Promise<boolean> {
    const text = await this.redis.get(this.keys.keptFields);
    return text !== null && textOfKeeps(keepsIn(text)) !== textOfKeeps(keeps);
  }

  /** @returns whether others were in use: then the ledger's fingerprints leave out other fields. */
  async adopt(keeps: Keeps): Promise<boolean> {
    const before = await this.current();
    await this.write("SET", this.keys.keptFields, textOfKeeps(keeps));
    return textOfKeeps(before) !== textOfKeeps(keeps);
  }
}

/** @param text as it is stored; "": nothing is. */
export const keepsIn = (text: string): Keeps =>
  text === "" ? NO_KEEPS : (JSON.parse(text) as Keeps);
