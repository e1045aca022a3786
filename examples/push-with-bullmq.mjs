// A sender that uses no code of crmsync: adds one CloudEvent to the inbox with plain BullMQ.
//
//   REDIS_URL=redis://… node examples/push-with-bullmq.mjs [crmCode]
//
// QUEUE_PREFIX must be the same as crmsync's; its default is {crmsync}.
import { randomUUID } from "node:crypto";
import { Queue } from "bullmq";

const { REDIS_URL = "redis://127.0.0.1:6379", QUEUE_PREFIX = "{crmsync}" } = process.env;
const crmCode = process.argv[2] ?? "from-bullmq";

const queue = new Queue("crm-events", { connection: { url: REDIS_URL }, prefix: QUEUE_PREFIX });
const job = await queue.add("client saved", {
  specversion: "1.0",
  id: randomUUID(),
  source: "/examples/push-with-bullmq",
  type: "crm.record.updated",
  subject: `client/${crmCode}`,
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
