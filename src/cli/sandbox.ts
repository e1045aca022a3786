import { Command } from "commander";
import type { Network } from "../sandbox/addresses.ts";
import type { Environment } from "../sandbox/directory.ts";
import { POLICIES } from "../sandbox/quota.ts";
import type { Policy } from "../sandbox/quota.ts";
import type { RetryAfterForm } from "../sandbox/replies.ts";
import { DEFAULT_DATABASE, DEFAULT_HOST, startSandbox } from "../sandbox/serve.ts";
import type { Sandbox } from "../sandbox/serve.ts";
import type { UnknownFields } from "../sandbox/validate-relation.ts";
import { addAdministration } from "./sandbox-administration.ts";
import { choice, integer, networks, reportFailure } from "./sandbox-options.ts";

interface ServeFlags {
  readonly host: string;
  readonly port: number;
  readonly db?: string;
  readonly environment: Environment;
  readonly perHour?: number;
  readonly hourMs?: number;
  readonly burst?: number;
  readonly burstMs?: number;
  readonly policy: Policy;
  readonly countBy: "client" | "token";
  readonly rateHeaders: "429" | "all";
  readonly retryAfter: RetryAfterForm;
  readonly unknownFields: UnknownFields;
  readonly trustProxy?: Network[];
  readonly tokenFile?: string;
  readonly faults?: boolean;
  readonly faultsPort: number;
  readonly json?: boolean;
}

const DEFAULT_PORT = 4010;

const HELP = `
Without a subcommand the service is served until SIGTERM or SIGINT. A database without clients gets
the client "default", a token that is shown this once, and the loopback addresses.

Faults (--faults) are armed on an address of their own, on loopback and without a token:
  POST   /faults       {"fault": "error", "status": 503, "times": 3, "method": "PUT"}
  GET    /faults       what is armed, and how often it struck
  DELETE /faults[/ID]  disarm
  GET    /requests     counts of all requests by operation and status (DELETE: from zero)
Kinds: latency {ms, jitterMs}, error {status, body: json|html|empty, headers, when},
  reset {when}, hang {when}, truncate, revoked, blocked,
  rate-limit {retryAfter: seconds|date|none, seconds, rateHeaders, headers}
  when: before|after the request takes effect. All take {method, path, times, probability, seed}.`;

/** `crmsync sandbox …` */
export function sandboxCommand(): Command {
  const sandbox = new Command("sandbox")
    .description("serve the specified service from one file, or administer that file")
    .enablePositionalOptions()
    .option("--host <host>", "address to listen on", DEFAULT_HOST)
    .option(
      "--port <port>",
      "port to listen on, 0 for a free one",
      integer(0, 65_535),
      DEFAULT_PORT,
    )
    .option("--db <file>", `database file, or :memory: (default: "${DEFAULT_DATABASE}")`)
    .addOption(choice("--environment <name>", "environment served", ["test", "production"], "test"))
    .option("--per-hour <n>", "requests per hour and client (default: 1000)", integer(1))
    .option("--hour-ms <ms>", "length of the hour (default: 3600000)", integer(1))
    .option("--burst <n>", "requests per burst window (default: 20)", integer(1))
    .option("--burst-ms <ms>", "length of the burst window (default: 5000)", integer(1))
    .addOption(choice("--policy <name>", "how requests are counted", POLICIES, "fixed"))
    .addOption(choice("--count-by <what>", "who has a quota", ["client", "token"], "client"))
    .addOption(choice("--rate-headers <when>", "when quota headers come", ["429", "all"], "429"))
    .addOption(
      choice("--retry-after <form>", "form of Retry-After", ["seconds", "date"], "seconds"),
    )
    .addOption(
      choice("--unknown-fields <what>", "what unknown fields do", ["reject", "ignore"], "reject"),
    )
    .option("--trust-proxy <network>", "proxy whose X-Forwarded-For counts; repeatable", networks)
    .option("--token-file <file>", "keep a token of the client default here, from start to start")
    .option("--faults", "open the address where faults are armed")
    .option("--faults-port <port>", "its port, 0 for a free one", integer(0, 65_535), 0)
    .option("--json", "print one line of JSON: url, token, faultsUrl")
    .addHelpText("after", HELP)
    .action(async (flags: ServeFlags) => reportFailure(async () => serve(flags)));
  addAdministration(sandbox);
  return sandbox;
}

async function serve(flags: ServeFlags): Promise<void> {
  const { perHour, hourMs, burst, burstMs } = flags;
  const limits = Object.entries({ perHour, hourMs, burst, burstMs });
  const sandbox = await startSandbox({
    ...flags,
    database: flags.db ?? DEFAULT_DATABASE,
    limits: Object.fromEntries(limits.filter(([, value]) => value !== undefined)),
    trustedProxies: flags.trustProxy ?? [],
    onError: (error) => console.error(error),
  });
  console.log(flags.json === true ? greetJson(sandbox) : greet(sandbox));
  let closing: Promise<void> | undefined;
  const close = (): void => {
    closing ??= sandbox.close();
  };
  process.on("SIGTERM", close).on("SIGINT", close);
  // Whoever started it with an IPC channel, and is gone, needs it no more.
  if (process.channel !== undefined) {
    process.on("disconnect", close);
    process.channel.unref();
  }
}

function greetJson({ url, token, faultsUrl }: Sandbox): string {
  return JSON.stringify({ url, token, faultsUrl });
}

function greet({ url, token, faultsUrl }: Sandbox): string {
  return [
    `service  ${url}`,
    `page     ${url}/${token === null ? "" : `#token=${token}`}`,
    `docs     ${url}/docs`,
    ...(faultsUrl === null ? [] : [`faults   ${faultsUrl}`]),
    token === null
      ? "token    not shown again; a further one: crmsync sandbox token create"
      : `token    ${token}`,
  ].join("\n");
}
