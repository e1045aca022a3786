import { spawnCrmsync } from "./process.ts";
import type { TestProcess } from "./process.ts";

export interface SandboxProcess extends TestProcess {
  readonly url: string;
  readonly token: string;
  readonly faultsUrl: string | null;
}

/** `crmsync sandbox …` on a free port, without limits that a test would meet. */
export async function spawnSandbox(...flags: string[]): Promise<SandboxProcess> {
  const limits = ["--per-hour", "100000000", "--burst", "100000000"];
  const sandbox = spawnCrmsync(["sandbox", "--port", "0", "--json", ...limits, ...flags]);
  const [line] = await sandbox.line(/^\{.*\}$/);
  const greeting = JSON.parse(line) as Pick<SandboxProcess, "url" | "token" | "faultsUrl">;
  return { ...sandbox, ...greeting };
}
