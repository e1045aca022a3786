import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

export interface StoredToken {
  readonly id: string;
  readonly salt: Uint8Array;
  readonly hash: Uint8Array;
}

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/**
 * Makes a token in the form of a JWT (spec, "Authentication" 1) that never expires. Its last part
 * is 256 random bits instead of a signature: the token is checked against its stored hash.
 */
export function makeToken(
  tenant: string,
  environment: string,
): { token: string; stored: StoredToken } {
  // Commands take it as an argument, which must not begin with "-".
  const id = randomBytes(9).toString("hex");
  const header = encode({ alg: "HS256", typ: "JWT" });
  const payload = encode({
    iss: "crmsync-sandbox",
    sub: tenant,
    env: environment,
    jti: id,
    iat: Math.floor(Date.now() / 1000),
  });
  const token = `${header}.${payload}.${randomBytes(32).toString("base64url")}`;
  const salt = randomBytes(16);
  return { token, stored: { id, salt, hash: hashToken(token, salt) } };
}

function hashToken(token: string, salt: Uint8Array): Buffer {
  return createHash("sha256").update(salt).update(token).digest();
}

/** The public id in a token; `undefined` when the text is not built like our tokens. */
export function tokenId(token: string): string | undefined {
  const parts = token.split(".");
  if (parts.length !== 3) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(parts[1]!, "base64url").toString());
    if (typeof claims !== "object" || claims === null || !("jti" in claims)) return undefined;
    return typeof claims.jti === "string" ? claims.jti : undefined;
  } catch {
    return undefined;
  }
}

const NO_TOKEN: Omit<StoredToken, "id"> = { salt: randomBytes(16), hash: randomBytes(32) };

/** Takes the same time for an unknown id and for a wrong secret. */
export function isToken(token: string, stored: Omit<StoredToken, "id"> | undefined): boolean {
  const { salt, hash } = stored ?? NO_TOKEN;
  const equal = timingSafeEqual(hashToken(token, salt), hash);
  return equal && stored !== undefined;
}
