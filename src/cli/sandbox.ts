import { crmsync } from "../base/command.ts";
import { Command, InvalidArgumentError } from "commander";
import { parseNetwork, type Network } from "../sandbox/addresses.ts";
import type { Environment } from "../sandbox/directory.ts";
import { POLICIES, type Limits } from "../sandbox/quota.ts";
import {
  DEFAULT_DATABASE,
  DEFAULT_HOST,
  startSandbox,
  type Sandbox,
  type SandboxOptions,
} from "../sandbox/serve.ts";
import {
  BURST_REQUESTS,
  BURST_WINDOW_MS,
  HOUR_MS,
  REQUESTS_PER_HOUR,
} from "../core/service-spec/limits.ts";
import { addAdministration, ENVIRONMENTS } from "./sandbox/administration.ts";
import { withUserErrors } from "./sandbox/user-errors.ts";
import { Choice, wholeNumber, WrongUsage } from "./arguments.ts";
import { explainPort } from "./explain-port.ts";
import { printEither } from "./output.ts";

interface ServeFlags extends SandboxOptions, Limits {
  readonly host: string;
  readonly db?: string;
  readonly environment: Environment;
  readonly trustProxy?: Network[];
  readonly faultsPort: number;
  readonly json?: boolean;
}

const DEFAULT_PORT = 4010;

const HELP = `
Without a subcommand, the sandbox serves until SIGTERM or SIGINT. A database without clients gets
the client "default", the loopback addresses, and a token that is shown only now.

With --faults, a second port on loopback arms faults, without a token:
  POST   /faults       {"fault": "error", "status": 503, "times": 3, "method": "PUT"}
  GET    /faults       the armed faults, and how often each has struck
  DELETE /faults[/ID]  disarm
  GET    /requests     all requests, counted by operation and status (DELETE resets the counts)
Kinds: latency {ms, jitterMs}, error {status, body: json|html|empty, headers, when},
  reset {when}, hang {when}, truncate, revoked, blocked,
  rate-limit {retryAfter: seconds|date|none, seconds, rateHeaders, headers}
  when: before|after the request takes effect. All take {method, path, times, probability, seed}.`;

/** Options with a closed set of values; the first one is the default. */
const CHOICES = [
  ["--environment <name>", "environment to serve", ENVIRONMENTS],
  ["--policy <name>", "how requests are counted", POLICIES],
  ["--count-by <what>", "one quota per client or token", ["client", "token"]],
  ["--rate-headers <when>", "responses with quota headers", ["429", "all"]],
  ["--retry-after <format>", "format of Retry-After", ["seconds", "date"]],
  ["--unknown-fields <what>", "treatment of unknown fields", ["reject", "ignore"]],
] as const;

/** `crmsync sandbox …` */
export function sandboxCommand(): Command {
  const port = wholeNumber(0, 65_535);
  const sandbox = new Command("sandbox")
    .description("run our implementation of the service, or administer its database file")
    .enablePositionalOptions()
    .option("--host <host>", "address to listen on", addressToListenOn, DEFAULT_HOST)
    .option("--port <port>", "port to listen on, 0 for any free port", port, DEFAULT_PORT)
    .option("--db <file>", `database file, or :memory: (default: "${DEFAULT_DATABASE}")`)
    .option("--per-hour <n>", "requests per hour and client", wholeNumber(1), REQUESTS_PER_HOUR)
    .option("--hour-ms <ms>", "length of the hour", wholeNumber(1), HOUR_MS)
    .option("--burst <n>", "requests per burst window", wholeNumber(1), BURST_REQUESTS)
    .option("--burst-ms <ms>", "length of the burst window", wholeNumber(1), BURST_WINDOW_MS);
  for (const [flags, description, values] of CHOICES)
    sandbox.addOption(new Choice(flags, description, values, values[0]));
  sandbox
    .option(
      "--trust-proxy <network>",
      "proxy whose X-Forwarded-For is trusted; repeatable",
      networks,
    )
    .option(
      "--token-file <file>",
      "keep a token of the client default in this file across restarts",
    )
    .option("--faults", "open the port that arms faults")
    .option("--faults-port <port>", "number of that port, 0 for any free port", port, 0)
    .option("--json", "print one line of JSON: url, token, faultsUrl")
    .addHelpText("after", HELP)
    .action(async (flags: ServeFlags) => withUserErrors(async () => serve(flags)));
  addAdministration(sandbox);
  return sandbox;
}

/** With an empty text, such as a shell's unset variable, the sandbox would listen on every address. */
function addressToListenOn(text: string): string {
  if (text === "") throw new InvalidArgumentError("It must be an address or a name.");
  return text;
}

function networks(text: string, previous: Network[] = []): Network[] {
  const network = parseNetwork(text);
  if (network === undefined) throw new InvalidArgumentError("It must be an address or a network.");
  return [...previous, network];
}

async function serve(flags: ServeFlags): Promise<void> {
  if (flags.faultsPort !== 0 && flags.faults !== true) {
    throw new WrongUsage("--faults-port needs --faults");
  }
  const { perHour, hourMs, burst, burstMs } = flags;
  const sandbox = await startSandbox({
    ...flags,
    database: flags.db ?? DEFAULT_DATABASE,
    limits: { perHour, hourMs, burst, burstMs },
    trustedProxies: flags.trustProxy ?? [],
    onError: (error) => console.error(error),
  }).catch((error: unknown) => {
    throw explainPorts(error, flags);
  });
  const { url, token, faultsUrl } = sandbox;
  printEither(flags.json, { url, token, faultsUrl }, addressesText(sandbox, flags));
  let closing: Promise<void> | undefined;
  const close = (): void => {
    closing ??= sandbox.close();
  };
  process.on("SIGTERM", close).on("SIGINT", close);
  // The parent that opened the IPC channel has exited: this sandbox is no longer needed.
  if (process.channel !== undefined) {
    process.on("disconnect", close);
    process.channel.unref();
  }
}

function explainPorts(error: unknown, { host, faultsPort }: ServeFlags): unknown {
  const { port } = error as { port?: number };
  return faultsPort !== 0 && port === faultsPort
    ? explainPort(error, "--faults-port")
    : explainPort(error, "--port", host, "--host");
}

function addressesText(
  { url, token, faultsUrl }: Sandbox,
  { db, environment }: ServeFlags,
): string {
  const options = [
    ...(db === undefined ? [] : ["--db", db]),
    ...(environment === "test" ? [] : ["--environment", environment]),
  ];
  return [
    `service  ${url}`,
    `page     ${url}/${token === null ? "" : `#token=${token}`}`,
    `openapi  ${url}/openapi.json`,
    ...(faultsUrl === null ? [] : [`faults   ${faultsUrl}`]),
    token === null
      ? `token    not shown again; to create another: ${crmsync`sandbox token create ${options}`}`
      : `token    ${token}`,
  ].join("\n");
}
