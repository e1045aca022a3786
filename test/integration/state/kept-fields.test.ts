/** The kept fields that all processes share, and the ledger when they change. */
import { Redis } from "ioredis";
import { afterAll, expect, inject, test } from "vitest";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import { createLog } from "../../../src/base/log.ts";
import { StoredKeptFields } from "../../../src/core/state/kept-fields.ts";
import { keysOf } from "../../../src/core/state/keys.ts";
import { Ledger } from "../../../src/core/state/ledger.ts";
import { rowOf } from "../../../src/core/sync/ledger-row.ts";
import type { Keeps } from "../../../src/core/sync/keeps.ts";
import { fingerprintOf } from "../../../src/core/sync/fingerprint.ts";
import { adoptKeptFields } from "../../../workers/intake.ts";
import { listed } from "../../support/stores-of.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const KEEPS: Keeps = { Person: { branch: "always", city: "ifPresent" } };

test("A mapping that keeps other fields makes the ledger be listed again, and an equal one does not", async () => {
  const keys = keysOf(uniquePrefix());
  const ledger = new Ledger(redis, keys);
  const keptFields = new StoredKeptFields(redis, keys);
  const log = createLog("silent");
  const row = rowOf({ type: "Person", crmCode: "1" }, 1, fingerprintOf);
  const stateAfter = async (keeps: Keeps) => {
    await listed({ ledger }, [["1", row]]);
    const mapping = { ...businessRelationMapping, keeps };
    await adoptKeptFields({ keptFields, ledger, log, mapping });
    const { state } = await ledger.warmUp();
    await ledger.forgetAll();
    return state;
  };
  expect(await keptFields.differFrom(KEEPS)).toBe(false);
  expect(await stateAfter({})).toBe("done");
  expect(await keptFields.differFrom(KEEPS)).toBe(true);
  expect(await stateAfter(KEEPS)).toBe("new");
  expect(await keptFields.current()).toEqual(KEEPS);
  const turned: Keeps = { Person: { city: "ifPresent", branch: "always" } };
  expect(await stateAfter(turned)).toBe("done");
  expect(await stateAfter({ Person: { branch: "always" } })).toBe("new");
  expect(await stateAfter({})).toBe("new");
});
