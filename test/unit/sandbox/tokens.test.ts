import { expect, test } from "vitest";
import { isToken, makeToken, tokenId } from "../../../src/sandbox/tokens.ts";

test("a token is a JWT that names its client and never expires", () => {
  const { token, stored } = makeToken("acme", "production");
  const payload: unknown = JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
  expect(payload).toEqual({
    iss: "crmsync-sandbox",
    sub: "acme",
    env: "production",
    jti: stored.id,
    iat: expect.closeTo(Date.now() / 1000, -1) as unknown,
  });
  expect(tokenId(token)).toBe(stored.id);
});

test("the stored hash matches its token only and does not contain the secret", () => {
  const { token, stored } = makeToken("acme", "production");
  expect(isToken(token, stored)).toBe(true);
  expect(isToken(makeToken("acme", "production").token, stored)).toBe(false);
  expect(isToken(token, undefined)).toBe(false);
  expect(Buffer.from(stored.hash).toString("base64url")).not.toContain(token.split(".")[2]);
});

test("every token has its own salt", () => {
  const [first, second] = [
    makeToken("acme", "production").stored,
    makeToken("acme", "production").stored,
  ];
  expect(first.salt).not.toEqual(second.salt);
});

test.each(["", "x", "a.b", "a.b.c.d", "a.e30.c", "a.bnVsbA.c", "a.eyJqdGkiOjF9.c", "a.!!!.c"])(
  "%j has no id",
  (token) => {
    expect(tokenId(token)).toBeUndefined();
  },
);
