/** What a preview knows of the service: by the state in Redis and, where a person asks for it, by one request. */
import { crmsync } from "../../base/command.ts";
import type { Config } from "../../base/config.ts";
import { UserError } from "../../base/user-error.ts";
import { openService } from "../../core/service/open-service.ts";
import { tokenName } from "../../core/state/known-service.ts";
import type { Keeps } from "../../core/sync/keeps.ts";
import { provenIn } from "../../core/sync/known.ts";
import type { Stores } from "../../operate/status/stores.ts";
import type { Body, ServiceView } from "./preview-one.ts";

/** How long a request waits for a permit, ms. */
const PERMIT_WAIT_MS = 10_000;

/** @param ask reads the relation; undefined: no request may be spent. */
export async function storedView(
  stores: Stores,
  keeps: Keeps,
  ask: ServiceView["ask"],
): Promise<ServiceView> {
  return {
    lists: stores.tenantLists.current(),
    fingerprintOf: await stores.keyring.fingerprintOf(keeps),
    known: async (crmCode) => provenIn(await stores.records.read(crmCode)),
    codeOf: (subject) => stores.staged.codeOf(subject),
    ask,
  };
}

export function openReader(config: Config, stores: Stores) {
  const { SERVICE_BASE_URL: baseUrl } = config;
  const token = config.secrets.SERVICE_TOKEN;
  if (baseUrl === undefined || token === undefined) {
    throw new UserError("--ask needs SERVICE_BASE_URL and SERVICE_TOKEN (or SERVICE_TOKEN_FILE)");
  }
  const value = token.value();
  const service = openService(config, stores.redis, { baseUrl, token: () => value });
  return {
    service,
    async read(crmCode: string): Promise<Body | undefined> {
      if ((await stores.knownService.hasToken(tokenName(value))) === false) {
        throw new UserError(
          `whether SERVICE_TOKEN is of the daemon's tenant is not known: set it as the daemon has it; see ${crmsync`status`}`,
        );
      }
      const inTime = AbortSignal.timeout(PERMIT_WAIT_MS);
      const permit = await service.quota.acquire("live", inTime).catch((error: unknown) => {
        if (!inTime.aborted) throw error;
        throw new UserError(
          `no request may be sent now: ${crmsync`status`} says why, and until when`,
        );
      });
      const reply = await service.client.get(permit, crmCode);
      if (reply.kind === "found") return reply.body;
      if (reply.kind === "missing") return undefined;
      throw new UserError(
        `the service did not return the relation (${reply.kind}): ${crmsync`doctor`} checks token, address and connection`,
      );
    },
    close: () => service.close(),
  };
}
