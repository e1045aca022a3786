import { expect, it } from "vitest";
import { IDLE } from "../../../deploy/metrics-reference.ts";
import type { RunningProcess } from "../../../src/core/state/heartbeats.ts";
import { secretFindings } from "../../../src/operate/status/process-findings.ts";
import { stopsIn } from "../../../src/operate/status/stops.ts";

const running = (id: string, more: Partial<RunningProcess> = {}): RunningProcess => ({
  id,
  version: "1",
  roles: ["http", "intake", "sync"],
  startedAt: 0,
  seenAt: 1,
  ...more,
});

it("a token that may be another tenant's stops sending once no process has another one", () => {
  const intake = running("intake:1", { roles: ["http", "intake"] });
  const own = running("own:2");
  const foreign = running("foreign:3", { tokenDoubt: "foreign" });
  const late = running("late:4", { tokenDoubt: "unavailable" });
  const found = (...processes: RunningProcess[]) => [
    secretFindings({ processes }).map(({ says }) => says),
    stopsIn({ ...IDLE, now: 2, processes }).map(({ reason, says }) => [reason, says]),
  ];
  expect(found(intake, own)).toEqual([[], []]);
  expect(found(intake, own, foreign, late)).toEqual([
    [
      "SERVICE_TOKEN seems to be another tenant's: with it, the service has none of the relations that the ledger knows. The process foreign:3 leaves changes to the other processes.",
      "Whether SERVICE_TOKEN is of the ledger's tenant is not known: the check was answered as unavailable. The process late:4 leaves changes to the other processes.",
    ],
    [],
  ]);
  expect(found(intake, foreign)).toEqual([
    [],
    [
      [
        "tenant_unknown",
        "SERVICE_TOKEN seems to be another tenant's: with it, the service has none of the relations that the ledger knows. Nothing is sent with it.",
      ],
    ],
  ]);
});
