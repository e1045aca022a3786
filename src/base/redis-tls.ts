import { readFileSync } from "node:fs";

/** The certificates of our TLS connections to Redis, in PEM. */
export interface RedisTls {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

const FILES = { ca: "REDIS_CA_FILE", cert: "REDIS_CERT_FILE", key: "REDIS_KEY_FILE" } as const;
type Variable = (typeof FILES)[keyof typeof FILES];

/** The variables that name their files. */
export type RedisTlsFiles = Readonly<Partial<Record<Variable, string | undefined>>>;

/**
 * Reads the files that these variables name.
 * @param isTls whether REDIS_URL asks for TLS.
 * @param problems why they cannot be used.
 */
export function readRedisTls(names: RedisTlsFiles, isTls: boolean, problems: string[]): RedisTls {
  const tls: { ca?: string; cert?: string; key?: string } = {};
  for (const [use, variable] of Object.entries(FILES) as [keyof RedisTls, Variable][]) {
    const file = names[variable];
    if (file === undefined) continue;
    if (!isTls) {
      problems.push(`${variable} is set, but REDIS_URL does not begin with rediss: no TLS is used`);
      continue;
    }
    const text = readPem(variable, file, problems);
    if (text !== undefined) tls[use] = text;
  }
  if ((tls.cert === undefined) !== (tls.key === undefined) && problems.length === 0) {
    problems.push("REDIS_CERT_FILE and REDIS_KEY_FILE belong together: set both of them or none");
  }
  return tls;
}

function readPem(variable: Variable, file: string, problems: string[]): string | undefined {
  try {
    const text = readFileSync(file, "utf8");
    if (text.includes("-----BEGIN ")) return text;
    problems.push(`${variable} names ${file}, which is not in PEM (-----BEGIN …)`);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    problems.push(`${variable} names ${file}, which cannot be read (${code})`);
  }
  return undefined;
}
