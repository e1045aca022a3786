import { expect, onTestFinished, test } from "vitest";
import { createHttpServer } from "../../../src/intake/http/server.ts";
import { serveStatus } from "../../../src/intake/http/ops-routes.ts";

function serve(read: () => Promise<object>) {
  const app = createHttpServer({ defect() {}, refused() {} });
  onTestFinished(() => app.close());
  serveStatus(app, read);
  return () => app.inject("/status");
}

test("A reading that is slower than the requests is shared by all of them", async () => {
  const readings: PromiseWithResolvers<object>[] = [];
  const get = serve(() => {
    const reading = Promise.withResolvers<object>();
    readings.push(reading);
    return reading.promise;
  });
  // The first one is answered late; its reading goes on.
  expect((await get()).statusCode).toBe(503);
  const second = get();
  const third = get();
  readings[0]?.resolve({ is: "read" });
  expect((await second).json()).toEqual({ is: "read" });
  expect((await third).json()).toEqual({ is: "read" });
  expect((await get()).json()).toEqual({ is: "read" });
  expect(readings.length).toBe(1);
});

test("A reading that failed is not kept", async () => {
  let readings = 0;
  const get = serve(async () => {
    readings += 1;
    if (readings === 1) throw new Error("Redis is away");
    return { is: "read" };
  });
  expect((await get()).statusCode).toBe(503);
  expect((await get()).statusCode).toBe(200);
});
