import { Queue } from "bullmq";
import { expect, it } from "vitest";
import { launchBrowser, openPage } from "../support/browser.ts";
import { localDaemon, localSandbox } from "../support/in-process.ts";
import { personEvent } from "../support/person-event.ts";
import { ownRedis } from "../support/own-redis.ts";

const MARK = "Xq7Leak";
const TOKEN = "operator-token-of-24-characters";
const basic = `Basic ${Buffer.from(`any-user:${TOKEN}`).toString("base64")}`;

it("/queues is not served without OPERATOR_TOKEN", async () => {
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon({
    REDIS_URL: redis.url,
    SERVICE_BASE_URL: sandbox.url,
    SERVICE_TOKEN: sandbox.token,
  });
  expect((await fetch(`${daemon.url}/queues`)).status).toBe(404);
});

it("/queues is for the operator only, read-only, and shows no personal data", async (context) => {
  await using browser = await launchBrowser(context);
  await using redis = await ownRedis();
  await using sandbox = await localSandbox();
  await using daemon = await localDaemon(
    { REDIS_URL: redis.url, OPERATOR_TOKEN: TOKEN, SERVICE_BASE_URL: sandbox.url },
    new Set(["http"]),
  );
  // No worker runs: the jobs wait, with personal data in every field that a client may set.
  await daemon.push([personEvent(`${MARK}1`, { firstName: MARK }, { subject: `contact/${MARK}` })]);
  const inbox = new Queue("crm-events", { connection: redis.client, prefix: "{crmsync}" });
  const job = await inbox.add(MARK, { [MARK]: MARK }, { jobId: `${MARK}-id` });
  await job.log(MARK);
  await job.updateProgress({ [MARK]: MARK });
  const foreign = await inbox.add("null", null);

  const get = (path: string, authorization?: string, method = "GET") =>
    fetch(daemon.url + path, { method, headers: authorization ? { authorization } : {} });
  const api = "/queues/api/queues";
  for (const path of ["/queues", api, "/queues/static/css/none.css", `${api}/crm-events/1`]) {
    expect((await get(path)).status, path).toBe(401);
    expect((await get(path, "Bearer wrong")).status, path).toBe(401);
  }
  for (const [method, path] of [
    ["PUT", `${api}/crm-events/${MARK}-id/clean`],
    ["PUT", `${api}/crm-events/empty`],
    ["PUT", `${api}/crm-events/pause`],
    ["POST", `${api}/crm-events/add`],
    ["PUT", `${api}/crm-events/obliterate`],
  ] as const) {
    expect((await get(path, basic, method)).status).toBe(405);
  }
  expect(await inbox.count()).toBe(3);

  const bodies = await Promise.all(
    [
      `${api}?activeQueue=crm-events&status=latest&page=1`,
      `${api}/crm-events/${MARK}-id`,
      `${api}/crm-events/${MARK}-id/logs`,
      `${api}/crm-events/${MARK}-id/flow`,
      // The router decodes what it compares.
      `${api}/crm-events/${MARK}-id/%6Cogs`,
      `${api}/crm-events/${MARK}-id/%66low`,
      `${api}/crm-events/1`,
      `${api}/crm-events/${foreign.id}`,
      "/queues/api/redis/stats",
      "/queues/api/job-schedulers",
    ].map(async (path) => {
      const response = await get(path, basic);
      expect(response.headers.get("content-security-policy")).toContain("default-src 'none'");
      return response.text();
    }),
  );
  expect((await get(`${api}/crm-events/${foreign.id}`, basic)).status).toBe(200);
  expect(bodies.join("\n")).toContain("crm.record.updated");
  expect(bodies.join("\n")).not.toContain(MARK);

  const { page, problems, requests } = await openPage(browser, {
    httpCredentials: { username: "operator", password: TOKEN },
  });
  await page.goto(`${daemon.url}/queues/queue/crm-events`);
  await page.getByText("crm.record.updated").first().waitFor();
  const text = await page.locator("body").innerText();
  expect(text).toContain("crm-events");
  expect(text).not.toContain(MARK);
  await page.getByText("crm-events").first().waitFor();
  expect(requests.filter((url) => !url.startsWith(daemon.url))).toEqual([]);
  expect(problems).toEqual([]);
  await inbox.close();
});

it("/queues answers 503 while Redis is frozen", async () => {
  await using redis = await ownRedis();
  await using daemon = await localDaemon(
    { REDIS_URL: redis.url, OPERATOR_TOKEN: TOKEN, SERVICE_BASE_URL: "http://127.0.0.1:9" },
    new Set(["http"]),
  );
  redis.signal("SIGSTOP");
  const response = await fetch(`${daemon.url}/queues/api/queues`, {
    headers: { authorization: basic },
  });
  expect(response.status).toBe(503);
  expect(await response.json()).toEqual({
    error: "The queues are not known: Redis did not answer in time.",
  });
});
