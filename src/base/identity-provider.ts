/** The company's identity provider (OIDC): finds it, sends people there, and checks what it says of them. */
import { createHmac } from "node:crypto";
import { createRemoteJWKSet, customFetch, jwtVerify } from "jose";
import type * as Client from "openid-client";
import { proxyOf, type Config } from "./config.ts";
import { printable } from "./printable.ts";
import type { SecretText } from "./secrets.ts";
import { createAgent, fetchOver, type Dispatcher } from "./undici.ts";
import { sessionNames, SUBJECT, type Claims, type Roles } from "./person.ts";

/** How long the provider may take for one answer, s. */
const TIMEOUT_S = 5;

/** Bytes of one answer. */
const MOST_BYTES = 2 ** 20;

/** Its metadata and keys are read again after this time, ms: keys rotate. */
const FRESH_MS = 3_600_000;

/** A provider that could not be used is left alone for this long, ms. */
const PAUSE_MS = 10_000;

/** By how much its clock may differ, s. */
const CLOCK_S = 30;

/** For how long a logout token can be used, s. */
const LOGOUT_TOKEN_S = 300;

const LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout";

const MOST_CHARACTERS = 200;

/** The provider cannot be used, or says something that is not believed. Its message is for people. */
export class ProviderError extends Error {
  override readonly name = "ProviderError";
}

/** What only the browser that has begun a sign-in can know. */
export interface SignInProofs {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

interface Found {
  readonly client: typeof Client;
  readonly configuration: Client.Configuration;
  readonly server: Client.ServerMetadata;
  readonly keys: ReturnType<typeof createRemoteJWKSet>;
}

export class IdentityProvider {
  readonly roles: Roles;
  /** As OIDC_ISSUER has it. */
  readonly issuer: string;
  readonly #issuer: URL;
  readonly #clientId: string;
  readonly #secret: SecretText;
  readonly #console: string;
  /** What a session depends on, beside the secret. */
  readonly #terms: string;
  readonly #agent: Dispatcher;
  readonly #onChange: (problem: string | undefined) => void;
  #found: Found | undefined;
  #problem: string | undefined;
  /** When the provider is looked for again, by the monotonic clock, ms. */
  #due = 0;
  #finding: Promise<Found> | undefined;

  /** @param onChange called when the provider cannot be used, and when it can again. */
  constructor(config: Config, secret: SecretText, onChange: (problem: string | undefined) => void) {
    const { CONSOLE_URL = "", OIDC_CLIENT_ID = "", OIDC_ISSUER = "", QUEUE_PREFIX } = config;
    const { OIDC_ACT, OIDC_APPROVE, OIDC_CLAIM, OIDC_LOOK } = config;
    this.roles = { OIDC_ACT, OIDC_APPROVE, OIDC_CLAIM, OIDC_LOOK };
    this.issuer = OIDC_ISSUER;
    this.#issuer = new URL(OIDC_ISSUER);
    this.#clientId = OIDC_CLIENT_ID;
    this.#secret = secret;
    this.#console = CONSOLE_URL;
    this.#terms = JSON.stringify([OIDC_ISSUER, OIDC_CLIENT_ID, QUEUE_PREFIX, this.roles]);
    this.#onChange = onChange;
    this.#agent = createAgent({
      proxy: proxyOf(config),
      connectTimeout: TIMEOUT_S * 1000,
      maxResponseSize: MOST_BYTES,
    });
  }

  get host(): string {
    return this.#issuer.host;
  }

  /** Where browsers find a path of the console; the Host header of a request does not decide it. */
  addressOf(path: string): string {
    return new URL(path, this.#console).href;
  }

  /** Signs what browsers keep. Another secret, provider, tenant or table of roles ends all sessions. */
  sign(text: string): string {
    const about = `crmsync console, OIDC ${this.#terms}`;
    const key = createHmac("sha256", this.#secret()).update(about).digest();
    return createHmac("sha256", key).update(text).digest("base64url");
  }

  /** Why it cannot be used, as far as is known. Looks again if that is due, without waiting for it. */
  problem(): string | undefined {
    void this.find().catch(() => {});
    return this.#problem;
  }

  /** @returns where a person signs in. @throws ProviderError */
  async signInUrl(redirectPath: string, proofs: SignInProofs): Promise<URL> {
    const { client, configuration, server } = await this.find();
    const known = server.scopes_supported ?? ["profile", "email"];
    const scopes = ["profile", "email", this.roles.OIDC_CLAIM].filter((one) => known.includes(one));
    return client.buildAuthorizationUrl(configuration, {
      redirect_uri: this.addressOf(redirectPath),
      scope: [...new Set(["openid", ...scopes])].join(" "),
      state: proofs.state,
      nonce: proofs.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(proofs.verifier),
      code_challenge_method: "S256",
    });
  }

  /** @param path with the query with which the person came back. @throws ProviderError */
  async claimsFor(path: string, { state, nonce, verifier }: SignInProofs): Promise<Claims> {
    const { client, configuration, server } = await this.find();
    try {
      const url = new URL(this.addressOf(path));
      const tokens = await client.authorizationCodeGrant(configuration, url, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const claims = tokens.claims() as Claims;
      if (!SUBJECT.test(claims.sub)) throw new ProviderError("its subject (sub) is not usable");
      const isNamed = ["email", "preferred_username", "name"].some((name) => name in claims);
      const isEnough = isNamed && this.roles.OIDC_CLAIM in claims;
      if (isEnough || server.userinfo_endpoint === undefined) return claims;
      const more = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub);
      // Whether an address is verified is said only of the address beside it.
      const { email, email_verified } = claims["email"] === undefined ? more : claims;
      return { ...claims, ...more, email, email_verified };
    } catch (error) {
      // Its keys may have changed: the next try reads them again.
      this.#due = 0;
      throw new ProviderError(whyOf(error));
    }
  }

  /** @returns the id of the logout token, and the names of the sessions that it ends. @throws ProviderError */
  async readLogout(token: string): Promise<{ readonly jti: string; readonly names: string[] }> {
    const { keys, server } = await this.find();
    const { payload } = await jwtVerify(token, keys, {
      issuer: server.issuer,
      audience: this.#clientId,
      clockTolerance: CLOCK_S,
      maxTokenAge: LOGOUT_TOKEN_S,
      requiredClaims: ["exp", "events", "jti"],
    }).catch((error: unknown) => {
      throw new ProviderError(whyOf(error));
    });
    const { events, jti, nonce } = payload;
    const isLogout = isObject(events) && isObject(events[LOGOUT_EVENT]);
    const names = sessionNames(payload);
    if (!isLogout || nonce !== undefined || typeof jti !== "string" || names.length === 0) {
      throw new ProviderError("a logout token has events, jti, and sub or sid, and no nonce");
    }
    return { jti, names };
  }

  /** Where a person logs out of the provider itself; undefined: it has no such page, or is not known now. */
  signOutUrl(): string | undefined {
    const { client, configuration, server } = this.#found ?? {};
    if (configuration === undefined || !server?.end_session_endpoint) return undefined;
    return client?.buildEndSessionUrl(configuration).href;
  }

  /** @throws ProviderError */
  async find(): Promise<Found> {
    if (performance.now() >= this.#due) {
      this.#finding ??= this.#discover().finally(() => (this.#finding = undefined));
      return this.#finding;
    }
    if (this.#found === undefined) throw new ProviderError(this.#problem);
    return this.#found;
  }

  async #discover(): Promise<Found> {
    const before = this.#problem;
    try {
      this.#found = await this.#readMetadata();
      this.#problem = undefined;
      return this.#found;
    } catch (error) {
      this.#found = undefined;
      this.#problem = whyOf(error);
      throw new ProviderError(this.#problem);
    } finally {
      this.#due = performance.now() + (this.#found === undefined ? PAUSE_MS : FRESH_MS);
      if ((before === undefined) !== (this.#problem === undefined)) this.#onChange(this.#problem);
    }
  }

  async #readMetadata(): Promise<Found> {
    // Loaded only when it is needed, as the pages are.
    const client = await import("openid-client");
    const fetch = boundedFetch(this.#agent);
    const isPlain = this.#issuer.protocol === "http:";
    const authenticate: Client.ClientAuth = (server, ...rest) => {
      const isPost = server.token_endpoint_auth_methods_supported?.includes("client_secret_post");
      const { ClientSecretBasic, ClientSecretPost } = client;
      (isPost ? ClientSecretPost : ClientSecretBasic)(this.#secret())(server, ...rest);
    };
    const options = {
      timeout: TIMEOUT_S,
      [client.customFetch]: fetch,
      // Without these checks the library would not look at the ID token's signature.
      execute: [
        client.enableNonRepudiationChecks,
        ...(isPlain ? [client.allowInsecureRequests] : []),
      ],
    };
    const metadata = { [client.clockTolerance]: CLOCK_S };
    const own = [this.#issuer, this.#clientId, metadata, authenticate, options] as const;
    const configuration = await client.discovery(...own);
    const server = configuration.serverMetadata();
    // The library lets providers of many companies pass, at which anybody's company could sign in.
    if (new URL(server.issuer).href !== this.#issuer.href) {
      throw new ProviderError("it names another issuer");
    }
    const keysAt = URL.parse(server.jwks_uri ?? "");
    if (keysAt?.protocol !== this.#issuer.protocol) {
      throw new ProviderError("it names no safe address of its keys (jwks_uri)");
    }
    const keyOptions = { timeoutDuration: TIMEOUT_S * 1000, [customFetch]: fetch };
    return { client, configuration, server, keys: createRemoteJWKSet(keysAt, keyOptions) };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }
}

/** An answer is read to its end, and no longer than it may be: also one that is short only while it is compressed. */
const boundedFetch = (agent: Dispatcher) => {
  const fetch = fetchOver(agent);
  return async (url: string, init: object): Promise<Response> => {
    const { body, headers, status } = await fetch(url, init);
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of (body ?? []) as AsyncIterable<Uint8Array>) {
      size += part.length;
      if (size > MOST_BYTES)
        throw new ProviderError(`its answer is longer than ${MOST_BYTES} bytes`);
      parts.push(part);
    }
    return new Response(size === 0 ? null : Buffer.concat(parts), {
      status,
      headers: [...headers],
    });
  };
};

/** What the libraries say, which is never a token; an OAuth error has a code of its own. */
function whyOf(error: unknown): string {
  let last = error as Error & { readonly code?: unknown; readonly error?: unknown };
  if (last.error === "invalid_client" || last.code === "OAUTH_WWW_AUTHENTICATE_CHALLENGE") {
    return "it refuses OIDC_CLIENT_ID with OIDC_CLIENT_SECRET";
  }
  if (typeof last.error === "string") return cut(`it answered ${last.error}`);
  while (last.cause instanceof Error) last = last.cause;
  if (last.name === "TimeoutError") return `no answer within ${TIMEOUT_S} s`;
  // A parser quotes the text that it cannot parse.
  if (last instanceof SyntaxError) return "its answer is not JSON";
  return cut(last.message === "" ? String(last.code) : last.message);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const cut = (text: string): string => printable(text.slice(0, MOST_CHARACTERS));
