/** Signing in to the console at an identity provider: a real one, and one that lies. */
import { get } from "node:http";
import { generateKeyPair } from "jose";
import { expect, inject, onTestFinished, test, vi } from "vitest";
import type { Finding } from "../../../src/operate/status/finding.ts";
import {
  Visitor,
  linksIn,
  OPERATOR,
  proofIn,
  serveConsole,
  VIEWER,
} from "../../support/console.ts";
import {
  beginSignIn,
  lyingProvider,
  oidcEnv,
  OIDC_CLIENT,
  passProvider,
  realProvider,
  signIn,
  type Lies,
} from "../../support/identity-provider.ts";
import { localDaemon } from "../../support/in-process.ts";
import { launchBrowser, openPage } from "../../support/browser.ts";
import { ownPort } from "../../support/own-port.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { uniquePrefix } from "../../support/unique-prefix.ts";

const HOURS = 3_600_000;
const NO_TOKENS = { VIEWER_TOKEN: "", OPERATOR_TOKEN: "" };

/** A console whose identity provider lies. */
async function serve(lies: Lies = {}, env: Record<string, string> = {}) {
  const provider = await lyingProvider(lies);
  const port = await ownPort();
  const server = await serveConsole({ ...oidcEnv(provider.issuer, port), ...env });
  onTestFinished(async () => {
    await server[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  });
  return { ...server, port, provider };
}

/** Logs in on the pages of the real provider. @returns the address to which it sends the browser back. */
async function logInAt(provider: Visitor, address: string, login: string): Promise<string> {
  let answer = await provider.request(address);
  for (let step = 0; step < 12; step += 1) {
    const location = answer.headers.get("location");
    if (location?.includes("/console/")) return location;
    if (location !== null) {
      answer = await provider.request(location);
      continue;
    }
    const [, action = ""] = /action="([^"]+)"/.exec(answer.text) ?? [];
    const [, prompt = ""] = /name="prompt" value="([^"]+)"/.exec(answer.text) ?? [];
    answer = await provider.post(action, { prompt, login, password: "any" });
  }
  throw new Error(`the provider does not end: ${answer.status} ${answer.text}`);
}

test("the whole way at a real provider: in, what the groups allow, and out by its word", async () => {
  const port = await ownPort();
  await using provider = await realProvider(port);
  const env = { ...oidcEnv(provider.issuer, port), ...NO_TOKENS, AUDIT_LOG: "stdout" };
  await using server = await serveConsole(env);
  const [anna, browser] = [server.visitor(), new Visitor(provider.issuer)];
  const toLogin = await anna.request("/console/held?page=2");
  const page = await anna.request(toLogin.headers.get("location") ?? "");
  expect(page.text).not.toContain("VIEWER_TOKEN");
  const [start = ""] = linksIn(page.text, `http://127.0.0.1:${port}/console/sign-in`);
  expect(start).toBe(`http://127.0.0.1:${port}/console/sign-in?next=%2Fconsole%2Fheld%3Fpage%3D2`);
  const begun = await anna.request(start);
  const address = begun.headers.get("location") ?? "";
  expect(Object.fromEntries(new URL(address).searchParams)).toMatchObject({
    response_type: "code",
    code_challenge_method: "S256",
    redirect_uri: `http://127.0.0.1:${port}/console/sign-in/callback`,
    scope: "openid email groups",
  });
  const back = await logInAt(browser, address, "anna.operators.cooks");
  const welcome = await anna.request(back);
  expect(welcome.headers.get("refresh")).toBe("0; url=/console/held?page=2");
  expect(welcome.text).toContain("You are signed in as anna@firm.example.");
  expect((await server.runtime.auditActs.next())?.line).toMatchObject({
    act: "console.login",
    by: `anna@firm.example (OIDC anna.operators.cooks of ${provider.issuer}) via console at 127.0.0.1`,
    subject: "anna.operators.cooks",
    via: "OIDC",
    rights: ["look", "act"],
  });
  const now = await anna.request("/console");
  expect(now.text).toContain("anna@firm.example may look and act (OIDC).");
  const form = proofIn(now.text);
  expect(await anna.post("/console/bulk/pause", { form })).toMatchObject({ status: 303 });
  expect(await server.runtime.bulkPauses.current()).toMatchObject({
    by: `anna@firm.example (OIDC anna.operators.cooks of ${provider.issuer}) via console at 127.0.0.1`,
  });

  const ben = server.visitor();
  const bensBack = await logInAt(new Visitor(provider.issuer), await beginSignIn(ben), "ben.staff");
  expect(await ben.request(bensBack)).toMatchObject({ status: 200 });
  const bens = proofIn((await ben.request("/console")).text);
  const refused = await ben.post("/console/bulk/resume", { form: bens });
  expect(refused.status).toBe(403);
  expect(refused.text).toContain("needs a role of OIDC_ACT");

  // Anna ends her session at the provider, which tells the console.
  const end = await browser.request("/session/end");
  const [, action = ""] = /action="([^"]+)"/.exec(end.text) ?? [];
  const [, xsrf = ""] = /name="xsrf" value="([^"]+)"/.exec(end.text) ?? [];
  await browser.post(action, { xsrf, logout: "yes" });
  await vi.waitFor(async () => {
    expect(await anna.request("/console")).toMatchObject({ status: 303 });
  });
  expect(await ben.request("/console")).toMatchObject({ status: 200 });
});

test("in a browser: to another site and back, with cookies that no other site sends", async (context) => {
  const browser = await launchBrowser(context);
  onTestFinished(() => browser.close());
  const port = await ownPort();
  // For a browser, localhost and 127.0.0.1 are two sites.
  await using provider = await realProvider(port);
  await using server = await serveConsole(oidcEnv(provider.issuer, port));
  const { page, problems } = await openPage(browser);
  await page.goto(`${server.opsUrl}/console/sources`);
  await page.getByRole("link", { name: /^Sign in with localhost/ }).click();
  await page.getByPlaceholder("Enter any login").fill("anna.operators");
  await page.getByPlaceholder("and password").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "No event has been received yet" }).waitFor();
  expect(page.url()).toBe(`${server.opsUrl}/console/sources`);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByRole("link", { name: "Log out of localhost" }).click();
  await page.getByText("Do you want to sign-out").waitFor();
  await page.goto(`${server.opsUrl}/console`);
  await page.getByText("With a token").click();
  await page.getByLabel("OPERATOR_TOKEN or VIEWER_TOKEN").fill(OPERATOR);
  await page.keyboard.press("Enter");
  await page
    .getByText("may look, act and approve")
    .or(page.getByText("You may look and act"))
    .waitFor();
  expect(problems.filter((text) => text.includes("Security Policy"))).toEqual([]);
});

test("with OIDC alone, nothing is open to those without a token", async () => {
  const server = await serve({}, NO_TOKENS);
  for (const path of ["/status", "/metrics", "/records/r1"]) {
    expect(await server.visitor().request(path), path).toMatchObject({ status: 401 });
  }
  const visitor = server.visitor();
  await signIn(visitor);
  expect(await visitor.request("/console")).toMatchObject({ status: 200 });
  expect(await visitor.request("/status")).toMatchObject({ status: 401 });
  const guess = server.visitor();
  await guess.request("/console/login");
  const form = guess.cookies.get("crmsync_login") ?? "";
  expect(await guess.post("/console/login", { form, token: OPERATOR })).toMatchObject({
    status: 401,
  });
});

test.for([
  [["staff"], "may look (OIDC)"],
  [["approvers"], "may look and approve (OIDC)"],
  [["admins", "x"], "may look and act (OIDC)"],
  ["operators", "may look and act (OIDC)"],
] as const)("groups %j: %s", async ([groups, says]) => {
  const server = await serve({ claims: { groups } });
  const visitor = server.visitor();
  await signIn(visitor);
  expect((await visitor.request("/console")).text).toContain(says);
});

test("without a role nothing is opened, and the page names the roles", async () => {
  for (const groups of [[], ["Operators"], ["operators,admins"], [{ operators: 1 }], 7]) {
    const server = await serve({ claims: { groups, email: "eve@firm.example" } });
    const visitor = server.visitor();
    const answer = await signIn(visitor);
    expect(answer.status).toBe(403);
    expect(answer.text).toContain("You are known as eve@firm.example, and have no role here");
    expect(answer.text).toContain("staff, operators, admins, approvers");
    expect(visitor.cookies.has("crmsync_console")).toBe(false);
  }
});

test("groups that the ID token lacks are asked of userinfo, for the same person", async () => {
  const server = await serve({
    claims: { groups: undefined },
    userinfo: { sub: "s1", groups: ["staff"] },
  });
  const visitor = server.visitor();
  await signIn(visitor);
  expect((await visitor.request("/console")).text).toContain("anna@firm.example may look (OIDC)");
  server.provider.lies.userinfo = { sub: "another", groups: ["staff"] };
  const other = server.visitor();
  expect((await signIn(other)).text).toContain("did not succeed");
  expect(other.cookies.has("crmsync_console")).toBe(false);
});

test("whether an address is verified counts for the address beside it alone", async () => {
  const server = await serve(
    {
      claims: { email: undefined, email_verified: true, groups: undefined },
      userinfo: { sub: "s1", email: "boss@firm.example" },
    },
    { OIDC_CLAIM: "email", OIDC_ACT: "boss@firm.example" },
  );
  const visitor = server.visitor();
  expect(await signIn(visitor)).toMatchObject({ status: 403 });
  expect(visitor.cookies.has("crmsync_console")).toBe(false);
});

/** JSON leaves it out. */
const gone = (name: string): Record<string, unknown> => ({ [name]: undefined });

const NOW = () => Math.floor(Date.now() / 1000);
const LIES: readonly (readonly [string, () => Lies | Promise<Lies>, RegExp])[] = [
  ["another audience", () => ({ claims: { aud: "other" } }), /aud/],
  ["another issuer in the ID token", () => ({ claims: { iss: "https://evil.example" } }), /iss/],
  ["another nonce", () => ({ claims: { nonce: "x" } }), /nonce/],
  ["no nonce", () => ({ claims: gone("nonce") }), /nonce/],
  ["an expired ID token", () => ({ claims: { exp: NOW() - 40 } }), /exp/],
  ["no expiry", () => ({ claims: gone("exp") }), /exp/],
  ["no subject", () => ({ claims: gone("sub") }), /sub/],
  [
    "a key that is not published",
    async () => ({ key: (await generateKeyPair("RS256")).privateKey }),
    /signature/,
  ],
  ["a key of another name", () => ({ kid: "other" }), /key/],
  [
    "another way to sign",
    async () => ({ alg: "ES256", key: (await generateKeyPair("ES256")).privateKey }),
    /alg/,
  ],
  ["no ID token", () => ({ token: { access_token: "a", token_type: "Bearer" } }), /id_token/],
  ["a callback of another issuer", () => ({ callback: { iss: "https://evil.example" } }), /iss/],
  ["its own refusal", () => ({ callback: { error: "access_denied" } }), /access_denied/],
];

test.for(LIES)("%s opens no session", async ([, lie, why]) => {
  const server = await serve(await lie());
  const visitor = server.visitor();
  const answer = await signIn(visitor);
  expect(answer.status).toBe(403);
  expect(answer.text).toMatch(why);
  expect(answer.text).toContain("nothing was opened");
  expect(visitor.cookies.has("crmsync_console")).toBe(false);
  expect(answer.text).toContain("Sign in with");
});

test("a provider that names another issuer, or no address of keys, is not used", async () => {
  for (const [lies, why] of [
    [{ issuer: "https://evil.example" }, /issuer/],
    [{ metadata: { jwks_uri: undefined } }, /jwks_uri/],
  ] as const) {
    const server = await serve(lies);
    const { text } = await server.visitor().request("/console/login");
    expect(text).toMatch(why);
    expect(await beginSignIn(server.visitor())).toBe("");
    expect(server.provider.asked).not.toContain("/token");
  }
});

test("a client that the provider does not know says so", async () => {
  const port = await ownPort();
  await using provider = await realProvider(port);
  const env = oidcEnv(provider.issuer, port);
  await using server = await serveConsole({ ...env, OIDC_CLIENT_SECRET: "x".repeat(24) });
  const visitor = server.visitor();
  const address = await beginSignIn(visitor);
  const back = await logInAt(new Visitor(provider.issuer), address, "anna.staff");
  const { text } = await visitor.request(back);
  expect(text).toContain("it refuses OIDC_CLIENT_ID with OIDC_CLIENT_SECRET");
});

test("a key that was replaced is taken over, and the former one does not count any more", async () => {
  const server = await serve();
  await signIn(server.visitor());
  const { provider } = server;
  const former = await provider.rotateKey();
  // The first try may meet the keys that are known; the next one reads them again.
  await signIn(server.visitor());
  const visitor = server.visitor();
  await signIn(visitor);
  expect(await visitor.request("/console")).toMatchObject({ status: 200 });
  Object.assign(provider.lies, { key: former, kid: "k1" });
  expect((await signIn(server.visitor())).text).toContain("nothing was opened");
});

test("a callback without its browser, forged, old or used again opens nothing", async () => {
  const server = await serve();
  const visitor = server.visitor();
  const back = await passProvider(await beginSignIn(visitor));
  const cookie = visitor.cookies.get("crmsync_sign_in") ?? "";
  const refused = async (path: string, sent?: string) => {
    const browser = server.visitor();
    if (sent !== undefined) browser.cookies.set("crmsync_sign_in", sent);
    const answer = await browser.request(path);
    expect(answer.status, path).toBe(403);
    expect(answer.text).toContain("nothing was opened");
    expect(browser.cookies.has("crmsync_console")).toBe(false);
  };
  await refused(back);
  const other = server.visitor();
  await beginSignIn(other);
  // Login CSRF: the code of an attacker in the browser of somebody else.
  await refused(back, other.cookies.get("crmsync_sign_in"));
  const forged = new URL(back);
  for (const state of ["", "x", "é"]) {
    forged.searchParams.set("state", state);
    await refused(forged.href, cookie);
  }
  forged.searchParams.delete("state");
  await refused(forged.href, cookie);
  await refused(`${back}&state=x`, cookie);
  const [id, until, next, mac] = cookie.split(".");
  for (const sent of [
    `${id}.${Number(until) + 1}.${next}.${mac}`,
    `${id}.${until}.${Buffer.from("/console/dead").toString("base64url")}.${mac}`,
    `${id}.${until}.${next}.${"A".repeat(43)}`,
    `${"A".repeat(24)}.${until}.${next}.${mac}`,
  ]) {
    await refused(back, sent);
  }
  const late = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 600_001);
  await refused(back, cookie);
  late.mockRestore();
  expect(server.provider.asked).not.toContain("/token");
  expect(await visitor.request(back)).toMatchObject({ status: 200 });
  expect(visitor.cookies.has("crmsync_sign_in")).toBe(false);
  await refused(back, cookie);
  expect(server.provider.asked.filter((path) => path === "/token")).toHaveLength(1);
});

test("signing in makes a new session; the cookies are for scripts unreadable, and for this path", async () => {
  const server = await serve();
  const visitor = server.visitor();
  visitor.cookies.set("crmsync_console", "oidc.planted.cookie");
  const begun = await visitor.request("/console/sign-in");
  expect(begun.headers.getSetCookie().join()).toMatch(
    /^crmsync_sign_in=.*; Max-Age=600; Path=\/console\/sign-in; HttpOnly; SameSite=Lax$/,
  );
  const answer = await visitor.request(await passProvider(begun.headers.get("location") ?? ""));
  expect(answer.headers.getSetCookie().join("\n")).toMatch(
    /^crmsync_console=oidc\..*; Max-Age=28800; Path=\/console; HttpOnly; SameSite=Strict$/m,
  );
  const first = visitor.cookies.get("crmsync_console");
  await signIn(visitor);
  expect(visitor.cookies.get("crmsync_console")).not.toBe(first);
});

test("behind TLS the cookies are of this host alone, and a plain one, which another could plant, is none", async () => {
  const server = await serve({}, { CONSOLE_URL: "https://crmsync.example" });
  const tls = { "x-forwarded-proto": "https" };
  const visitor = server.visitor();
  const begun = await visitor.request("/console/sign-in", { headers: tls });
  expect(begun.headers.getSetCookie()).toEqual([
    expect.stringMatching(
      /^__Host-crmsync_sign_in=.*; Max-Age=600; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
    ),
  ]);
  const back = new URL(await passProvider(begun.headers.get("location") ?? ""));
  const answer = await visitor.request(`${back.pathname}${back.search}`, { headers: tls });
  expect(answer.headers.getSetCookie().join("\n")).toMatch(
    /^__Host-crmsync_console=oidc\..*; Max-Age=28800; Path=\/; HttpOnly; Secure; SameSite=Strict$/m,
  );
  expect(await visitor.request("/console", { headers: tls })).toMatchObject({ status: 200 });
  const victim = server.visitor();
  victim.cookies.set("crmsync_console", visitor.cookies.get("__Host-crmsync_console") ?? "");
  // What a browser sends through a proxy that does not say that it took the TLS off.
  const silent = { host: "crmsync.example", "sec-fetch-site": "none" };
  for (const headers of [tls, silent])
    expect(await fetchWith(server.opsUrl, victim, headers)).toBe(303);
  expect(await fetchWith(server.opsUrl, visitor, silent)).toBe(200);
  const out = await visitor.submit("/console", "/console/logout");
  expect(out.status).toBe(200);
  expect(visitor.cookies.has("__Host-crmsync_console")).toBe(false);
});

/** fetch does not send another Host. */
const fetchWith = (url: string, { cookies }: Visitor, headers: Record<string, string>) =>
  new Promise<number | undefined>((resolve, reject) => {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    get(new URL("/console", url), { headers: { ...headers, cookie } }, (response) =>
      resolve(response.resume().statusCode),
    ).on("error", reject);
  });

test("an answer that is short only while it is compressed is not read to its end", async () => {
  const server = await serve({ padded: 2 ** 24 });
  const answer = await signIn(server.visitor());
  expect(answer.status).toBe(403);
  expect(answer.text).toContain("its answer is longer than 1048576 bytes");
  server.provider.lies.padded = 1000;
  expect(await signIn(server.visitor())).toMatchObject({ status: 200 });
});

test("while Redis hangs, a login and a sign-in are answered within seconds", async () => {
  await using redis = await ownRedis();
  const server = await serve({}, { REDIS_URL: redis.url, AUDIT_LOG: "/dev/null" });
  const visitor = server.visitor();
  await signIn(visitor);
  const back = await passProvider(await beginSignIn(visitor));
  const { text } = await visitor.request("/console/login");
  redis.signal("SIGSTOP");
  onTestFinished(() => redis.signal("SIGCONT"));
  const began = performance.now();
  const logout = await server.provider.logoutToken({ jti: "1", sub: "s1" });
  const answers = await Promise.all([
    visitor.request(back),
    visitor.post("/console/login", { form: proofIn(text), next: "/console", token: OPERATOR }),
    server.visitor().post("/console/backchannel-logout", { logout_token: logout }),
  ]);
  expect(performance.now() - began).toBeLessThan(10_000);
  for (const answer of answers) {
    expect(answer.status).toBe(503);
    expect(answer.text).toContain("no answer within 2.5 s");
  }
});

test("a changed cookie opens nothing, nor one of another client, table of roles or tenant", async () => {
  const server = await serve({ claims: { groups: ["staff"] } });
  const visitor = server.visitor();
  await signIn(visitor);
  const cookie = visitor.cookies.get("crmsync_console") ?? "";
  const [, text = "", mac = ""] = cookie.split(".");
  const carried = JSON.parse(Buffer.from(text, "base64url").toString("utf8")) as object;
  const more = { ...carried, rights: ["look", "act", "approve"] };
  const changed = Buffer.from(JSON.stringify(more)).toString("base64url");
  for (const sent of [`oidc.${changed}.${mac}`, `oidc.${text}.${mac.slice(1)}A`, `oidc.${text}.`]) {
    const thief = server.visitor();
    thief.cookies.set("crmsync_console", sent);
    expect(await thief.request("/console"), sent).toMatchObject({ status: 303 });
  }
  const same = oidcEnv(server.provider.issuer, 0);
  const prefix = { QUEUE_PREFIX: server.runtime.config.QUEUE_PREFIX };
  for (const [env, status] of [
    [prefix, 200],
    [{}, 303],
    [{ ...prefix, OIDC_LOOK: "others" }, 303],
    [{ ...prefix, OIDC_CLIENT_SECRET: `${OIDC_CLIENT.secret}x` }, 303],
  ] as const) {
    await using other = await serveConsole({ ...same, ...env });
    const guest = other.visitor();
    guest.cookies.set("crmsync_console", cookie);
    expect(await guest.request("/console"), JSON.stringify(env)).toMatchObject({ status });
  }
});

test("a session ends after eight hours, and by logging out, also its copies", async () => {
  const server = await serve();
  const [visitor, copy] = [server.visitor(), server.visitor()];
  await signIn(visitor);
  copy.cookies.set("crmsync_console", visitor.cookies.get("crmsync_console") ?? "");
  const before = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 8 * HOURS - 60_000);
  expect(await copy.request("/console")).toMatchObject({ status: 200 });
  before.mockReturnValue(Date.now() + 60_001);
  expect(await copy.request("/console")).toMatchObject({ status: 303 });
  before.mockRestore();
  const out = await visitor.submit("/console", "/console/logout");
  expect(linksIn(out.text, `${server.provider.issuer}/end`)).toEqual([
    `${server.provider.issuer}/end?client_id=crmsync`,
  ]);
  expect(await copy.request("/console")).toMatchObject({ status: 303 });
});

test("a page after the sign-in is one of the console", async () => {
  const server = await serve();
  for (const next of ["https://evil.example", "//evil.example", "/console/../events", "/x"]) {
    const { headers } = await signIn(server.visitor(), next);
    expect(headers.get("refresh"), next).toBe("0; url=/console");
  }
});

test("the Host header does not decide where the provider sends people", async () => {
  const server = await serve();
  const answer = await server.visitor().request("/console/sign-in", {
    headers: { "x-forwarded-host": "evil.example", "x-forwarded-proto": "https" },
  });
  const to = new URL(answer.headers.get("location") ?? "");
  expect(to.searchParams.get("redirect_uri")).toBe(
    `http://127.0.0.1:${server.port}/console/sign-in/callback`,
  );
});

test("while the provider is away, the page says why, and a token still works", async () => {
  const away = `http://127.0.0.1:${await ownPort()}`;
  const port = await ownPort();
  await using server = await serveConsole(oidcEnv(away, port));
  const { text } = await server.visitor().request("/console/login");
  expect(text).toMatch(/Sign-in with 127\.0\.0\.1:\d+ .*ECONNREFUSED/);
  const answer = await server.visitor().request("/console/sign-in");
  expect(answer.status).toBe(403);
  expect(answer.text).toContain("ECONNREFUSED");
  expect(await server.visitor().logIn(OPERATOR)).toMatchObject({ status: 303 });
});

test("while the provider is away, the status says why, and the log once", async () => {
  const [port, providerPort] = [await ownPort(), await ownPort()];
  await using daemon = await localDaemon(
    {
      ...oidcEnv(`http://127.0.0.1:${providerPort}`, port),
      REDIS_URL: inject("redisUrl"),
      QUEUE_PREFIX: uniquePrefix(),
      VIEWER_TOKEN: VIEWER,
    },
    new Set(["http"] as const),
  );
  const findings = async () => {
    const headers = { authorization: `Bearer ${VIEWER}` };
    const response = await fetch(`${daemon.url}/status`, { headers });
    const { findings: found } = (await response.json()) as { findings: Finding[] };
    return found.filter(({ runbook }) => runbook.endsWith("#sign-in-does-not-work"));
  };
  await vi.waitFor(
    async () => {
      const [found] = await findings();
      expect(found?.severity).toBe("warning");
      expect(found?.says).toMatch(/^Sign-in to the console does not work at 127.*ECONNREFUSED/);
    },
    { timeout: 15_000, interval: 200 },
  );
  const lines = daemon.log.filter((line) => line.includes("console.provider_unusable"));
  expect(lines).toHaveLength(1);
});

test("the provider ends the sessions that it names, and nothing else does", async () => {
  const server = await serve({ claims: { sid: "one" } });
  const { provider } = server;
  const open = async (claims: object) => {
    provider.lies.claims = { ...claims };
    const visitor = server.visitor();
    await signIn(visitor);
    return visitor;
  };
  const one = await open({ sid: "one" });
  const two = await open({ sid: "two" });
  const without = await open({});
  const other = await open({ sub: "s2", sid: "three" });
  const statuses = async () =>
    Promise.all([one, two, without, other].map(async (v) => (await v.request("/console")).status));
  const send = async (token: string) =>
    (await server.visitor().post("/console/backchannel-logout", { logout_token: token })).status;

  const nonce = await provider.logoutToken({ jti: "1", sub: "s1", nonce: "n" });
  const stranger = await generateKeyPair("RS256");
  const bad = [
    "",
    "x.y.z",
    nonce,
    await provider.logoutToken({ sub: "s1" }),
    await provider.logoutToken({ jti: "2" }),
    await provider.logoutToken({ jti: "3", sub: "s1", events: {} }),
    await provider.logoutToken({ jti: "4", sub: "s1", aud: "other" }),
    await provider.logoutToken({ jti: "5", sub: "s1", iss: "https://evil.example" }),
    await provider.logoutToken({ jti: "6", sub: "s1", iat: NOW() - 400 }),
    await provider.logoutToken({ jti: "7", sub: "s1", exp: NOW() - 40 }),
    await provider.logoutToken({ jti: "7a", sub: "s1", ...gone("exp") }),
    await provider.logoutToken({ jti: "7b", sub: "s1", ...gone("events") }),
    ...(await Promise.all(
      [null, [], "x", true].map((said) => {
        const events = { "http://schemas.openid.net/event/backchannel-logout": said };
        return provider.logoutToken({ jti: `7 ${String(said)}`, sub: "s1", events });
      }),
    )),
    await provider.logoutToken({ jti: "7c", sub: "s1", events: [] }),
    await provider.sign({ iss: provider.issuer, aud: OIDC_CLIENT.id, sub: "s1", nonce: "n" }),
  ];
  provider.lies.key = stranger.privateKey;
  bad.push(await provider.logoutToken({ jti: "8", sub: "s1" }));
  delete provider.lies.key;
  for (const token of bad) expect(await send(token), token).toBe(400);
  expect(await statuses()).toEqual([200, 200, 200, 200]);

  const first = await provider.logoutToken({ jti: "9", sid: "one", sub: "s1" });
  // However many come at once.
  const sent = await Promise.all([first, first, first, first].map(send));
  expect(sent.toSorted((a, b) => a - b)).toEqual([200, 400, 400, 400]);
  expect(await statuses()).toEqual([303, 303, 303, 200]);
  const again = await open({ sid: "four" });
  expect(await send(first)).toBe(400);
  expect(await again.request("/console")).toMatchObject({ status: 200 });
  expect(await send(await provider.logoutToken({ jti: "10", sid: "four" }))).toBe(200);
  expect(await again.request("/console")).toMatchObject({ status: 303 });
  expect(await statuses()).toEqual([303, 303, 303, 200]);
});
