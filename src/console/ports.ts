/** What the console needs of the process that serves it. */
import type { FastifyRequest } from "fastify";
import type { IdentityProvider } from "../people/identity-provider.ts";
import type { OpsTokens } from "../people/person.ts";
import type { CountRequest } from "../http/rate-limit.ts";
import type { LogEvent } from "../ops/log-events.ts";
import type { LogFields } from "../ops/log.ts";
import type { Mapping } from "../mapping/mapping.ts";
import type { EndableSession } from "../state/ended-sessions.ts";
import type { Readings } from "../status/readings.ts";
import type { Stores } from "../status/stores.ts";

export interface ConsolePorts {
  readonly stores: Stores;
  readonly version: string;
  readonly tokens: OpsTokens;
  /** Undefined while none is configured. */
  readonly provider: IdentityProvider | undefined;
  readonly count: CountRequest;
  /** @throws Refusal after too many tries of one address. */
  readonly countLogin: (request: FastifyRequest) => Promise<void>;
  /** Whether the session was ended before its time. */
  readonly isEnded: (session: EndableSession) => Promise<boolean>;
  /** Readings that are a second old, or ten times as old as it took to read them, at most. */
  readonly readings: () => Promise<Readings>;
  /** Readings as they are now: after an act. */
  readonly freshReadings: () => Promise<Readings>;
  /** The mapping of this process. */
  readonly mapping: Mapping;
  readonly log: (fields: LogFields, event: LogEvent) => void;
  readonly defect: (error: unknown) => void;
}
