/** Identity providers for tests: a real one in a process of its own, and one that says whatever a test wants. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWTPayload } from "jose";
import { ownPort } from "./own-port.ts";
import { spawnNode } from "./process.ts";
import type { Visitor } from "./console.ts";

export const OIDC_CLIENT = { id: "crmsync", secret: "secret-of-the-client-24-or-more" };

/** Variables of a console that lets people sign in at this issuer. */
export const oidcEnv = (issuer: string, port: number): Record<string, string> => ({
  HTTP_PORT: String(port),
  CONSOLE_URL: `http://127.0.0.1:${port}`,
  OIDC_ISSUER: issuer,
  OIDC_CLIENT_ID: OIDC_CLIENT.id,
  OIDC_CLIENT_SECRET: OIDC_CLIENT.secret,
  OIDC_LOOK: "staff",
  OIDC_ACT: "operators, admins",
  OIDC_APPROVE: "approvers",
});

/** @param consolePort of the console that is its client. */
export async function realProvider(consolePort: number) {
  const port = await ownPort();
  const script = join(import.meta.dirname, "run-oidc-provider.ts");
  const child = spawnNode([script, String(port), `http://127.0.0.1:${consolePort}`]);
  const [issuer] = await child.line(/^http:\S+$/);
  return { issuer, [Symbol.asyncDispose]: () => child[Symbol.asyncDispose]() };
}

/** What the provider says instead of the truth. */
export interface Lies {
  issuer?: string;
  claims?: JWTPayload;
  userinfo?: object;
  /** Signs in place of the key that is published. */
  key?: CryptoKey;
  kid?: string;
  alg?: string;
  /** Answers in place of its token endpoint. */
  token?: object;
  /** Of the address with which the browser is sent back. */
  callback?: Record<string, string>;
  metadata?: object;
  /** Its answers with tokens are this many bytes longer, and sent compressed. */
  padded?: number;
}

/** Every person who comes is logged in at once. `lies` may be changed at any time. */
export async function lyingProvider(lies: Lies = {}) {
  let [key, keyId] = [await generateKeyPair("RS256"), "k1"];
  const nonces = new Map<string, string>();
  const asked: string[] = [];
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const sign = async (claims: JWTPayload, typ = "JWT") =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: lies.alg ?? "RS256", kid: lies.kid ?? keyId, typ })
      .sign(lies.key ?? key.privateKey);

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "", issuer);
    asked.push(pathname);
    const send = (body: object) =>
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
    const now = Math.floor(Date.now() / 1000);
    switch (pathname) {
      case "/.well-known/openid-configuration":
        return void send({
          issuer: lies.issuer ?? issuer,
          authorization_endpoint: `${issuer}/authorize`,
          token_endpoint: `${issuer}/token`,
          userinfo_endpoint: `${issuer}/userinfo`,
          jwks_uri: `${issuer}/keys`,
          end_session_endpoint: `${issuer}/end`,
          id_token_signing_alg_values_supported: ["RS256"],
          scopes_supported: ["openid", "email", "groups"],
          ...lies.metadata,
        });
      case "/keys":
        return void send({
          keys: [{ ...(await exportJWK(key.publicKey)), kid: keyId, alg: "RS256", use: "sig" }],
        });
      case "/authorize": {
        const code = `code-${nonces.size}`;
        nonces.set(code, searchParams.get("nonce") ?? "");
        const back = new URL(searchParams.get("redirect_uri") ?? "");
        const query = { code, state: searchParams.get("state") ?? "", ...lies.callback };
        back.search = new URLSearchParams(query).toString();
        return void response.writeHead(303, { location: back.href }).end();
      }
      case "/token": {
        let body = "";
        for await (const chunk of request) body += String(chunk);
        const nonce = nonces.get(new URLSearchParams(body).get("code") ?? "");
        const claims = {
          iss: issuer,
          aud: OIDC_CLIENT.id,
          sub: "s1",
          nonce,
          iat: now,
          exp: now + 300,
          email: "anna@firm.example",
          email_verified: true,
          groups: ["operators"],
          ...lies.claims,
        };
        const id_token = await sign(claims);
        const tokens = { access_token: "access", token_type: "Bearer", expires_in: 60, id_token };
        if (lies.padded !== undefined) {
          const text = JSON.stringify(tokens) + " ".repeat(lies.padded);
          const type = { "content-type": "application/json", "content-encoding": "gzip" };
          return void response.writeHead(200, type).end(gzipSync(text));
        }
        return void send(lies.token ?? tokens);
      }
      case "/userinfo":
        return void send(lies.userinfo ?? { sub: "s1" });
      default:
        return void response.writeHead(404).end();
    }
  }

  return {
    issuer,
    lies,
    /** Paths that were asked for. */
    asked,
    sign,
    /** @returns the former key. */
    async rotateKey() {
      const former = key.privateKey;
      key = await generateKeyPair("RS256");
      keyId = "k2";
      return former;
    },
    logoutToken: (claims: JWTPayload) => {
      const now = Math.floor(Date.now() / 1000);
      const events = { "http://schemas.openid.net/event/backchannel-logout": {} };
      const all = { iss: issuer, aud: OIDC_CLIENT.id, iat: now, exp: now + 120, events, ...claims };
      return sign(all, "logout+jwt");
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Begins a sign-in. @returns the address at the provider. */
export async function beginSignIn(visitor: Visitor, next = "/console"): Promise<string> {
  const begun = await visitor.request(`/console/sign-in?next=${encodeURIComponent(next)}`);
  return begun.headers.get("location") ?? "";
}

/** At a provider that logs everybody in. @returns the address to which it sends the browser back. */
export async function passProvider(address: string): Promise<string> {
  const { headers } = await fetch(address, { redirect: "manual" });
  return headers.get("location") ?? "";
}

export async function signIn(visitor: Visitor, next?: string) {
  return visitor.request(await passProvider(await beginSignIn(visitor, next)));
}
