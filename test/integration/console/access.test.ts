/** Who gets into the console, and what it refuses. */
import { expect, test, vi } from "vitest";
import { createDeadLetter } from "../../../src/core/sync/dead-letter.ts";
import { OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";

const PAGES = ["", "/records", "/dead", "/held", "/bulk", "/sources", "/audit"].map(
  (tab) => `/console${tab}`,
);

test("without tokens there is no console; OPS_PORT moves it away from senders", async () => {
  await using open = await serveConsole({ VIEWER_TOKEN: "", OPERATOR_TOKEN: "" });
  expect(await open.visitor().request("/console")).toMatchObject({ status: 404 });
  expect(await open.visitor().request("/console/login")).toMatchObject({ status: 404 });
  await using apart = await serveConsole({ OPS_PORT: "0" });
  expect((await fetch(`${apart.url}/console`, { redirect: "manual" })).status).toBe(404);
  expect(await apart.visitor().request("/console")).toMatchObject({ status: 303 });
});

test("a page leads to the login, and the login back to the page", async () => {
  await using server = await serveConsole();
  const visitor = server.visitor();
  const { status, headers } = await visitor.request("/console/held?page=2");
  expect(status).toBe(303);
  const login = headers.get("location") ?? "";
  expect(login).toBe("/console/login?next=%2Fconsole%2Fheld%3Fpage%3D2");
  const { text } = await visitor.request(login);
  const form = { form: proofIn(text), next: "/console/held?page=2", token: VIEWER };
  const answer = await visitor.post("/console/login", form);
  expect(answer.headers.get("location")).toBe("/console/held?page=2");
  for (const page of PAGES) expect(await visitor.request(page)).toMatchObject({ status: 200 });
});

test("the login leads nowhere else", async () => {
  await using server = await serveConsole();
  for (const next of [
    "https://evil.example",
    "//evil.example",
    "/console/../events",
    "/consolex",
    "/console\\@evil",
    "/console/a\nb",
  ]) {
    const visitor = server.visitor();
    const { text } = await visitor.request("/console/login");
    const answer = await visitor.post("/console/login", {
      form: proofIn(text),
      next,
      token: VIEWER,
    });
    expect(answer.headers.get("location"), next).toBe("/console");
  }
});

test("the session's cookie is for this console and no script; over https it is Secure", async () => {
  await using server = await serveConsole();
  const cookieOf = async (headers: Record<string, string>) => {
    const { headers: answered } = await server.visitor().logIn(OPERATOR, headers);
    return answered.getSetCookie().find((text) => /^(?:__Host-)?crmsync_console=/.test(text)) ?? "";
  };
  const plain = await cookieOf({});
  expect(plain).toMatch(/; Max-Age=28800; Path=\/console; HttpOnly; SameSite=Strict$/);
  expect(plain).not.toContain(OPERATOR);
  // The last one comes through a proxy that names this machine as the host, and says nothing of TLS.
  for (const headers of [
    { "x-forwarded-proto": "https" },
    { origin: "https://crmsync.example", "sec-fetch-site": "same-origin" },
  ])
    expect(await cookieOf(headers)).toMatch(
      /^__Host-crmsync_console=.*; Path=\/; HttpOnly; Secure; SameSite=Strict$/,
    );
});

test("a wrong token, a changed cookie and a foreign cookie open no session", async () => {
  await using server = await serveConsole();
  const visitor = server.visitor();
  expect(await visitor.logIn(`${OPERATOR}x`)).toMatchObject({ status: 401 });
  expect(visitor.cookies.has("crmsync_console")).toBe(false);
  await visitor.logIn(OPERATOR);
  const cookie = visitor.cookies.get("crmsync_console") ?? "";
  const [id = "", until = "", mac = ""] = cookie.split(".");
  const changed = `${mac.startsWith("A") ? "B" : "A"}${mac.slice(1)}`;
  for (const value of [
    `${id}.${Number(until) + 1}.${mac}`,
    `${id.slice(1)}A.${until}.${mac}`,
    `${id}.${until}.${changed}`,
    `${id}.${until}.`,
    `${id}.9999999999999.${mac}`,
    "a.b.c",
    "x".repeat(3000),
  ]) {
    const stranger = server.visitor();
    stranger.cookies.set("crmsync_console", value);
    expect(await stranger.request("/console"), value).toMatchObject({ status: 303 });
  }
});

test("a session ends after eight hours, by logging out, and when its token is replaced", async () => {
  await using server = await serveConsole();
  const visitor = server.visitor();
  await visitor.logIn(OPERATOR);
  const stolen = visitor.cookies.get("crmsync_console") ?? "";
  const thief = server.visitor();
  thief.cookies.set("crmsync_console", stolen);
  expect(await thief.request("/console")).toMatchObject({ status: 200 });
  const now = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 8 * 3_600_000 + 1);
  expect(await thief.request("/console")).toMatchObject({ status: 303 });
  now.mockRestore();
  expect(await visitor.submit("/console", "/console/logout")).toMatchObject({ status: 200 });
  expect(await thief.request("/console")).toMatchObject({ status: 303 });

  const prefix = server.runtime.config.QUEUE_PREFIX;
  await using rotating = await serveConsole({
    QUEUE_PREFIX: prefix,
    OPERATOR_TOKEN: `another-token-of-24-or-more ${OPERATOR}`,
  });
  await using rotated = await serveConsole({
    QUEUE_PREFIX: prefix,
    OPERATOR_TOKEN: "another-token-of-24-or-more",
  });
  const before = server.visitor();
  await before.logIn(OPERATOR);
  for (const [process, status] of [
    [rotating, 200],
    [rotated, 303],
  ] as const) {
    const after = process.visitor();
    after.cookies.set("crmsync_console", before.cookies.get("crmsync_console") ?? "");
    expect(await after.request("/console"), String(status)).toMatchObject({ status });
  }
});

test("a form is refused that no page of the session has made", async () => {
  await using server = await serveConsole();
  const visitor = server.visitor();
  await visitor.logIn(OPERATOR);
  const other = server.visitor();
  await other.logIn(OPERATOR);
  const own = proofIn((await visitor.request("/console")).text);
  const foreign = proofIn((await other.request("/console")).text);
  const refused = [
    [{}, {}],
    [{ form: "wrong" }, {}],
    [{ form: foreign }, {}],
    [{ form: own }, { origin: "https://evil.example" }],
    [{ form: own }, { origin: "null" }],
    [{ form: own }, { "sec-fetch-site": "cross-site" }],
    [{ form: own }, { "sec-fetch-site": "same-site" }],
  ] as [Record<string, string>, Record<string, string>][];
  for (const [form, headers] of refused) {
    const answer = await visitor.post("/console/logout", form, headers);
    expect(answer.status, JSON.stringify([form, headers])).toBe(403);
    expect(answer.text).toContain("nothing was done");
  }
  expect(await visitor.request("/console")).toMatchObject({ status: 200 });
  const json = { "content-type": "application/json" };
  const asJson = await visitor.request("/console/logout", {
    method: "POST",
    body: "{}",
    headers: json,
  });
  expect(asJson.status).toBe(415);
  const login = server.visitor();
  await login.request("/console/login");
  expect(await login.post("/console/login", { form: "wrong", token: OPERATOR })).toMatchObject({
    status: 403,
  });
  expect(await login.logIn(OPERATOR, { origin: "https://evil.example" })).toMatchObject({
    status: 403,
  });
});

test("a form without a session does nothing and shows the login", async () => {
  await using server = await serveConsole();
  const answer = await server.visitor().post("/console/held?act=release&at=1", {});
  expect(answer.status).toBe(401);
  expect(answer.text).toContain("Your session has ended, so nothing was done.");
});

test("after ten tries in a minute, an address must wait, even with the right token", async () => {
  await using server = await serveConsole();
  for (let tried = 0; tried < 10; tried += 1) {
    expect(await server.visitor().logIn(`wrong-${tried}`)).toMatchObject({ status: 401 });
  }
  const answer = await server.visitor().logIn(OPERATOR);
  expect(answer.status).toBe(429);
  expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(answer.headers.getSetCookie()).toEqual([]);
});

test("one person's many requests do not keep out another one", async () => {
  const [anna, ben] = ["token-of-anna-with-24-characters", "token-of-ben-with-24-characters"];
  await using server = await serveConsole({
    HTTP_RATE_LIMIT: "1",
    VIEWER_TOKEN: `anna:${anna} ben:${ben}`,
  });
  const [one, other] = [server.visitor(), server.visitor()];
  await one.logIn(anna);
  await other.logIn(ben);
  const fast = await Promise.all(Array.from({ length: 30 }, () => one.request("/console/records")));
  expect(fast.filter(({ status }) => status === 429).length).toBeGreaterThan(0);
  expect((await other.request("/console/records")).status).toBe(200);
});

test("every answer forbids frames, inline scripts and caches", async () => {
  await using server = await serveConsole();
  const visitor = server.visitor();
  await visitor.logIn(VIEWER);
  for (const path of [
    ...PAGES,
    "/console/login",
    "/console/nothing",
    "/console/assets/console.js",
  ]) {
    const { headers, text } = await visitor.request(path);
    const csp = headers.get("content-security-policy") ?? "";
    for (const rule of [
      "default-src 'none'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'self'",
    ]) {
      expect(csp, path).toContain(rule);
    }
    expect(csp).not.toContain("unsafe");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("referrer-policy")).toBe("same-origin");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(text).not.toMatch(/<script>|<style|\sstyle=|\son\w+=/);
  }
});

test("logging in makes a new session, and logging out at one process ends it at all of them", async () => {
  await using first = await serveConsole();
  await using second = await serveConsole({ QUEUE_PREFIX: first.runtime.config.QUEUE_PREFIX });
  const visitor = first.visitor();
  const planted = `${"A".repeat(24)}.${Date.now() + 1000}.${"A".repeat(43)}`;
  visitor.cookies.set("crmsync_console", planted);
  await visitor.logIn(OPERATOR);
  const cookie = visitor.cookies.get("crmsync_console") ?? "";
  await visitor.logIn(OPERATOR);
  const ids = [planted, cookie, visitor.cookies.get("crmsync_console") ?? ""].map(
    (value) => value.split(".")[0],
  );
  expect(new Set(ids).size).toBe(3);

  const other = second.visitor();
  other.cookies.set("crmsync_console", visitor.cookies.get("crmsync_console") ?? "");
  const stale = proofIn((await other.request("/console")).text);
  await visitor.submit("/console", "/console/logout");
  expect(await other.request("/console")).toMatchObject({ status: 303 });
  expect(await other.post("/console/bulk/pause", { form: stale })).toMatchObject({ status: 401 });
  expect(await first.runtime.bulkPauses.current()).toBeUndefined();
});

test("no address acts by GET, and a viewer acts at none", async () => {
  await using server = await serveConsole();
  const { deadLetters, bulkPauses } = server.runtime;
  const letter = { reason: "invalid" as const, problems: [], event: "{}", at: 1 };
  await deadLetters.store(createDeadLetter({ crmCode: "r1" }, letter));
  const [operator, viewer] = [server.visitor(), server.visitor()];
  await operator.logIn(OPERATOR);
  await viewer.logIn(VIEWER);
  const acts = [
    "/console/bulk/pause",
    "/console/bulk/resume",
    `/console/bulk/cancel?before=${Date.now()}`,
    "/console/dead?act=drop&id=c%3Ar1&at=1",
    "/console/dead/event?id=c%3Ar1",
    "/console/held?act=release&at=1",
    "/console/bulk/plan/apply?id=p&hash=h",
    "/console/approvals/approve?id=ABCDEF",
    "/console/approvals/again?id=ABCDEF",
    "/console/approvals/reject?id=ABCDEF",
  ];
  const form = { form: proofIn((await viewer.request("/console")).text) };
  const proof = proofIn((await operator.request("/console")).text);
  for (const act of acts) {
    expect((await viewer.post(act, form)).status, act).toBe(403);
    const path = `${act}${act.includes("?") ? "&" : "?"}form=${proof}`;
    const { text } = await operator.request(path);
    expect(text, act).not.toContain('role="status">The');
  }
  expect(await deadLetters.count()).toBe(1);
  expect(await bulkPauses.current()).toBeUndefined();
});
