import { Command, InvalidArgumentError, Option } from "commander";
import { parseNetwork } from "../sandbox/addresses.ts";
import type { Network } from "../sandbox/addresses.ts";
import type { Environment } from "../sandbox/directory.ts";
import { POLICIES } from "../sandbox/quota.ts";
import type { Policy } from "../sandbox/quota.ts";
import type { RetryAfterForm } from "../sandbox/replies.ts";
import { DEFAULT_DATABASE, DEFAULT_HOST, startSandbox } from "../sandbox/serve.ts";
import type { Sandbox } from "../sandbox/serve.ts";
import type { UnknownFields } from "../sandbox/validate-relation.ts";

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
  readonly json?: boolean;
}

const DEFAULT_PORT = 4010;

export function sandboxCommand(): Command {
  const command = new Command("sandbox")
    .description("Serve the specified service from one file, for development and tests")
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
    .addOption(
      choice("--count-by <what>", "whose requests share a quota", ["client", "token"], "client"),
    )
    .addOption(
      choice("--rate-headers <when>", "answers with the quota's headers", ["429", "all"], "429"),
    )
    .addOption(
      choice("--retry-after <form>", "form of Retry-After", ["seconds", "date"], "seconds"),
    )
    .addOption(
      choice("--unknown-fields <what>", "what unknown fields do", ["reject", "ignore"], "reject"),
    )
    .option("--trust-proxy <network>", "proxy whose X-Forwarded-For counts; repeatable", networks)
    .option("--token-file <file>", "keep a token of the tenant default here, from start to start")
    .option("--json", "print JSON: the first line is {url, token, faultsUrl}");
  return command.action(async (flags: ServeFlags) => serve(flags));
}

async function serve(flags: ServeFlags): Promise<void> {
  const sandbox = await startSandbox({
    ...flags,
    database: flags.db ?? DEFAULT_DATABASE,
    limits: Object.fromEntries(
      (["perHour", "hourMs", "burst", "burstMs"] as const).flatMap((name) =>
        flags[name] === undefined ? [] : [[name, flags[name]]],
      ),
    ),
    trustedProxies: flags.trustProxy ?? [],
    onError: (error) => console.error(error),
  });
  console.log(flags.json === true ? greetJson(sandbox) : greet(sandbox));
  let closing: Promise<void> | undefined;
  const close = (): void => {
    closing ??= sandbox.close();
  };
  process.once("SIGTERM", close).once("SIGINT", close);
}

function greetJson({ url, token }: Sandbox): string {
  return JSON.stringify({ url, token, faultsUrl: null });
}

function greet({ url, token }: Sandbox): string {
  const lines = [`sandbox  ${url}`];
  if (token !== null) lines.push(`token    ${token}`);
  return lines.join("\n");
}

function choice<T extends string>(
  flags: string,
  description: string,
  values: readonly T[],
  preset: T,
): Option {
  return new Option(flags, description).choices(values).default(preset);
}

function integer(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`An integer from ${min} to ${max} is needed.`);
    }
    return value;
  };
}

function networks(text: string, previous: Network[] = []): Network[] {
  const network = parseNetwork(text);
  if (network === undefined) throw new InvalidArgumentError("An address or network is needed.");
  return [...previous, network];
}
