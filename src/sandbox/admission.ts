import type { IncomingMessage } from "node:http";
import { AddressSet, callerAddress } from "./addresses.ts";
import type { Network } from "./addresses.ts";
import type { Client, Directory } from "./directory.ts";
import { createMeter } from "./quota.ts";
import type { Limits, Meter, Policy, QuotaState, Verdict } from "./quota.ts";
import { forbidden, unauthorized } from "./replies.ts";
import type { Reply } from "./replies.ts";

export interface QuotaOptions {
  readonly policy: Policy;
  readonly limits: Limits;
  /** One quota for all tokens of a client, or one for each token. */
  readonly countBy: "client" | "token";
}

export type Admission =
  | { readonly admitted: true; readonly client: Client }
  | { readonly admitted: false; readonly client: Client | undefined; readonly reply: Reply };

/**
 * Who may come in: first the token (it says whose allow-list counts), then the address, then the
 * quota. Only requests of a known client from an allowed address are counted.
 */
export class Door {
  readonly #directory: Directory;
  readonly #trustedProxies: AddressSet;
  readonly #quota: QuotaOptions;
  readonly #meters = new Map<string, { readonly made: string; readonly meter: Meter }>();

  constructor(directory: Directory, trustedProxies: Iterable<Network>, quota: QuotaOptions) {
    this.#directory = directory;
    this.#trustedProxies = new AddressSet(trustedProxies);
    this.#quota = quota;
  }

  admit(request: IncomingMessage): Admission {
    const client = this.#directory.find(bearerToken(request.headers.authorization) ?? "");
    if (client === undefined) return { admitted: false, client, reply: unauthorized() };
    const address = this.#address(request);
    if (address === undefined || !client.allowed.contains(address)) {
      return { admitted: false, client, reply: this.blocked(request) };
    }
    return { admitted: true, client };
  }

  /** The 403 that a caller at this address is given. */
  blocked(request: IncomingMessage): Reply {
    return forbidden(this.#address(request) ?? "unknown", new Date());
  }

  count(client: Client, nowMs: number): Verdict {
    return this.#meter(client).take(nowMs);
  }

  quota(client: Client, nowMs: number): QuotaState {
    return this.#meter(client).state(nowMs);
  }

  #address({ headers, socket }: IncomingMessage): string | undefined {
    const forwardedFor = headers["x-forwarded-for"];
    const chain = Array.isArray(forwardedFor) ? forwardedFor.join(",") : forwardedFor;
    return callerAddress(socket.remoteAddress, chain, this.#trustedProxies);
  }

  /** A meter lasts until the client's limits change or the client is reset. */
  #meter(client: Client): Meter {
    const { policy, limits, countBy } = this.#quota;
    const key = countBy === "client" ? String(client.tenantId) : client.tokenId;
    const made = [client.resets, client.perHour, client.burst].join(" ");
    const known = this.#meters.get(key);
    if (known?.made === made) return known.meter;
    const meter = createMeter(policy, {
      ...limits,
      perHour: client.perHour ?? limits.perHour,
      burst: client.burst ?? limits.burst,
    });
    this.#meters.set(key, { made, meter });
    return meter;
  }
}

/** RFC 6750: the scheme in any case, one blank or more, one token. */
function bearerToken(authorization: string | undefined): string | undefined {
  return /^Bearer +([\w\-.~+/]+=*) *$/i.exec(authorization ?? "")?.[1];
}
