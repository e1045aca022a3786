/** All records that are known, by the places in which they stand: a page of a place, and all that is kept of each. */
import type { About } from "../sync/told.ts";
import { readAgainAt, waitingIn } from "../sync/known.ts";
import type { LedgerRow } from "../sync/ledger-row.ts";
import type { Change, LetterMark } from "../sync/record.ts";
import { changeIn, OfRecords, readRow } from "./record-store.ts";

/** Where records stand beside their dead letters; one may stand in several. */
export const RECORD_PLACES = ["live", "bulk", "later", "held", "lost", "ledger"] as const;
export type RecordPlace = (typeof RECORD_PLACES)[number];

/** Everything that is kept of one record, as of one moment. */
export interface KeptRecord {
  readonly crmCode: string;
  readonly row: LedgerRow | undefined;
  /** A change that is to be sent, or waits for a person. */
  readonly change: Change | undefined;
  /** When a change that is on the service is read once more, ms. */
  readonly readAt: number | undefined;
  readonly mark: LetterMark | undefined;
  /** Since when its change is missing in Redis, ms. */
  readonly lostAt: number | undefined;
  /** Of which record of the CRM its newest event was, where its history has that among its last steps. */
  readonly heard: Pick<About, "source" | "subject"> | undefined;
}

type Texts = readonly (string | null)[];

export class KnownRecords extends OfRecords {
  readonly #read =
    this.script<[epoch: string | null, rows: Texts, marks: Texts, lost: Texts, ...Texts]>(
      "known-records",
    );

  /**
   * Some records of a place; one may come twice.
   * @param cursor "0": the first ones @param most about so many
   * @returns `next` "0": these were the last ones
   */
  async page(place: RecordPlace, cursor: string, most: number) {
    const { heldTerminations, later, ledger, line, lost } = this.keys;
    const [next, flat] =
      place === "ledger" || place === "lost"
        ? await this.redis.hscan(place === "ledger" ? ledger : lost, cursor, "COUNT", most)
        : await this.redis.zscan(
            place === "held" ? heldTerminations : place === "later" ? later : line(place),
            cursor,
            "COUNT",
            most,
          );
    const all = await this.read(flat.filter((_, n) => n % 2 === 0));
    // One that was never sent, and has left its line meanwhile, is gone.
    const records = all.filter(({ change, lostAt, mark, row }) => row ?? change ?? mark ?? lostAt);
    return { next, records };
  }

  async read(crmCodes: readonly string[]): Promise<KeptRecord[]> {
    if (crmCodes.length === 0) return [];
    const { deadMarks, ledger, lost, staged, warmUp } = this.keys;
    const { history } = this.records;
    const [epoch, rows, marks, losts, ...others] = await this.#read(
      [ledger, deadMarks, lost, warmUp],
      [staged(""), ...crmCodes.flatMap((code) => [code, history.keyOf(code) ?? ""])],
    );
    return crmCodes.map((crmCode, n) => {
      const [row, mark, lostAt] = [rows[n], marks[n], losts[n]];
      const [state, step] = [others[2 * n], others[2 * n + 1]];
      const staged = changeIn(state);
      return {
        crmCode,
        row: row == null ? undefined : readRow(row, Number(epoch ?? 0)),
        change: waitingIn(staged),
        readAt: readAgainAt(staged),
        mark: mark == null ? undefined : (JSON.parse(mark) as LetterMark),
        lostAt: lostAt == null ? undefined : Number(lostAt),
        heard: step == null ? undefined : history.eventIn(step),
      };
    });
  }
}
