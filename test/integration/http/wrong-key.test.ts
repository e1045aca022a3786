/** A daemon that starts with a wrong STATE_KEY, or with none, while senders call. */
import { expect, test } from "vitest";
import { UnknownKey } from "../../../src/core/state/sealing.ts";
import { serveHttp } from "../../../workers/http.ts";
import { openKeyring } from "../../../workers/reseal.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString("base64");

/** Its HTTP answers before its key is compared with Redis, as a start does. */
async function serve(prefix: string, stateKey: Record<string, string>) {
  const env = { QUEUE_PREFIX: prefix, HTTP_PORT: "0", INGEST_AUTH: "none", ...stateKey };
  const runtime = newRuntime(env);
  const http = await serveHttp(runtime, new Set(["http"] as const), {
    deadlineMs: 10_000,
    ends: () => false,
  });
  return {
    runtime,
    push: async () => {
      const headers = { "content-type": "application/cloudevents+json" };
      const body = JSON.stringify(personEvent("ada-1"));
      return (await fetch(`${http.url}/events`, { method: "POST", headers, body })).status;
    },
    ready: async () => (await fetch(`${http.url}/readyz`)).status,
    [Symbol.asyncDispose]: () => http.close(false),
  };
}

test.each([
  ["a wrong key", { STATE_KEY: keyOf(2) }],
  ["no key", {}],
])("with %s no event is accepted: nobody could open it, or everybody", async (_, stateKey) => {
  const prefix = uniquePrefix();
  const right = { STATE_KEY: keyOf(1) };
  await openKeyring(newRuntime({ QUEUE_PREFIX: prefix, ...right }));
  await using wrong = await serve(prefix, stateKey);
  expect([await wrong.push(), await wrong.ready()]).toEqual([503, 503]);
  await expect(openKeyring(wrong.runtime)).rejects.toThrow(UnknownKey);
  expect(await wrong.push()).toBe(503);
  expect(await wrong.runtime.inbox.queue.count()).toBe(0);

  await using daemon = await serve(prefix, right);
  await openKeyring(daemon.runtime);
  expect([await daemon.push(), await daemon.ready()]).toEqual([202, 200]);
});
