/** Addresses and commands to try while the demo keeps its processes running (--keep). */
import { API_PREFIX } from "../service-spec/limits.ts";
import type { Components } from "./components.ts";

export function renderAddresses(components: Components): string {
  const { daemonUrl, ingestToken, service, redis, dataDir } = components;
  const event = {
    specversion: "1.0",
    source: "/by-hand",
    type: "crm.record.updated",
    subject: "client/by-hand",
    data: { record: { type: "Person", crmCode: "by-hand", firstName: "Ada", lastName: "Muster" } },
  };
  // Each push needs a new id: the same id would be a duplicate.
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

Push one through BullMQ, without any code of crmsync:
  REDIS_URL='${redis.url}' QUEUE_PREFIX='${redis.prefix}' node examples/push-with-bullmq.mjs
`;
}
