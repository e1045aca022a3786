import { expect } from "vitest";
import type { SandboxProcess } from "./crmsync.ts";

/** Lets a fault strike the requests to the sandbox until it has struck `times`, by default for long. */
export async function armFault(
  { faultsUrl }: Pick<SandboxProcess, "faultsUrl">,
  fault: object,
): Promise<void> {
  const armed = await fetch(`${faultsUrl}/faults`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ times: 10_000, ...fault }),
  });
  expect(armed.status).toBe(201);
}
