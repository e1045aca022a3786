/**
 * A CRM for the demo: it creates 200 clients, then edits them, sometimes with a mistake. It sends its
 * events as any sender may: with a BullMQ client, to the queue crm-events.
 */
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, editClient, addMistake } from "/app/dist/src/demo/clients.js";
import { Crm } from "/app/dist/src/demo/crm.js";
import { createRandom } from "/app/dist/src/demo/random.js";

const require = createRequire("/app/package.json");
const { Queue } = require("bullmq");
const { Redis } = require("ioredis");

const CLIENTS = 200;
const PAUSE_MS = 4000;
const MISTAKES = 0.01;

const stop = new AbortController();
process.once("SIGTERM", () => stop.abort()).once("SIGINT", () => stop.abort());

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const queue = new Queue("crm-events", { connection, prefix: "{crmsync}" });
// The same seed: after a restart the CRM has the same clients and edits them.
const people = createRandom(1);
const edits = createRandom(Date.now() % 2 ** 31);
const startAt = Date.now();
const crm = new Crm(edits, "/crm/demo", startAt);
const push = async (event) => queue.add("event", event, { removeOnComplete: true });

for (let serial = 1; serial <= CLIENTS; serial += 1) {
  await push(crm.create(Date.now() - startAt, createClient(people, serial), { lane: "bulk" }));
}
while (!stop.signal.aborted) {
  const { record } = edits.pick(crm.validClients());
  const edited = editClient(record, edits);
  const valid = !edits.chance(MISTAKES);
  await push(crm.save(Date.now() - startAt, valid ? edited : addMistake(edited, edits), valid));
  await sleep(PAUSE_MS * Math.random() * 2, undefined, { signal: stop.signal }).catch(() => {});
}
await queue.close();
connection.disconnect();
