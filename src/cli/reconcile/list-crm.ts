/** Lists a CRM, with a progress bar. */
import { listCrm } from "../../reconcile/crm-snapshot.ts";
import type { OpenSnapshot } from "../../reconcile/open-snapshot.ts";
import type { Session } from "../../reconcile/session.ts";
import { showBar } from "./bars.ts";

/** @param object lists this one only */
export async function listWithBar(
  session: Session,
  crm: string,
  object: string | undefined,
): Promise<OpenSnapshot> {
  const { stores } = session;
  const bar = showBar(`listing ${crm}`, "records");
  // Most CRMs do not say how many records they have: about as many as the service.
  const expected = await stores.redis.hlen(stores.keys.ledger);
  try {
    return await listCrm(session, crm, {
      object,
      onProgress({ objects }) {
        const listed = Object.values(objects).reduce((sum, records) => sum + records, 0);
        bar.update(listed, expected);
      },
    });
  } finally {
    bar.stop();
  }
}
