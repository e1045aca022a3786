/** One person with a token and an account at the identity provider, who tries to be two. */
import { expect, onTestFinished, test } from "vitest";
import { linksIn, proofIn, serveConsole, type Visitor } from "../../support/console.ts";
import { hold } from "../../support/hold.ts";
import { lyingProvider, oidcEnv, signIn } from "../../support/identity-provider.ts";
import { ownPort } from "../../support/own-port.ts";

const TOKEN = "token-of-a-person-with-24-characters";

/** A console with one held change, on which the token asks to release it. */
async function asked(holder: string, claims: object) {
  const provider = await lyingProvider({
    claims: { email: undefined, email_verified: undefined, sub: "s7", ...claims },
  });
  const port = await ownPort();
  const env = { ...oidcEnv(provider.issuer, port), APPROVALS: "held", AUDIT_LOG: "/dev/null" };
  const server = await serveConsole({ ...env, OPERATOR_TOKEN: `${holder}:${TOKEN}` });
  onTestFinished(async () => {
    await server[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
  });
  await hold(server.runtime, "h1", "contact/1", "/crm/a");
  const asker = server.visitor();
  await asker.logIn(TOKEN);
  const { text } = await asker.request("/console/held");
  const [confirm = ""] = linksIn(text, "/console/held/confirm?act=release&at=");
  const said = await asker.submit(confirm, "/console/held?act=release");
  const id = /Approval ([2-9A-Z]{6})/.exec(said.text)?.[1] ?? "";
  const post = async (visitor: Visitor, act: "approve" | "reject") => {
    const form = proofIn((await visitor.request("/console")).text);
    return visitor.post(`/console/approvals/${act}?id=${id}`, { form });
  };
  return { id, post, server, state: async () => (await server.runtime.approvals.find(id))?.state };
}

const APPROVER = { groups: ["operators", "approvers"] };

test.for([
  ["anna.mueller@firm.example", { name: "Anna Müller" }],
  ["lukasz.nowak@firm.example", { name: "Łukasz Nowak" }],
  ["anna.muster@firm.example", { name: "Muster, Anna", preferred_username: "u77@other.example" }],
  ["anna.muster@firm.example", { name: "Dr. Anna Muster", email: "am@x.ch", email_verified: true }],
  ["anna.muster@firm.example", { preferred_username: "FIRM\\anna.muster" }],
  ["amuster@firm.example", { name: "Anna Muster", email: "a@x.ch", email_verified: true }],
] as const)("%s does not approve as %j", async ([holder, claims]) => {
  const { post, server, state } = await asked(holder, { ...claims, ...APPROVER });
  const visitor = server.visitor();
  await signIn(visitor);
  expect((await post(visitor, "approve")).text).toMatch(
    /another person must approve it|cannot tell whether you are another person/,
  );
  expect(await state()).toBe("open");
});

test("whom the provider gives no proven address is no second person for a token", async () => {
  const other = { name: "Zoe Keller", email: "zoe@firm.example", ...APPROVER };
  const { post, server, state } = await asked("anna@firm.example", other);
  const visitor = server.visitor();
  await signIn(visitor);
  const { text } = await post(visitor, "approve");
  expect(text).toContain("no e-mail address of Zoe Keller (OIDC s7");
  expect(await state()).toBe("open");
});

test("another person approves, and all lines tell which account that was", async () => {
  const zoe = { email: "zoe@firm.example", email_verified: true, ...APPROVER };
  const { post, server, state } = await asked("anna@firm.example", zoe);
  const visitor = server.visitor();
  await signIn(visitor);
  await post(visitor, "approve");
  expect(await state()).toBe("done");
  const { auditActs, config, history } = server.runtime;
  const who = `zoe@firm.example (OIDC s7 of ${config.OIDC_ISSUER})`;
  const lines: unknown[] = [];
  for (let act; (act = await auditActs.next()) !== undefined; await auditActs.written(act))
    lines.push(act.line);
  expect(lines.at(-1)).toMatchObject({
    act: "held.release",
    by: "anna@firm.example via console at 127.0.0.1",
    approvedBy: `${who} via console at 127.0.0.1`,
  });
  expect(await history.read({ crmCode: "h1" })).toMatchObject([{ approvedBy: who }]);
});

test("who may act and not approve rejects nothing of another person", async () => {
  const zoe = { email: "zoe@firm.example", email_verified: true, groups: ["operators"] };
  const { id, post, server, state } = await asked("anna@firm.example", zoe);
  const visitor = server.visitor();
  await signIn(visitor);
  const page = await visitor.request(`/console/approvals/one?id=${id}`);
  expect(page.text).not.toContain("/console/approvals/reject");
  expect((await post(visitor, "reject")).text).toContain("may not approve an act (OIDC)");
  expect(await state()).toBe("open");
  const asker = server.visitor();
  await asker.logIn(TOKEN);
  expect(await post(asker, "reject")).toMatchObject({ status: 303 });
  expect(await state()).toBe("rejected");
});
