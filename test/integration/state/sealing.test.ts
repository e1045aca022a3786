import { Redis } from "ioredis";
import { afterAll, beforeEach, describe, expect, inject, it } from "vitest";
import { Inbox, sealedIn, SEALED_FOR } from "../../../src/core/event/inbox.ts";
import { Keyring } from "../../../src/core/state/keyring.ts";
import { keysOf, type Keys } from "../../../src/core/state/keys.ts";
import { Resealing } from "../../../src/core/state/reseal.ts";
import { DamagedValue, Sealing, UnknownKey } from "../../../src/core/state/sealing.ts";
import { ThinEvents } from "../../../src/core/state/thin-events.ts";
import { readOne } from "../../../src/base/redis-reading.ts";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import type { StateToStage } from "../../../src/core/sync/stage.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { editStaged, rowAt, storesOf as openStores, takeFrom } from "../../support/stores-of.ts";
import { textOfKeys } from "../../support/text-of-keys.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";
import { openKeyring } from "../../../workers/reseal.ts";

const redis = new Redis(inject("redisUrl"), { maxRetriesPerRequest: null });
afterAll(() => redis.disconnect());

const storesOf = (sealing: Sealing) => openStores(redis, { keys, sealing });

const OLD = Buffer.alloc(32, 1);
const NEW = Buffer.alloc(32, 2);
/** A space never stands in a sealed value, so that chance cannot spell it. */
const SECRET = "Ada Lovelace";

let prefix: string;
let keys: Keys;
function usePrefix(): void {
  prefix = uniquePrefix();
  keys = keysOf(prefix);
}
beforeEach(usePrefix);

describe("sealing", () => {
  it("hides a text, and opens it for what it is about alone", async () => {
    const sealing = new Sealing([NEW]);
    const sealed = await sealing.seal(SECRET, "4711");
    expect(sealed).not.toContain(SECRET);
    expect(Buffer.from(sealed.split(".")[3] ?? "", "base64url").toString()).not.toContain(SECRET);
    expect(await sealing.open(sealed, "4711")).toBe(SECRET);
    await expect(sealing.open(sealed, "4712")).rejects.toThrow(DamagedValue);
    const [header, ...rest] = sealed.split(".");
    const other = Buffer.from(header ?? "", "base64url")
      .toString()
      .replace("4711", "4712");
    const moved = [Buffer.from(other).toString("base64url"), ...rest].join(".");
    await expect(sealing.open(moved, "4712")).rejects.toThrow(DamagedValue);
    const last = sealed.at(-2) === "A" ? "B" : "A";
    const changed = `${sealed.slice(0, -2)}${last}${sealed.at(-1)}`;
    await expect(sealing.open(changed, "4711")).rejects.toThrow(DamagedValue);
  });

  it("opens with both keys during a rotation, and seals with the first", async () => {
    const before = await new Sealing([OLD]).seal(SECRET, "a");
    const both = new Sealing([NEW, OLD]);
    expect(await both.open(before, "a")).toBe(SECRET);
    expect(both.isCurrent(before)).toBe(false);
    const after = await both.seal(SECRET, "a");
    expect(both.isCurrent(after)).toBe(true);
    expect(await new Sealing([NEW]).open(after, "a")).toBe(SECRET);
  });

  it("names the key that is missing", async () => {
    const old = new Sealing([OLD]);
    const sealed = await old.seal(SECRET, "a");
    const error = await new Sealing([NEW]).open(sealed, "a").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(UnknownKey);
    expect(String(error)).toContain(`sealed with the key ${old.keyId}`);
    expect(String(error)).toContain(`holds only the key ${new Sealing([NEW]).keyId}`);
    await expect(new Sealing([]).open(sealed, "a")).rejects.toThrow(/STATE_KEY is not set/);
  });
});

describe("the key of the fingerprints", () => {
  const body = { type: "Person", firstName: "Ada", lastName: "Lovelace" };
  const keyring = (...stateKeys: Buffer[]) => new Keyring(redis, keys, new Sealing(stateKeys));

  /** As a daemon opens it. */
  async function opened(...stateKeys: Buffer[]) {
    const ring = keyring(...stateKeys);
    return { ...(await ring.open()), fingerprintsWithout: await ring.fingerprintsWithout() };
  }

  it("is made once, stays over a rotation, and differs between tenants", async () => {
    const [first, second] = await Promise.all([opened(OLD), opened(OLD)]);
    expect([first.isNew, second.isNew].map(Number).toSorted((a, b) => a - b)).toEqual([0, 1]);
    const fingerprint = first.fingerprintsWithout({})(body);
    expect(second.fingerprintsWithout({})(body)).toBe(fingerprint);
    expect((await opened(NEW, OLD)).fingerprintsWithout({})(body)).toBe(fingerprint);
    // The old key is not needed any more.
    expect((await opened(NEW)).fingerprintsWithout({})(body)).toBe(fingerprint);
    usePrefix();
    expect((await opened(NEW)).fingerprintsWithout({})(body)).not.toBe(fingerprint);
  });

  it("a process without the key names the missing one, and changes nothing", async () => {
    await keyring(OLD).open();
    const stored = await redis.get(keys.keyring);
    await expect(keyring(NEW).open()).rejects.toThrow(UnknownKey);
    await expect(keyring().open()).rejects.toThrow(UnknownKey);
    expect(await keyring(NEW).missingKey()).toBe(new Sealing([OLD]).keyId);
    expect(await keyring(NEW, OLD).missingKey()).toBeUndefined();
    expect(await redis.get(keys.keyring)).toBe(stored);
  });

  it("is neither made nor sealed anew by a command", async () => {
    const unkeyed = await keyring().fingerprintOf({});
    expect((await keyring(NEW).fingerprintOf({}))(body)).toBe(unkeyed(body));
    expect(await redis.exists(keys.keyring)).toBe(0);
    await keyring(OLD).open();
    const stored = await redis.get(keys.keyring);
    await keyring(NEW, OLD).fingerprintOf({});
    expect(await redis.get(keys.keyring)).toBe(stored);
  });

  it("a daemon with two keys says that values are being sealed, before the first pass has ended", async () => {
    await keyring(OLD).open();
    const stateKey = [NEW, OLD].map((key) => key.toString("base64")).join(" ");
    const runtime = newRuntime({ QUEUE_PREFIX: prefix, STATE_KEY: stateKey });
    expect(await readOne(redis, runtime.resealing.reading())).toBeUndefined();
    await openKeyring(runtime);
    expect(await readOne(redis, runtime.resealing.reading())).toBeDefined();
    const pass = await runtime.resealing.pass([], async () => {});
    await runtime.resealing.report(pass);
    expect(await readOne(redis, runtime.resealing.reading())).toBeUndefined();
  });
});

const STATE: StateToStage = {
  crmCode: "1",
  eventKey: "k1",
  order: "1",
  payload: SECRET,
  fingerprint: "f",
  variant: "Person",
  status: "mapped",
  lane: "live",
  time: 1,
  event: SECRET,
};

/** One value of every kind, each sealed as the present key says. */
async function fill(sealing: Sealing): Promise<void> {
  const stores = storesOf(sealing);
  const { deadLetters, staged } = stores;
  await staged.stage(STATE);
  // A proof that is verified later: the first request had no answer.
  await staged.stage({ ...STATE, crmCode: "2", eventKey: "k2" });
  const taken = await takeFrom(stores, "2");
  await staged.settle(taken, { row: rowAt("1", "f"), finished: true, openMs: 0 });
  const letter = { reason: "invalid", problems: [], event: SECRET, at: 1 } as const;
  await deadLetters.store(createDeadLetter({ crmCode: "3" }, letter));
  const thin = new ThinEvents(redis, prefix, { keys, sealing });
  await thin.put({ crm: "twenty", subject: "contact/4" }, "1", SECRET, "live");
  await thin.close();
  const inbox = new Inbox(redis, prefix, sealing);
  await inbox.push([{ source: "/crm", id: "1", data: { name: SECRET } } as never]);
  await inbox.close();
}

/** Everything under the prefix, as text. */
const everything = async (): Promise<string> =>
  [...(await textOfKeys(redis, prefix)).values()].join("\n");

function resealingWith(those: readonly Buffer[]): Resealing {
  return new Resealing(storesOf(new Sealing([...those])).records);
}

async function reseal(sealing: Sealing) {
  const inbox = new Inbox(redis, prefix, sealing);
  const jobs = [{ queue: inbox.queue, about: SEALED_FOR, sealedIn }];
  const pass = () => new Resealing(storesOf(sealing).records).pass(jobs, async () => {});
  try {
    return { first: await pass(), second: await pass() };
  } finally {
    await inbox.close();
  }
}

describe("everything in Redis", () => {
  it("is plain without a key, and sealed with one", async () => {
    await fill(new Sealing([]));
    expect(await everything()).toContain(SECRET);
    usePrefix();
    await fill(new Sealing([OLD]));
    expect(await everything()).not.toContain(SECRET);
  });

  it("is sealed with the new key after a rotation, so that the old one can be removed", async () => {
    await fill(new Sealing([OLD]));
    const both = new Sealing([NEW, OLD]);
    const { first, second } = await reseal(both);
    expect(first).toEqual({ found: 7, missing: {} });
    expect(second).toEqual({ found: 0, missing: {} });
    const after = storesOf(new Sealing([NEW]));
    expect(await takeFrom(after, "1")).toMatchObject({ payload: SECRET, event: SECRET });
    const letter = await after.deadLetters.find("c:3");
    expect(letter?.event).toBe(SECRET);
  });

  it("is sealed with the new key, also an event whose worker has died", async () => {
    const inbox = new Inbox(redis, prefix, new Sealing([OLD]));
    await inbox.push([{ source: "/crm", id: "1", data: { name: SECRET } } as never]);
    const { queue } = inbox;
    await redis.lmove(queue.toKey("wait"), queue.toKey("active"), "LEFT", "LEFT");
    expect((await reseal(new Sealing([NEW, OLD]))).first.found).toBe(1);
    const [job] = await queue.getJobs(["active"]);
    const opened = await new Inbox(redis, prefix, new Sealing([NEW])).open(job?.data);
    expect(opened).toMatchObject({ data: { name: SECRET } });
    await inbox.close();
  });

  it("is sealed with the new key, also an event that a worker takes while the inbox is read", async () => {
    const inbox = new Inbox(redis, prefix, new Sealing([OLD]));
    await inbox.push([{ source: "/crm", id: "1", data: { name: SECRET } } as never]);
    const { queue } = inbox;
    const read = queue.getRanges.bind(queue);
    queue.getRanges = async (states, ...range) => {
      if (states.includes("wait"))
        await redis.lmove(queue.toKey("wait"), queue.toKey("active"), "RIGHT", "LEFT");
      return read(states, ...range);
    };
    const jobs = [{ queue, about: SEALED_FOR, sealedIn }];
    const passWith = (...those: Buffer[]) => resealingWith(those).pass(jobs, async () => {});
    expect((await passWith(NEW, OLD)).found).toBe(1);
    expect((await passWith(Buffer.alloc(32, 3))).found).toBe(1);
    const [job] = await queue.getJobs(["active"]);
    const opened = await new Inbox(redis, prefix, new Sealing([NEW])).open(job?.data);
    expect(opened).toMatchObject({ data: { name: SECRET } });
    await inbox.close();
  });

  it("is sealed with the new key, also an event that came while somebody had paused the inbox", async () => {
    const inbox = new Inbox(redis, prefix, new Sealing([OLD]));
    const { queue } = inbox;
    await queue.pause();
    await inbox.push([{ source: "/crm", id: "1", data: { name: SECRET } } as never]);
    expect((await reseal(new Sealing([NEW]))).first.missing).not.toEqual({});
    expect((await reseal(new Sealing([NEW, OLD]))).first.found).toBe(1);
    await queue.resume();
    const [job] = await queue.getJobs(["waiting"]);
    const opened = await new Inbox(redis, prefix, new Sealing([NEW])).open(job?.data);
    expect(opened).toMatchObject({ data: { name: SECRET } });
    await inbox.close();
  });

  it("that was plain is sealed once a key is set, but for other clients' jobs", async () => {
    await fill(new Sealing([]));
    const { second } = await reseal(new Sealing([NEW]));
    expect(second.found).toBe(0);
    const inbox = new Inbox(redis, prefix, new Sealing([NEW]));
    await inbox.queue.obliterate({ force: true });
    await inbox.close();
    expect(await everything()).not.toContain(SECRET);
  });

  it("that no process can open is counted by its key and left as it is", async () => {
    const old = new Sealing([OLD]);
    await fill(old);
    const before = await redis.hget(keys.staged("1"), "state");
    const { second } = await reseal(new Sealing([NEW]));
    expect(second).toEqual({ found: 7, missing: { [old.keyId ?? ""]: 7 } });
    expect(await redis.hget(keys.staged("1"), "state")).toBe(before);
    await editStaged(storesOf(old), "1", (staged) => ({
      ...staged,
      confirm: { why: "accepted", since: 1 },
    }));
    const taking = storesOf(new Sealing([NEW])).staged.take("1", "me", 60_000);
    await expect(taking).rejects.toThrow(UnknownKey);
    // It was given back as it was: the process with the key takes it at once.
    const taken = await takeFrom(storesOf(old), "1", "you");
    expect(taken).toMatchObject({ payload: SECRET, change: { confirm: { why: "accepted" } } });
  });

  it("needs no old key for what somebody has damaged, and all else is sealed with the new one", async () => {
    await fill(new Sealing([OLD]));
    const letter = JSON.parse((await redis.hget(keys.deadLetters, "c:3")) ?? "") as object;
    // Moved to another record, overwritten, and cut off.
    await redis.hset(keys.deadLetters, "c:9", JSON.stringify(letter));
    await redis.hset(keys.thinEvents, "twenty|contact/8", "no JSON");
    await editStaged(storesOf(new Sealing([OLD])), "1", ({ fields, ...staged }) => ({
      ...staged,
      fields: fields && { ...fields, payload: fields.payload.slice(0, -1) },
    }));
    const { second } = await reseal(new Sealing([NEW, OLD]));
    expect(second).toEqual({ found: 0, missing: {} });
    expect((await reseal(new Sealing([NEW]))).first.missing).not.toEqual({});
  });
});
