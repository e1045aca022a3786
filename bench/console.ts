/**
 * What each page of the console costs with 100,000 dead letters: the time of the server, the size, and
 * the slowest call of Redis. A daemon with the role http only, and a Redis without other work.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { readConfig } from "../src/base/config.ts";
import { openStores } from "../src/operate/status/stores.ts";
import { createDeadLetter } from "../src/core/sync/dead-letter.ts";
import { startDaemon } from "../test/support/crmsync.ts";
import { Visitor } from "../test/support/console.ts";
import { personEvent } from "../test/support/person-event.ts";
import { waitFor } from "../test/support/wait-for.ts";
import type { Table } from "./table.ts";

const LETTERS = 100_000;
const AT_ONCE = 200;

/** Views of each page: the first one, and later ones. */
const VIEWS = 6;

const TOKEN = "operator-token-of-24-characters";

export async function runConsole(redisUrl: string): Promise<Table> {
  const env = { REDIS_URL: redisUrl, QUEUE_PREFIX: `{bench-${process.pid}-${Date.now()}}` };
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
  await fill(env, redis);
  await using daemon = await startDaemon({ ...env, OPERATOR_TOKEN: TOKEN }, ["--roles", "http"]);
  const visitor = new Visitor(daemon.url);
  await visitor.logIn(TOKEN);
  try {
    const rows = [];
    for (const path of ["/console", "/console/dead", ...(await groupPages(visitor)), ...OTHERS]) {
      rows.push(await measure(visitor, redis, path));
    }
    return { title: `Pages of the console with ${LETTERS} dead letters`, rows };
  } finally {
    redis.disconnect();
  }
}

const OTHERS = [
  "/console/records?name=code-7",
  "/console/held",
  "/console/bulk",
  "/console/sources",
];

/** 60 % have one fault, the others one of a hundred. */
async function fill(env: Readonly<Record<string, string>>, redis: Redis): Promise<void> {
  const stores = openStores(readConfig(env), redis.duplicate());
  await stores.stateVersion.require();
  const letterOf = (n: number) => {
    const field = n % 10 < 6 ? "birthDate" : `field${n % 100}`;
    return createDeadLetter(
      { crmCode: `code-${n}` },
      {
        reason: "invalid",
        problems: [{ field, rule: "must be a date", kind: "a string of 3 characters" }],
        event: JSON.stringify(personEvent(`code-${n}`, { address: "Bahnhofstrasse 1".repeat(30) })),
        at: Date.now() - n,
        source: "/crm/acme",
      },
    );
  };
  for (let from = 0; from < LETTERS; from += AT_ONCE) {
    const batch = Array.from({ length: AT_ONCE }, (_, n) => letterOf(from + n));
    await Promise.all(batch.map((letter) => stores.deadLetters.store(letter)));
  }
  await stores.close();
}

/** The largest group: its list and its last page, what a redrive would do, and one letter. */
async function groupPages(visitor: Visitor): Promise<string[]> {
  const find = async (page: string, start: string): Promise<string> => {
    let found: string | undefined;
    await waitFor(
      async () => {
        const { text } = await visitor.request(page);
        found = [...text.matchAll(/href="([^"]+)"/g)]
          .map(([, path = ""]) => path.replaceAll("&amp;", "&"))
          .find((path) => path.startsWith(start));
        return found !== undefined;
      },
      { what: start, deadlineMs: 120_000 },
    );
    return found ?? "";
  };
  const group = await find("/console/dead", "/console/dead/group");
  const confirm = await find("/console/dead", "/console/dead/confirm?act=redrive");
  const letter = await find(group, "/console/dead/letter");
  return [group, `${group}&page=1000`, letter, confirm];
}

async function measure(visitor: Visitor, redis: Redis, path: string) {
  await redis.config("SET", "slowlog-max-len", "100000");
  await redis.config("SET", "slowlog-log-slower-than", "0");
  await redis.call("SLOWLOG", "RESET");
  const times: number[] = [];
  let bytes = 0;
  for (let view = 0; view < VIEWS; view += 1) {
    const began = performance.now();
    const { status, text } = await visitor.request(path);
    times.push(performance.now() - began);
    bytes = text.length;
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
    await sleep(300);
  }
  const [first = 0, ...later] = times;
  const calls = (await redis.call("SLOWLOG", "GET", "100000")) as [
    unknown,
    unknown,
    micros: number,
    args: string[],
  ][];
  const slowest = calls.reduce((a, b) => (b[2] > a[2] ? b : a));
  return {
    page: path.replace(/[?&](?:group|id|at)=[^&]*/g, ""),
    "first view, ms": Math.round(first),
    "later views, median, ms": Math.round(later.toSorted((a, b) => a - b)[2] ?? 0),
    "target, ms": 300,
    kB: Math.round(bytes / 1000),
    "slowest call of Redis, ms": Number((slowest[2] / 1000).toFixed(1)),
    "target of Redis, ms": 10,
    call: slowest[3][0] ?? "",
  };
}
