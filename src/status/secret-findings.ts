/** Secrets whose files cannot be used any more. Pure. */
import { finding, type Finding } from "./finding.ts";
import type { Readings } from "./readings.ts";

export const secretFindings = ({ processes }: Pick<Readings, "processes">): Finding[] =>
  processes.flatMap(({ id, secretProblems = [] }) =>
    secretProblems.map((problem) =>
      finding(
        "warning",
        "the-file-of-a-secret-cannot-be-used",
        `The process ${id} goes on with the former ${problem}. A restart fails until the file is right.`,
      ),
    ),
  );
