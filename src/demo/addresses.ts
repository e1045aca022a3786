/** What may be tried by hand while everything is kept running. */
import { API_PREFIX } from "../service-spec/limits.ts";
import type { Parts } from "./components.ts";

export function renderAddresses(parts: Parts): string {
  const { daemonUrl, ingestToken, service, redis, dataDir } = parts;
  const event = {
    specversion: "1.0",
    source: "/by-hand",
    type: "crm.record.updated",
    subject: "client/by-hand",
    data: { record: { type: "Person", crmCode: "by-hand", firstName: "Ada", lastName: "Muster" } },
  };
  // The id differs from one push to the next, or the second would be the same event again.
  const body = JSON.stringify(event).replace("{", `{"id":"'$(date +%s)'",`);
  return `
Everything runs until Ctrl-C.
  daemon   ${daemonUrl}   (/metrics, /readyz; its log: ${dataDir}/daemon.log)
  service  ${service.url}/#token=${service.token}
  Redis    ${redis.url}   (QUEUE_PREFIX=${redis.prefix})

Push an event:
  curl -sS ${daemonUrl}/events -H 'authorization: Bearer ${ingestToken}' \\
    -H 'content-type: application/cloudevents+json' \\
    -d '${body}'

See it on the service:
  curl -sS ${service.url}${API_PREFIX}/business-relations/by-hand \\
    -H 'authorization: Bearer ${service.token}'

Push one without any code of crmsync, through BullMQ:
  REDIS_URL='${redis.url}' QUEUE_PREFIX='${redis.prefix}' node examples/push-with-bullmq.mjs
`;
}
