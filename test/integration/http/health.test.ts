import { expect, onTestFinished, test } from "vitest";
import { serveHealth } from "../../../src/intake/http/ops-routes.ts";
import { createHttpServer } from "../../../src/intake/http/server.ts";

const never = () => new Promise<readonly string[]>(() => {});

function serve(ports: { notReady?: typeof never; notSending?: typeof never }) {
  const app = createHttpServer({ defect() {}, refused() {} });
  onTestFinished(() => app.close());
  const none = async () => [];
  serveHealth(app, { notReady: none, notSending: none, ...ports });
  return async () => {
    await app.ready();
    const reply = await app.inject("/readyz");
    return { code: reply.statusCode, ...reply.json<Record<string, unknown>>() };
  };
}

test("/readyz answers within a second when Redis does not, and is not ready", async () => {
  const get = serve({ notReady: never, notSending: never });
  expect(await get()).toMatchObject({ code: 503, reasons: ["redis does not answer"] });
});

test("/readyz says when it is not known whether changes are sent", async () => {
  const get = serve({ notSending: never });
  expect(await get()).toEqual({
    code: 200,
    status: "ready",
    reasons: [],
    notSending: ["not known within 800 ms"],
  });
});

test("/readyz is not ready when Redis rejects the question", async () => {
  const get = serve({ notReady: () => Promise.reject(new Error("NOPERM")) });
  expect(await get()).toMatchObject({ code: 503, reasons: ["redis does not answer"] });
});
