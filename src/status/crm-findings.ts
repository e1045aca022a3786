/** What is not as the mapping needs it in a CRM, by the last check of it. Pure. */
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export const crmFindings = ({ crmChecks }: Pick<Readings, "crmChecks">): Finding[] =>
  Object.entries(crmChecks).flatMap(([crm, { lines }]) =>
    lines.flatMap(({ result, says, what }) => {
      if (result === "ok") return [];
      const severity = result === "fail" ? "critical" : "warning";
      return [
        finding(
          severity,
          "a-crm-is-not-as-the-mapping-needs-it",
          `${crm}, ${what}: ${says}.`,
          `${crm} ${what}`,
        ),
      ];
    }),
  );
