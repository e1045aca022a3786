// A sender that uses no code of crmsync: adds one CloudEvent to the inbox with plain BullMQ.
//
//   npm install bullmq ioredis
//   REDIS_URL=redis://… node examples/push-with-bullmq.mjs [crmCode]
//
// The URL is that of the Redis that crmsync uses: `crmsync redis-url` prints it.
// QUEUE_PREFIX must be the same as crmsync's; its default is {crmsync}.
import { randomUUID } from "node:crypto";
import { Queue } from "bullmq";

const { REDIS_URL, QUEUE_PREFIX = "{crmsync}" } = process.env;
if (!REDIS_URL) throw new Error("REDIS_URL is missing; `crmsync redis-url` prints it");
const crmCode = process.argv[2] ?? "from-bullmq";

const queue = new Queue("crm-events", { connection: { url: REDIS_URL }, prefix: QUEUE_PREFIX });
const job = await queue.add("contact saved", {
  specversion: "1.0",
  id: randomUUID(),
  source: "/examples/push-with-bullmq",
  type: "crm.record.updated",
  subject: `contact/${crmCode}`,
  time: new Date().toISOString(),
  data: {
    record: {
      type: "Person",
      crmCode,
      firstName: "Grace",
      lastName: "Muster",
      countryOfResidence: "LU",
      wealthSource: ["salaries_remuneration"],
    },
  },
});
console.log(`job ${job.id}: ${crmCode} pushed`);
await queue.close();
