/** What pulls of each CRM find, over real HTTP, from stand-ins of their APIs. */
import { describe, expect, test } from "vitest";
import { CHANGING, openChangingCrm } from "../../support/changing-records.ts";

const at = (clock: string) => `2026-11-21T${clock}.000Z`;
const NOW = at("08:00:00");

describe.for(CHANGING.map((kind) => [kind.name, kind] as const))("%s", ([name, kind]) => {
  test("changes since the cursor, page by page, and then those after them", async () => {
    await using crm = await openChangingCrm(kind, 4);
    const cursor = await crm.begin(NOW);
    for (let n = 2; n < 8; n += 1) crm.change(n, at(`08:0${n}:00`), `new ${n}`);
    crm.change(8, at("08:30:00"), "new 8");
    crm.standIn.list.pageSize = 3;
    const first = await crm.pull(cursor, at("08:31:00"));
    const wanted = Object.fromEntries([2, 3, 4, 5, 6, 7, 8].map((n) => [n, `new ${n}`]));
    expect(crm.namesOf(first.changes)).toEqual(wanted);
    expect(first.pages).toBeGreaterThan(2);
    const third = first.changes.find(({ id }) => id === crm.idOf(3));
    expect(third?.at).toBe(kind.atOf(at("08:03:00")));
    expect(first.changes.every(({ record }) => record !== undefined)).toBe(true);

    crm.change(1, at("08:32:00"), "later");
    const second = await crm.pull(first.cursor, at("08:35:00"));
    const later = crm.namesOf(second.changes);
    expect(later).toMatchObject({ 1: "later" });
    expect(later).not.toHaveProperty("2");
    // What is found again is the same event.
    for (const again of second.changes.filter(({ id }) => id !== crm.idOf(1))) {
      expect(first.changes).toContainEqual(again);
    }
  });

  test("a change during the pull hides no other one", async () => {
    await using crm = await openChangingCrm(kind, 0);
    const cursor = await crm.begin(NOW);
    for (let n = 0; n < 8; n += 1) crm.change(n, at(`08:0${n}:00`));
    crm.standIn.list.pageSize = 3;
    const first = await crm.pull(cursor, at("08:10:00"), (pages) => {
      if (pages !== 1) return;
      crm.change(0, at("08:09:00"), "again");
      crm.change(5, at("08:09:10"), "again");
      crm.delete(1, at("08:09:20"));
    });
    const second = await crm.pull(first.cursor, at("08:15:00"));
    const names = crm.namesOf([...first.changes, ...second.changes]);
    const others = { 2: "n2", 3: "n3", 4: "n4", 6: "n6", 7: "n7" };
    expect(names).toEqual({ ...others, 0: "again", 1: null, 5: "again" });
  });

  test("a deletion, once or as the same event again; older ones are not told", async () => {
    await using crm = await openChangingCrm(kind, 5);
    crm.delete(4, "2026-11-20T09:00:00.000Z");
    const cursor = await crm.begin(NOW);
    crm.change(0, at("08:01:00"));
    crm.delete(2, at("08:02:00"));
    const first = await crm.pull(cursor, at("08:05:00"));
    expect(crm.namesOf(first.changes)).toEqual({ 0: "n0", 2: null });
    crm.delete(3, at("08:06:00"));
    const second = await crm.pull(first.cursor, at("08:10:00"));
    expect(crm.namesOf(second.changes)).toMatchObject({ 3: null });
    expect(crm.namesOf(second.changes)).not.toHaveProperty("4");
    for (const again of second.changes.filter(({ id }) => id === crm.idOf(2))) {
      expect(first.changes).toContainEqual(again);
    }
  });

  test("records of the same time, in more than a page", async () => {
    await using crm = await openChangingCrm(kind, 2);
    const cursor = await crm.begin(NOW);
    crm.change(20, at("08:01:00"));
    for (let n = 2; n < 12; n += 1) crm.change(n, at("08:02:00"));
    crm.change(21, at("08:03:00"));
    crm.standIn.list.pageSize = 3;
    const { changes } = await crm.pull(cursor, at("08:10:00"));
    const numbers = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 20, 21];
    expect(crm.namesOf(changes)).toEqual(Object.fromEntries(numbers.map((n) => [n, `n${n}`])));
  });

  test("a record dated a year ahead hides nothing that changes meanwhile", async () => {
    await using crm = await openChangingCrm(kind, 3);
    const cursor = await crm.begin(NOW);
    crm.change(0, "2027-11-21T08:00:00.000Z", "ahead");
    const first = await crm.pull(cursor, at("08:05:00"));
    expect(crm.namesOf(first.changes)).toEqual({ 0: "ahead" });
    crm.change(1, at("08:06:00"), "now");
    const second = await crm.pull(first.cursor, at("08:10:00"));
    expect(crm.namesOf(second.changes)).toMatchObject({ 1: "now" });
  });

  test("a place that the CRM has forgotten begins the pull again", async () => {
    await using crm = await openChangingCrm(kind, 0);
    const cursor = await crm.begin(NOW);
    for (let n = 0; n < 5; n += 1) crm.change(n, at(`08:0${n}:00`));
    crm.standIn.list.pageSize = 2;
    const { changes } = await crm.pull(cursor, at("08:10:00"), (pages) => {
      if (pages === 1) crm.standIn.faults.push({ status: 400, body: "{}" });
    });
    expect(crm.namesOf(changes)).toEqual({ 0: "n0", 1: "n1", 2: "n2", 3: "n3", 4: "n4" });
    expect(changes.filter(({ id }) => id === crm.idOf(0))).toHaveLength(2);
  });

  test.for([
    ["something else", { status: 200, body: '{"hello":1}' }, "not_a_list"],
    ["too many requests", { status: 429, headers: { "retry-after": "7" } }, "throttled"],
    ["no right", { status: 403, body: "{}" }, "client_error"],
    ["no such object", { status: 404, body: "{}" }, "not_found"],
    ["a fault of the CRM", { status: 503 }, "unavailable"],
  ] as const)("%s is an answer without a cursor", async ([, fault, answered]) => {
    await using crm = await openChangingCrm(kind, 2);
    const cursor = await crm.begin(NOW);
    const changes = await crm.open();
    crm.standIn.faults.push(fault);
    const page = await changes.page(cursor, Date.parse(at("08:05:00")));
    expect(page.kind, name).toBe(answered);
    if (page.kind === "throttled") expect(page.retryAfterMs).toBe(7000);
    // The cursor is as good as before.
    crm.change(1, at("08:06:00"));
    expect(crm.namesOf((await crm.pull(cursor, at("08:10:00"))).changes)).toEqual({ 1: "n1" });
  });
});

const kindOf = (name: string) => {
  const found = CHANGING.find((kind) => kind.name === name);
  if (found === undefined) throw new Error(name);
  return found;
};

describe("hubspot", () => {
  const hubspot = kindOf("hubspot");

  test("records as a fetch has them: what an answer lacks and the object has is empty", async () => {
    await using crm = await openChangingCrm(hubspot, 1);
    const cursor = await crm.begin(NOW);
    const { email, ...properties } = { email: "", lastname: "A", lastmodifieddate: at("08:01:00") };
    crm.standIn.list.records.get("contacts")?.push({ id: "7", properties, archived: false });
    const { changes } = await crm.pull(cursor, at("08:05:00"));
    expect(changes).toMatchObject([
      {
        id: "7",
        at: at("08:01:00"),
        record: { id: "7", properties: { lastname: "A", email: null } },
      },
    ]);
    expect(email).toBe("");
  });

  test("records that were merged away are deleted", async () => {
    await using crm = await openChangingCrm(hubspot, 3);
    const cursor = await crm.begin(NOW);
    crm.change(0, at("08:01:00"), "survivor");
    const contacts = crm.standIn.list.records.get("contacts") ?? [];
    const survivor = contacts.find(({ id }) => id === crm.idOf(0));
    const merged = [1, 2].map((n) => crm.idOf(n)).join(";");
    Object.assign(survivor?.["properties"] ?? {}, { hs_merged_object_ids: merged });
    const { changes } = await crm.pull(cursor, at("08:05:00"));
    expect(crm.namesOf(changes)).toEqual({ 0: "survivor", 1: null, 2: null });
    expect(changes.every((one) => one.at === at("08:01:00"))).toBe(true);
  });

  test.for([
    ["a live record", { id: "1", archived: false, archivedAt: at("08:01:00") }],
    ["a record that does not say when", { id: "1", archived: true }],
    ["a record without an id", { archived: true, archivedAt: at("08:01:00") }],
  ] as const)("%s in the list of archived ones is no deletion", async ([, record]) => {
    await using crm = await openChangingCrm(hubspot, 1);
    const changes = await crm.open();
    const found = await changes.page(await crm.begin(NOW), Date.parse(NOW));
    if (found.kind !== "page") throw new Error(found.kind);
    crm.standIn.faults.push({ status: 200, body: JSON.stringify({ results: [record] }) });
    expect(await changes.page(found.cursor, Date.parse(NOW))).toMatchObject({ kind: "not_a_list" });
  });

  test.for([
    ["does not say when it changed", {}],
    ["changed before the time asked for", { lastmodifieddate: "2026-01-01T00:00:00.000Z" }],
  ] as const)("a found record that %s is no answer", async ([, properties]) => {
    await using crm = await openChangingCrm(hubspot, 1);
    const changes = await crm.open();
    const results = [{ id: "1", properties, updatedAt: at("08:00:00") }];
    crm.standIn.faults.push({ status: 200, body: JSON.stringify({ total: 1, results }) });
    const page = await changes.page(await crm.begin(NOW), Date.parse(NOW));
    expect(page).toMatchObject({ kind: "not_a_list" });
  });

  test("a search that gives the same page for ever ends", async () => {
    await using crm = await openChangingCrm(hubspot, 1);
    const changes = await crm.open();
    const properties = { lastmodifieddate: at("08:01:00") };
    const same = { results: [{ id: "9", properties }], paging: { next: { after: "1" } } };
    const fault = { status: 200, body: JSON.stringify(same) };
    crm.standIn.faults.push(fault, fault, fault, fault, fault);
    const answers: string[] = [];
    let cursor = await crm.begin(NOW);
    for (let n = 0; n < 5 && answers.at(-1) !== "not_a_list"; n += 1) {
      const page = await changes.page(cursor, Date.parse(NOW));
      answers.push(page.kind);
      if (page.kind === "page") ({ cursor } = page);
    }
    expect(answers).toEqual(["page", "page", "page", "not_a_list"]);
  });

  test("a deletion that is found last does not hide what changed after the search", async () => {
    await using crm = await openChangingCrm(hubspot, 3);
    const first = await crm.pull(await crm.begin(NOW), at("08:10:00"), (pages) => {
      if (pages !== 1) return;
      crm.change(1, at("08:01:00"));
      crm.delete(2, at("08:09:00"));
    });
    expect(crm.namesOf(first.changes)).toEqual({ 2: null });
    const second = await crm.pull(first.cursor, at("08:15:00"));
    expect(crm.namesOf(second.changes)).toEqual({ 1: "n1", 2: null });
  });

  test("all records of one object by pages of 200, the deletions by pages of 100", async () => {
    await using crm = await openChangingCrm(hubspot, 0);
    const cursor = await crm.begin(NOW);
    for (let n = 0; n < 450; n += 1) crm.change(n, at("08:01:00"));
    for (let n = 450; n < 600; n += 1) crm.delete(n, at("08:01:00"));
    crm.standIn.reads.length = 0;
    const { changes } = await crm.pull(cursor, at("08:05:00"));
    expect(new Set(changes.map(({ id }) => id)).size).toBe(600);
    // Two that begin by time, three by id, one behind that time, and two of deletions.
    expect(crm.standIn.reads).toHaveLength(2 + 3 + 1 + 2);
  });
});

describe("salesforce", () => {
  const salesforce = kindOf("salesforce");

  test("a transaction that commits ten minutes after it dated its change hides nothing", async () => {
    await using crm = await openChangingCrm(salesforce, 1);
    const first = await crm.pull(await crm.begin(NOW), at("08:10:00"));
    crm.change(0, at("08:09:59"), "early");
    const second = await crm.pull(first.cursor, at("08:10:00"));
    // It was open at the pull before.
    crm.change(1, at("08:00:30"), "late");
    const third = await crm.pull(second.cursor, at("08:15:00"));
    expect(crm.namesOf(third.changes)).toMatchObject({ 1: "late" });
  });

  test("ids have 18 characters; a record has the fields that the mapping reads", async () => {
    await using crm = await openChangingCrm(salesforce, 1);
    const cursor = await crm.begin(NOW);
    const SystemModstamp = "2026-11-21T08:01:00.000+0000";
    const record = { Id: "003Qk00000AbC12", LastName: "A", IsDeleted: false, SystemModstamp };
    crm.standIn.list.records.get("Contact")?.push({ ...record, Phone: "1" });
    const { changes } = await crm.pull(cursor, at("08:05:00"));
    expect(changes).toEqual([
      { id: "003Qk00000AbC12IAF", at: "2026-11-21T08:01:00.999Z", askedBy: at("08:01:00"), record },
    ]);
  });

  test("a second change within a second is another event than the first", async () => {
    await using crm = await openChangingCrm(salesforce, 1);
    crm.change(0, at("08:01:00"), "first");
    const first = await crm.pull(await crm.begin(NOW), at("08:05:00"));
    crm.change(0, at("08:01:00"), "second");
    const second = await crm.pull(first.cursor, at("08:10:00"));
    expect(crm.namesOf(second.changes)).toEqual({ 0: "second" });
    expect(second.changes[0]?.at).toBe(first.changes[0]?.at);
  });

  test.for([
    ["does not say when it changed", { SystemModstamp: undefined }],
    ["does not say whether it is deleted", { IsDeleted: undefined }],
    ["has no id", { Id: undefined }],
  ] as const)("a record that %s is no answer", async ([, lacking]) => {
    await using crm = await openChangingCrm(salesforce, 1);
    const cursor = await crm.begin(NOW);
    const changes = await crm.open();
    const whole = { Id: crm.idOf(0), IsDeleted: false, SystemModstamp: at("08:01:00") };
    const body = JSON.stringify({ done: true, totalSize: 1, records: [{ ...whole, ...lacking }] });
    crm.standIn.faults.push({ status: 200, body });
    expect(await changes.page(cursor, Date.parse(NOW))).toMatchObject({ kind: "not_a_list" });
  });

  test("the next page at another address gets no token", async () => {
    await using crm = await openChangingCrm(salesforce, 0);
    const cursor = await crm.begin(NOW);
    for (let n = 0; n < 4; n += 1) crm.change(n, at("08:01:00"));
    crm.standIn.list.pageSize = 2;
    crm.standIn.list.lies.next = "https://evil.example/services/data/v62.0/query/01q";
    const page = await (await crm.open()).page(cursor, Date.parse(at("08:05:00")));
    expect(page).toMatchObject({ kind: "not_a_list" });
    expect(JSON.stringify(page)).toContain("another address");
  });

  test("an object without SystemModstamp cannot be asked", async () => {
    await using crm = await openChangingCrm(salesforce, 0);
    const cursor = await crm.begin(NOW);
    const fields = [{ name: "Id" }, { name: "LastName" }];
    crm.standIn.faults.push({ status: 200, body: JSON.stringify({ fields }) });
    const changes = await crm.open();
    expect(await changes.page(cursor, Date.parse(NOW))).toMatchObject({
      kind: "client_error",
      reason: expect.stringContaining("Contact has no SystemModstamp") as unknown,
    });
  });
});

describe("dynamics", () => {
  const dynamics = kindOf("dynamics");
  const rowsOf = (...value: object[]) => ({
    status: 200 as const,
    body: JSON.stringify({ value, "@odata.deltaLink": "/api/data/v9.2/contacts?$deltatoken=1!" }),
  });

  test("the link of the whole table is found without telling its records", async () => {
    await using crm = await openChangingCrm(dynamics, 6);
    crm.standIn.list.pageSize = 3;
    const cursor = await crm.begin(NOW);
    const [sample, tracked, ...pages] = crm.standIn.reads;
    expect(sample?.url).toMatch(/contacts\?\$top=1$/);
    expect(tracked?.url).toContain("EntityDefinitions(LogicalName='contact')");
    expect(pages).toHaveLength(3);
    expect(pages[0]?.headers["prefer"]).toContain("odata.track-changes");
    expect((await crm.pull(cursor, at("08:05:00"))).changes).toEqual([]);
  });

  test("a table without change tracking says how to switch it on", async () => {
    await using crm = await openChangingCrm(dynamics, 1);
    const changes = await crm.open();
    crm.standIn.faults.push({ status: 200, body: '{"ChangeTrackingEnabled":false}' });
    const begun = await changes.begin(Date.parse(NOW));
    expect(begun).toMatchObject({ kind: "client_error" });
    expect(JSON.stringify(begun)).toMatch(/off for contact: .* switch on Track changes/);
  });

  test("deletions of both forms of OData; what has only left the list is none", async () => {
    await using crm = await openChangingCrm(dynamics, 4);
    const cursor = await crm.begin(NOW);
    const changes = await crm.open();
    const [a, b, c] = [1, 2, 3].map((n) => crm.idOf(n).toUpperCase());
    const context = { "@odata.context": "/api/data/v9.2/$metadata#contacts/$deletedEntity" };
    crm.standIn.faults.push(
      rowsOf(
        { ...context, id: a, reason: "deleted" },
        { "@removed": { reason: "deleted" }, "@id": `contacts(${b})` },
        { "@removed": { reason: "changed" }, id: c },
      ),
    );
    const page = await changes.page(cursor, Date.parse(NOW));
    const deleted = [1, 2].map((n) => ({ id: crm.idOf(n), at: undefined }));
    expect(page).toMatchObject({ kind: "page", changes: deleted });
    crm.standIn.faults.push(rowsOf({ ...context, id: a, reason: "archived" }));
    expect(await changes.page(cursor, Date.parse(NOW))).toMatchObject({ kind: "not_a_list" });
  });

  test("a record that was merged into another one is deleted", async () => {
    await using crm = await openChangingCrm(dynamics, 2);
    const cursor = await crm.begin(NOW);
    crm.change(1, at("08:01:00"));
    const contacts = crm.standIn.list.records.get("contacts") ?? [];
    Object.assign(contacts.find(({ contactid }) => contactid === crm.idOf(1)) ?? {}, {
      merged: true,
    });
    const { changes } = await crm.pull(cursor, at("08:05:00"));
    expect(changes).toEqual([{ id: crm.idOf(1), at: "2026-11-21T08:01:00.999Z" }]);
  });

  test.for([
    ["410", { status: 410, body: "{}" }],
    ["the error for it", { status: 400, body: '{"error":{"code":"0x80044352"}}' }],
  ] as const)("a link that has expired is lost: %s", async ([, fault]) => {
    await using crm = await openChangingCrm(dynamics, 2);
    const cursor = await crm.begin(NOW);
    const changes = await crm.open();
    crm.standIn.faults.push(fault);
    expect(await changes.page(cursor, Date.parse(NOW))).toEqual({ kind: "cursor_lost" });
  });

  test("a link that does not ask for what the mapping reads is lost, and one of another environment", async () => {
    await using crm = await openChangingCrm(dynamics, 2);
    const place = JSON.parse(await crm.begin(NOW)) as { select: string; link: string };
    const changes = await crm.open();
    const lost = { kind: "cursor_lost" };
    const narrow = JSON.stringify({ ...place, select: "contactid,lastname" });
    expect(await changes.page(narrow, Date.parse(NOW))).toEqual(lost);
    const away = place.link.replace(crm.standIn.url, "https://old.crm4.dynamics.example");
    const foreign = JSON.stringify({ ...place, link: away });
    expect(await changes.page(foreign, Date.parse(NOW))).toEqual(lost);
  });

  test("an answer without changes may have no link; one with changes has one, of this CRM", async () => {
    await using crm = await openChangingCrm(dynamics, 2);
    const cursor = await crm.begin(NOW);
    const changes = await crm.open();
    crm.standIn.faults.push({ status: 200, body: '{"value":[]}' });
    const none = await changes.page(cursor, Date.parse(NOW));
    expect(none).toEqual({ kind: "page", changes: [], cursor, hasMore: false });
    const row = { contactid: crm.idOf(1), lastname: "A" };
    crm.standIn.faults.push({ status: 200, body: JSON.stringify({ value: [row] }) });
    expect(await changes.page(cursor, Date.parse(NOW))).toMatchObject({ kind: "not_a_list" });
    crm.change(1, at("08:01:00"));
    crm.standIn.list.lies.next = "https://evil.example";
    const away = await changes.page(cursor, Date.parse(NOW));
    expect(JSON.stringify(away)).toContain("another address");
  });
});
