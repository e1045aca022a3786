import type { FolderPaths } from "./paths.ts";

/** The files of secrets that `crmsync init` makes, and what each one is for. */
export const MADE_SECRETS = {
  ingest_token: "for senders of events",
  viewer_token: "for people and programs that look: /status, /metrics, the console",
  operator_token: "for people who act in the console",
  state_key:
    "encrypts the state in Redis: keep a copy elsewhere, nothing opens the state without it",
} as const;

export interface VariableOptions {
  readonly service?: string;
  readonly hasMapping: boolean;
  /** A CRM that has no webhooks, and the variables of its API. */
  readonly pullFrom?: { readonly name: string; readonly needs: readonly string[] } | undefined;
}

/** What the file of variables says; a shell and systemd can read it. */
export function variablesText(
  { folder, env, secret, mapping }: FolderPaths,
  { service = "", hasMapping, pullFrom }: VariableOptions,
): string {
  return `# The variables of crmsync. docs/configuration.md has all of them.
# A shell loads them by: ${loadCommand(env)}

# The address of the service, without /v1.1, and the file of its token.
SERVICE_BASE_URL=${quoted(service)}
SERVICE_TOKEN_FILE=${quoted(secret("service_token"))}
# The day on which the service made the token, as 2026-01-31: crmsync warns before the token has expired.
# SERVICE_TOKEN_ISSUED_AT=

# Files of crmsync itself. Without REDIS_URL it runs a redis-server of its own, whose data lies there, too.
DATA_DIR=${quoted(`${folder}/data`)}
# REDIS_URL=redis://127.0.0.1:6379

# What becomes of the CRM's records. Without a mapping file they must be payloads of the service.
${hasMapping ? "" : "# "}MAPPING=${quoted(mapping)}
${pullFrom === undefined ? "" : pullText(pullFrom)}
# Events by HTTP, from this machine only, with the token of the file.
HTTP_HOST=127.0.0.1
HTTP_PORT=8080
INGEST_TOKEN_FILE=${quoted(secret("ingest_token"))}

# Tokens of people: who looks, and who acts.
VIEWER_TOKEN_FILE=${quoted(secret("viewer_token"))}
OPERATOR_TOKEN_FILE=${quoted(secret("operator_token"))}

# Encrypts what crmsync writes into Redis.
STATE_KEY_FILE=${quoted(secret("state_key"))}
`;
}

const pullText = ({ name, needs }: NonNullable<VariableOptions["pullFrom"]>): string => `
# The CRM has no webhooks: it is asked for what has changed. docs/crm/${name}.md says what its variables are.
PULL_FROM=${name}
${needs.map((variable) => `# ${variable}=\n`).join("")}`;

export const loadCommand = (env: string): string => `set -a; . ${quoted(env)}; set +a`;

/** Single quotes mean the same to a shell and to systemd. */
const quoted = (text: string): string => (/^[\w./:@%+-]*$/.test(text) ? text : `'${text}'`);
