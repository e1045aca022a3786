/**
 * The signature of a certificate, which is a page or a JSON document. The last line of its file has the public key and
 * the Ed25519 signature of all bytes before that line: not one of them can be changed.
 */
import { createPublicKey, hash, sign, verify, type KeyObject } from "node:crypto";
import { readFileSync } from "node:fs";
import { UserError } from "../base/user-error.ts";

const SEAL = /Ed25519 ([\w-]{43}) ([\w-]{86}) /;

/** Characters of the seal's line: it is searched no further from the end. */
const SEAL_BYTES = 200;

/** @param content a page, or the beginning of a JSON document that lacks its last member; ends with a line end. */
export function seal(content: string, key: KeyObject): string {
  const bytes = Buffer.from(content);
  return content + lineFor(bytes, rawOf(key), sign(null, bytes, key));
}

function lineFor(content: Buffer, publicKey: string, signature: Buffer): string {
  const text = `crmsync certificate Ed25519 ${publicKey} ${signature.toString("base64url")}`;
  return isJson(content) ? `,"signed":" ${text} "}\n` : `<!-- ${text} -->\n`;
}

const isJson = (content: Buffer): boolean => content.subarray(0, 1).toString() === "{";

export const jsonOf = (certificate: unknown): string =>
  `{"certificate":${JSON.stringify(certificate)}\n`;

/** What a file certifies: a page has it as JSON, too. */
export function certificateIn(file: Buffer): unknown {
  const text = file.toString();
  if (isJson(file)) return (JSON.parse(text) as { readonly certificate: unknown }).certificate;
  const [, json = "null"] =
    /<script type="application\/json" id="certificate">(.*)<\/script>/.exec(text) ?? [];
  return JSON.parse(json);
}

export const hashOfFile = (content: string | Buffer): string => `sha256:${hash("sha256", content)}`;

/** The 32 bytes of the public key, base64url. */
const rawOf = (key: KeyObject): string => {
  const { x = "" } = (key.type === "private" ? createPublicKey(key) : key).export({
    format: "jwk",
  });
  return x;
};

/** Names a public key, for people. */
export const keyIdOf = (key: KeyObject): string =>
  hash("sha256", Buffer.from(rawOf(key), "base64url"), "base64url").slice(0, 16);

const keyOfRaw = (raw: string): KeyObject =>
  createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: raw }, format: "jwk" });

/**
 * A public key: a PEM file, PEM, or base64 of its DER or its 32 bytes. That of a private key does as well.
 * @throws UserError
 */
export function publicKeyOf(given: string): KeyObject {
  const text = given.includes("-----") || isBase64(given) ? given : readFileText(given);
  try {
    const bytes = Buffer.from(text.trim(), "base64");
    const key = text.includes("-----")
      ? createPublicKey(text)
      : bytes.length === 32
        ? keyOfRaw(bytes.toString("base64url"))
        : createPublicKey({ key: bytes, format: "der", type: "spki" });
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch {
    // Said below.
  }
  throw new UserError(
    "--key is no Ed25519 public key: give the file that openssl pkey -in certify.pem -pubout has made, or its base64",
  );
}

const isBase64 = (text: string): boolean => /^[\w+/-]{43,}={0,2}$/.test(text.trim());

function readFileText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new UserError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? ""})`);
  }
}

export type Checked =
  | { readonly kind: "genuine" }
  | { readonly kind: "no_certificate" | "changed" }
  | { readonly kind: "other_key"; readonly keyId: string };

/** @param key whose certificate it must be */
export function check(file: Buffer, key: KeyObject): Checked {
  const tail = file.subarray(-SEAL_BYTES).toString("latin1");
  const line = tail.slice(tail.lastIndexOf("\n", tail.length - 2) + 1);
  const [, raw = "", text = ""] = SEAL.exec(line) ?? [];
  const content = file.subarray(0, file.length - line.length);
  const signature = Buffer.from(text, "base64url");
  // Not one byte of the line itself may be another, either.
  if (raw === "" || line !== lineFor(content, raw, signature)) return { kind: "no_certificate" };
  const fits = (one: KeyObject) => verify(null, content, one, signature);
  const isSame = raw === rawOf(key);
  if (isSame && fits(key)) return { kind: "genuine" };
  const own = keyOfRaw(raw);
  return !isSame && fits(own) ? { kind: "other_key", keyId: keyIdOf(own) } : { kind: "changed" };
}
