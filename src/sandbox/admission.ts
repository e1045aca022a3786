import type { IncomingMessage } from "node:http";
import { AddressSet, callerAddress, type Network } from "./addresses.ts";
import type { Client, FindClient } from "./directory.ts";
import {
  createMeter,
  type CountResult,
  type Limits,
  type Meter,
  type Policy,
  type QuotaState,
} from "./quota.ts";
import { forbidden, unauthorised, type ServiceResponse } from "./responses.ts";

export interface QuotaOptions {
  readonly policy: Policy;
  readonly limits: Limits;
  /** One quota for all tokens of a client, or one for each token. */
  readonly countBy: "client" | "token";
}

export type AdmissionResult =
  | { readonly admitted: true; readonly client: Client }
  | {
      readonly admitted: false;
      /** Known when the token is valid and the address is not allowed. */
      readonly client: Client | undefined;
      readonly response: ServiceResponse;
    };

export type Admission = ReturnType<typeof createAdmission>;

/**
 * Checks a request in this order: token (it identifies the client), source address (on the client's
 * allow-list), quota. Only requests with a valid token from an allowed address are counted.
 */
export function createAdmission(
  findClient: FindClient,
  trustedProxies: Iterable<Network>,
  { policy, limits, countBy }: QuotaOptions,
) {
  const trusted = new AddressSet(trustedProxies);
  const meters = new Map<string, { readonly settings: string; readonly meter: Meter }>();

  function addressOf({ headers, socket }: IncomingMessage): string | undefined {
    const forwardedFor = headers["x-forwarded-for"];
    const chain = Array.isArray(forwardedFor) ? forwardedFor.join(",") : forwardedFor;
    return callerAddress(socket.remoteAddress, chain, trusted);
  }

  /** The 403 response, which names the caller's address. */
  const blocked = (request: IncomingMessage): ServiceResponse =>
    forbidden(addressOf(request) ?? "unknown", new Date());

  /** The client's meter; a new one after its limits changed or it was reset. */
  function meterOf(client: Client): Meter {
    const key = countBy === "client" ? String(client.tenantId) : client.tokenId;
    const settings = [client.resets, client.perHour, client.burst].join(" ");
    const existing = meters.get(key);
    if (existing?.settings === settings) return existing.meter;
    const meter = createMeter(policy, {
      ...limits,
      perHour: client.perHour ?? limits.perHour,
      burst: client.burst ?? limits.burst,
    });
    meters.set(key, { settings, meter });
    return meter;
  }

  return {
    blocked,

    /** Checks token and address, and counts nothing. */
    check(request: IncomingMessage): AdmissionResult {
      const client = findClient(bearerToken(request.headers.authorization) ?? "");
      if (client === undefined) return { admitted: false, client, response: unauthorised() };
      const address = addressOf(request);
      if (address === undefined || !client.allowed.contains(address)) {
        return { admitted: false, client, response: blocked(request) };
      }
      return { admitted: true, client };
    },

    /**
     * Counts one request if the client's quota allows it.
     * @param nowMs by the machine's clock, as the times of the result; a step of it changes no count.
     */
    count(client: Client, nowMs: number): CountResult {
      const counted = meterOf(client).count(performance.now());
      const resetAtMs = onWall(counted.resetAtMs, nowMs);
      return counted.counted
        ? { ...counted, resetAtMs }
        : { ...counted, resetAtMs, retryAtMs: onWall(counted.retryAtMs, nowMs) };
    },

    quota(client: Client, nowMs: number): QuotaState {
      const state = meterOf(client).state(performance.now());
      return { ...state, resetAtMs: onWall(state.resetAtMs, nowMs) };
    },
  };
}

/** RFC 6750: the scheme in any case, one blank or more, one token. */
function bearerToken(authorization: string | undefined): string | undefined {
  return /^Bearer +([\w\-.~+/]+=*) *$/i.exec(authorization ?? "")?.[1];
}

/** A time of performance.now() by the machine's clock, ms. */
const onWall = (at: number, nowMs: number): number => nowMs + (at - performance.now());
