/** Rows of the table of chores, run as a daemon runs them, until the test has ended. */
import { onTestFinished } from "vitest";
import { ROLES } from "../../src/core/state/heartbeats.ts";
import { AT_WORK, OF_SERVICE, type GivenAtWork } from "../../workers/chore-table.ts";
import { Chores, type Chore } from "../../workers/chores.ts";
import type { ServiceAccess } from "../../workers/service-access.ts";
import type { Parts } from "../../workers/parts.ts";

export function startChores<Given>(
  parts: Parts,
  chores: readonly Chore<Given>[],
  given: Given,
): Chores {
  const running = new Chores(parts, new Set(ROLES));
  onTestFinished(() => running.close());
  running.start(chores, given);
  return running;
}

/** @param name of a row of AT_WORK */
export function startChore(parts: Parts, name: string, given: Partial<GivenAtWork> = {}): Chores {
  const chores = AT_WORK.filter((chore) => chore.name === name);
  if (chores.length === 0) throw new Error(`no chore ${name}`);
  const { signal } = new AbortController();
  const all = { roles: new Set(ROLES), redisUrl: "", service: undefined, onOther() {}, signal };
  return startChores(parts, chores, { parts, ...all, ...given });
}

const NOWHERE = { baseUrl: "http://127.0.0.1:1", token: () => "" };

/** @param name of a row of OF_SERVICE */
export function startServiceChore(
  parts: Parts,
  name: string,
  access: ServiceAccess,
  { service = NOWHERE, isNewToken = false } = {},
): Chores {
  const chores = OF_SERVICE.filter((chore) => chore.name === name);
  if (chores.length === 0) throw new Error(`no chore ${name}`);
  return startChores(parts, chores, { parts, access, service, isNewToken });
}
