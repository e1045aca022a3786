import { expect } from "vitest";
import type { SandboxAccess } from "./crmsync.ts";

/**
 * Lets a fault strike the requests to the sandbox until it has struck `times`, by default for long.
 * @returns what ends it.
 */
export async function armFault(
  { faultsUrl }: Pick<SandboxAccess, "faultsUrl">,
  fault: object,
): Promise<() => Promise<void>> {
  const armed = await fetch(`${faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ times: 10_000, ...fault }),
  });
  expect(armed.status).toBe(201);
  const { id } = (await armed.json()) as { id: number };
  return async () => {
    const ended = await fetch(`${faultsUrl}/faults/${id}`, { method: "DELETE" });
    expect(ended.ok).toBe(true);
  };
}
