/** What keeps values in Redis from being opened, or the old key of STATE_KEY from being removed. Pure. */
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

const SECTION = "the-state-key";

export function sealingFindings({ processes, resealed }: Readings): Finding[] {
  const warn = (says: string) => finding("warning", SECTION, says);
  const lacking = processes.flatMap(({ id, lacksKey }) =>
    lacksKey === undefined
      ? []
      : [
          warn(
            `The process ${id} does not have the key ${lacksKey} that Redis is sealed with: it leaves changes to the other processes.`,
          ),
        ],
  );
  if (resealed === undefined) return lacking;
  const missing = Object.entries(resealed.missing);
  return [
    ...lacking,
    ...missing.map(([keyId, values]) =>
      warn(
        `${values === 1 ? "1 value" : `${values} values`} in Redis cannot be opened: sealed with the key ${keyId}, which STATE_KEY does not hold. Add it after a blank.`,
      ),
    ),
    ...(missing.length === 0
      ? [
          warn(
            "Values in Redis are being sealed with the new STATE_KEY: keep the old one until then.",
          ),
        ]
      : []),
  ];
}
