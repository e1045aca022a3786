import { expect, test } from "vitest";
import { isToken, makeToken, tokenId } from "../../../src/sandbox/tokens.ts";

const NOW = new Date("2026-11-20T09:30:00Z");
const claims = { tenant: "acme", environment: "production" };

test("a token has the form of a JWT that says whose it is and never expires", () => {
  const { token, stored } = makeToken(claims, NOW);
  const payload: unknown = JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
  expect(payload).toEqual({
    iss: "crmsync-sandbox",
    sub: "acme",
    env: "production",
    jti: stored.id,
    iat: NOW.getTime() / 1000,
  });
  expect(tokenId(token)).toBe(stored.id);
});

test("what is stored knows its token and contains nothing of it", () => {
  const { token, stored } = makeToken(claims, NOW);
  expect(isToken(token, stored)).toBe(true);
  expect(isToken(makeToken(claims, NOW).token, stored)).toBe(false);
  expect(isToken(token, undefined)).toBe(false);
  expect(Buffer.from(stored.hash).toString("base64url")).not.toContain(token.split(".")[2]);
});

test("the same token is never stored alike twice: the salt differs", () => {
  const [first, second] = [makeToken(claims, NOW).stored, makeToken(claims, NOW).stored];
  expect(first.salt).not.toEqual(second.salt);
});

test.each(["", "x", "a.b", "a.b.c.d", "a.e30.c", "a.bnVsbA.c", "a.eyJqdGkiOjF9.c", "a.!!!.c"])(
  "%j has no id",
  (token) => {
    expect(tokenId(token)).toBeUndefined();
  },
);
