/** Reads the header Authorization. */
type Headers = Readonly<Record<string, string | undefined>>;

/** `user:password` of HTTP Basic. */
export function basicOf(headers: Headers): string | undefined {
  const given = /^Basic +([A-Za-z0-9+/=]+) *$/i.exec(headers["authorization"] ?? "")?.[1];
  return given === undefined ? undefined : Buffer.from(given, "base64").toString("utf8");
}

export const bearerOf = (headers: Headers): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(headers["authorization"] ?? "")?.[1];
