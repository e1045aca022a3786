/** The tab Held over real HTTP: what it shows, who may decide, and what is recorded. */
import { expect, test } from "vitest";
import { linksIn, OPERATOR, proofIn, serveConsole, VIEWER } from "../../support/console.ts";
import { hold } from "../../support/hold.ts";

const TRAPS = [
  `<script>alert(1)</script>`,
  `"onmouseover="alert(1)`,
  `'><img src=x>`,
  "\u202egpj.exe",
];

test("an operator releases one and drops the others; each act is recorded", async () => {
  await using server = await serveConsole({ AUDIT_LOG: "/dev/null" });
  const { auditActs, keys, redis } = server.runtime;
  for (const code of ["h/1", "h&2", "h 3"])
    await hold(server.runtime, code, `contact/${code}`, "/crm/a");
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const page = (await operator.request("/console/held")).text;
  expect(page).toContain("3 held changes wait for a person");
  expect(linksIn(page, "/console/records?name=h%2F1")).toHaveLength(1);
  const confirm =
    /href="(\/console\/held\/confirm\?act=release&amp;code=h%2F1[^"]*)"/.exec(page)?.[1] ?? "";
  const released = await operator.submit(
    confirm.replaceAll("&amp;", "&"),
    "/console/held?act=release",
  );
  expect(released.text).toContain("1 held change released.");
  expect(await redis.zrange(keys.line("bulk"), "0", "-1")).toEqual(["h/1"]);
  expect(await redis.zrange(keys.line("bulk"), "0", "-1")).toEqual(["h/1"]);
  const all =
    /href="(\/console\/held\/confirm\?act=drop&amp;at=\d+)"/.exec(released.text)?.[1] ?? "";
  const dropped = await operator.submit(all.replaceAll("&amp;", "&"), "/console/held?act=drop");
  expect(dropped.text).toContain("2 held changes dropped.");
  expect(await redis.exists(keys.heldTerminations)).toBe(0);

  const acts = [];
  for (let act = await auditActs.next(); act !== undefined; act = await auditActs.next()) {
    if (act.line["act"] !== "console.login") acts.push(act.line);
    await auditActs.written(act);
  }
  const by = "operator via console at 127.0.0.1";
  expect(acts).toMatchObject([
    { act: "held.release", crmCode: "h/1", by },
    { act: "held.drop", by },
    { act: "held.drop", by },
  ]);
});

test("what was held after the page was read is not decided with the others", async () => {
  await using server = await serveConsole();
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const page = (await operator.request("/console/held")).text;
  const all = /confirm\?act=drop&amp;at=(\d+)"/.exec(page)?.[1] ?? "";
  const { keys, redis } = server.runtime;
  await hold(server.runtime, "h2", "contact/2", "/crm/a");
  await redis.zadd(keys.heldTerminations, Number(all) + 1, "h2");
  const dropped = await operator.submit(
    `/console/held/confirm?act=drop&at=${all}`,
    "/console/held?",
  );
  expect(dropped.text).toContain("1 held change dropped.");
  expect(await redis.zrange(keys.heldTerminations, "0", "-1")).toEqual(["h2"]);
  const again = await operator.post(`/console/held?act=drop&at=${all}`, { form: proofIn(page) });
  expect(again).toMatchObject({ status: 400 });
  expect(again.text).toContain("This is not held any more");
});

test("a selection is decided as it was seen, whatever its names are; a viewer has none", async () => {
  await using server = await serveConsole();
  const codes = ["h/1", "h&2=x", "h\u202e3", "h4"];
  for (const code of codes) await hold(server.runtime, code, "contact/1", "/crm/a");
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const page = (await operator.request("/console/held")).text;
  const picks = [...page.matchAll(/name="pick"\s+value="([^"]+)"/g)].map(([, pick = ""]) =>
    pick.replaceAll("&amp;", "&"),
  );
  expect(picks).toHaveLength(4);
  const selected = picks.filter((pick) => new URLSearchParams(pick).get("code") !== "h4");
  const form = [
    ["form", proofIn(page)],
    ["act", "drop"],
    ...selected.map((pick) => ["pick", pick]),
  ] as [string, string][];
  const headers = { origin: new URL(server.url).origin };
  const post = (path: string, fields: [string, string][]) =>
    operator.request(path, { method: "POST", body: new URLSearchParams(fields), headers });
  const asked = await post("/console/held/confirm", form);
  expect(asked.text).toContain("Drop 3 held changes?");
  // What was held at another time than the page has shown is another change: it stays.
  const sent = [...asked.text.matchAll(/name="pick"\s+value="([^"]+)"/g)].map(
    ([, pick = ""]): [string, string] => {
      const text = pick.replaceAll("&amp;", "&");
      return ["pick", text.startsWith("code=h%2F1&") ? `${text}0` : text];
    },
  );
  const done = await post("/console/held?act=drop", [["form", proofIn(asked.text)], ...sent]);
  expect(done.status).toBe(303);
  const { keys, redis } = server.runtime;
  expect((await redis.zrange(keys.heldTerminations, "0", "-1")).sort()).toEqual(["h/1", "h4"]);
  const none = await post("/console/held/confirm", form.slice(0, 2));
  expect(none.text).toContain("No held change is selected");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  expect((await viewer.request("/console/held")).text).not.toContain('name="pick"');
});

test("a viewer sees them, and is refused what decides", async () => {
  await using server = await serveConsole();
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const { text } = await viewer.request("/console/held");
  expect(text).toContain("<code>h1</code>");
  expect(text).not.toContain("/console/held/confirm");
  const at = await server.runtime.redis.zscore(server.runtime.keys.heldTerminations, "h1");
  for (const act of ["release", "drop"]) {
    const query = `?act=${act}&code=h1&at=${at}`;
    expect(await viewer.request(`/console/held/confirm${query}`)).toMatchObject({ status: 403 });
    const answer = await viewer.post(`/console/held${query}`, { form: proofIn(text) });
    expect(answer.status).toBe(403);
    expect(answer.text).toContain("VIEWER_TOKEN may only look");
  }
  expect(await server.runtime.redis.zcard(server.runtime.keys.heldTerminations)).toBe(1);
});

test("what others have named is text, on every page", async () => {
  await using server = await serveConsole();
  for (const [n, trap] of TRAPS.entries()) {
    await hold(server.runtime, `${n}${trap}`, `contact/${trap}`, trap);
    await server.runtime.sources.heard(trap, Date.now());
  }
  const operator = server.visitor();
  await operator.logIn(OPERATOR);
  const held = (await operator.request("/console/held")).text;
  const pages = [
    held,
    (await operator.request("/console/sources")).text,
    (
      await operator.request(
        /\/console\/held\/confirm\?act=drop&amp;at=\d+/.exec(held)?.[0].replaceAll("&amp;", "&") ??
          "",
      )
    ).text,
    (await operator.request(`/console/held?notice=${encodeURIComponent(TRAPS[0] ?? "")}&proof=x`))
      .text,
    (await operator.request(`/console/held?page=${encodeURIComponent(TRAPS[0] ?? "")}`)).text,
    (await operator.request(`/console/held/confirm?act=${encodeURIComponent(TRAPS[1] ?? "")}`))
      .text,
  ];
  for (const page of pages) {
    expect(page).not.toMatch(/<script>|<img|"onmouseover|\u202e/);
  }
  expect(held).toContain("&lt;script&gt;alert(1)&lt;/script&gt;");
  expect(held).toContain("\\u202egpj.exe");
});

test("what is held still after the limit was lifted is explained", async () => {
  await using server = await serveConsole({ TERMINATE_LIMIT: "unlimited" });
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const viewer = server.visitor();
  await viewer.logIn(VIEWER);
  const page = (await viewer.request("/console/held")).text;
  expect(page).toMatch(
    /terminations\s+beyond\s+the\s+limit\s+of\s+24\s+hours\s+\(TERMINATE_LIMIT,\s+here\s+unlimited\)/,
  );
  expect(page).toContain("1 held change waits for a person");
});
