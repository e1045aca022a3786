import { Command } from "commander";
import type { Redis } from "ioredis";
import { readConfig, type Config } from "../config.ts";
import { loadMapping } from "../mapping/load-mapping.ts";
import { createServiceClient } from "../service/client.ts";
import { createQuota } from "../quota/quota.ts";
import { DEFAULT_TENANT_LISTS } from "../service-spec/tenant-lists.ts";
import { keysOf } from "../state/keys.ts";
import { readRow } from "../state/ledger-row.ts";
import { StoredTenantLists } from "../state/tenant-lists.ts";
import { quotaOptions } from "../status/stores.ts";
import { connectOnce } from "../ops/connect-redis.ts";
import { previewOne, type Body, type ServiceView } from "../preview/preview-one.ts";
import { printLine, printOne, printSummary, summarise } from "../preview/print.ts";
import { readSubjects, type ReadOptions } from "../preview/read-records.ts";
import { UserError } from "../ops/user-error.ts";

/** How long --ask waits for the right to a request, ms. */
const PERMIT_WAIT_MS = 30_000;

/** So many records are told one by one, before what they come to. */
const MAX_LISTED = 20;

interface PreviewOptions extends ReadOptions {
  readonly mapping?: string;
  readonly ask?: true;
  readonly json?: true;
}

export function previewCommand(): Command {
  return new Command("preview")
    .description("what would become of records or events: payload, warnings, what would be sent")
    .argument("<file>", "JSON (one, or a list of them) or JSON lines; - for standard input")
    .option("--mapping <mapping>", "preset or file, instead of MAPPING")
    .option("--object <object>", "the CRM's object of records that come without an event")
    .option("--id <id>", "the record's id, where it is not in the record")
    .option("--id-from <field>", "the field of the records that holds their id, where it is not id")
    .option("--ask", "of one record, spend one request to name the fields that would change")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
FILE holds records as the CRM's API answers or exports them, events, or bodies of its webhooks.

Nothing is sent and no request is spent (but by --ask). Whether a record would be created, updated
or skipped is known from the daemon's Redis, where it is reached; of what the service holds that has
a fingerprint only, so which fields differ is told by --ask. With more than one record: the share
that passes, the requests it takes, and a table of the values that no table translates. The exit
code is 1 if any would be a dead letter.`,
    )
    .action(preview);
}

async function preview(file: string, options: PreviewOptions): Promise<void> {
  const config = readConfig();
  const mapping = await loadMapping(options.mapping ?? config.MAPPING);
  const view = await openView(config, options.ask === true);
  try {
    const subjects = readSubjects(file, mapping, options);
    if (options.ask === true && subjects.length > 1) {
      throw new UserError(`--ask is for one record, and ${file} holds ${subjects.length}`);
    }
    const nameless = subjects.filter(({ hasId }) => !hasId).length;
    if (nameless > 0) {
      process.stderr.write(
        `${nameless === 1 ? "The record does" : `${nameless} records do`} not say the id, so the crmCode is not the real one: give --id or --id-from\n`,
      );
    }
    const previews = [];
    for (const subject of subjects) {
      previews.push({ ...(await previewOne(subject, mapping, view)), label: subject.label });
    }
    const [only] = previews;
    if (only !== undefined && previews.length === 1) {
      const { label: _, ...one } = only;
      print(options.json === true ? JSON.stringify(one, null, 2) : printOne(one));
    } else {
      const summary = summarise(previews);
      const few = previews.length <= MAX_LISTED ? previews.map((one) => printLine(one)) : [];
      print(
        options.json === true
          ? JSON.stringify(summary, null, 2)
          : [...few, printSummary(summary)].join("\n"),
      );
    }
    if (previews.some(({ result }) => result === "dead letter")) process.exitCode = 1;
  } finally {
    await mapping.close();
    await view.close();
  }
}

const print = (text: string): void => void process.stdout.write(`${text}\n`);

/** Works without a Redis too: then the spec's own lists apply, and the decision is not known. */
async function openView(
  config: Config,
  ask: boolean,
): Promise<ServiceView & { close(): Promise<void> }> {
  const redis = await connectOnce(config).catch((error: unknown) => {
    if (error instanceof UserError && !ask) return undefined;
    throw error;
  });
  if (redis === undefined) {
    return {
      lists: DEFAULT_TENANT_LISTS,
      known: async () => undefined,
      ask: undefined,
      close: async () => {},
    };
  }
  const keys = keysOf(config.QUEUE_PREFIX);
  const stored = new StoredTenantLists(redis, keys);
  await stored.reload();
  const service = ask ? openService(config, redis) : undefined;
  return {
    lists: stored.current(),
    async known(crmCode) {
      const text = await redis.hget(keys.ledger, crmCode);
      if (text !== null) return readRow(text);
      // After a whole warm-up, what is not in the ledger is not on the service.
      const isWarm = (await redis.hget(keys.warmUp, "state")) === "done";
      return { ...NOT_KNOWN, exists: isWarm ? false : undefined };
    },
    ask: service && ((crmCode) => service.ask(crmCode)),
    async close() {
      await service?.close();
      redis.disconnect();
    },
  };
}

const NOT_KNOWN = {
  exists: undefined,
  uncertain: false,
  fingerprint: undefined,
  terminated: false,
  variant: undefined,
};

function openService(config: Config, redis: Redis) {
  const { SERVICE_BASE_URL: baseUrl, HTTP_PROXY, HTTPS_PROXY, NO_PROXY } = config;
  const token = config.secrets.SERVICE_TOKEN;
  if (baseUrl === undefined || token === undefined) {
    throw new UserError("--ask needs SERVICE_BASE_URL and SERVICE_TOKEN (or SERVICE_TOKEN_FILE)");
  }
  // The quota opens connections with the options of this one, and must not wait to be told to.
  const connected = redis.duplicate({ lazyConnect: false });
  connected.on("error", () => {});
  const quota = createQuota({ ...quotaOptions(config), redis: connected });
  const client = createServiceClient({
    baseUrl,
    token: () => token.value(),
    timeoutMs: config.SERVICE_TIMEOUT_MS,
    proxy: { httpProxy: HTTP_PROXY, httpsProxy: HTTPS_PROXY, noProxy: NO_PROXY },
  });
  return {
    async ask(crmCode: string): Promise<Body | undefined> {
      const permit = await quota.acquire("live", AbortSignal.timeout(PERMIT_WAIT_MS));
      const reply = await client.get(permit, crmCode);
      if (reply.kind === "found") return reply.body;
      if (reply.kind === "missing") return undefined;
      throw new UserError(`the service did not tell what it has (${reply.kind})`);
    },
    async close() {
      await client.close();
      await quota.disconnect();
      connected.disconnect();
    },
  };
}
