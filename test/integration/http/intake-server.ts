/** The daemon's HTTP intake on a real Redis, without the workers that process the events. */
import type { AddressInfo } from "node:net";
import pino from "pino";
import { readConfig } from "../../../src/base/config.ts";
import { businessRelationMapping } from "../../../src/intake/mapping/business-relation.ts";
import type { Mapping } from "../../../src/intake/mapping/mapping.ts";
import { openParts, type Parts } from "../../../workers/parts.ts";
import { createServer, serveHttpIntake } from "../../../workers/http-intake.ts";
import { openKeyring } from "../../../workers/reseal.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

export interface IntakeServer extends AsyncDisposable {
  readonly url: string;
  readonly runtime: Parts;
  readonly defects: unknown[];
  /** Events that wait in the inbox, oldest first. */
  events(): Promise<Record<string, unknown>[]>;
}

export async function startIntakeServer(
  redisUrl: string,
  env: Record<string, string> = {},
  mapping: Mapping = businessRelationMapping,
): Promise<IntakeServer> {
  const config = readConfig({ QUEUE_PREFIX: uniquePrefix(), ...env });
  const log = pino({ level: "silent" });
  const runtime = openParts({
    config,
    redisUrl,
    version: "test",
    log,
    mapping,
  });
  const defects: unknown[] = [];
  const server = createServer(runtime, (error) => void defects.push(error));
  const { app } = server;
  serveHttpIntake(server, runtime);
  await openKeyring(runtime);
  await runtime.intakeClient.connected(10_000);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    runtime,
    defects,
    async events() {
      const jobs = await runtime.inbox.queue.getJobs(["waiting"], 0, -1, true);
      return jobs.map((job) => job.data as Record<string, unknown>);
    },
    async [Symbol.asyncDispose]() {
      await app.close();
      await runtime.inbox.queue.obliterate({ force: true });
      await runtime.close();
    },
  };
}
