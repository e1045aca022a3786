/**
 * Part of the chapter "ingest": events that a plain BullMQ client has added with `addBulk`, until the
 * state of each is staged. Beside it, in the same run on the same Redis: a BullMQ
 * worker that does nothing with the same jobs, which no intake on BullMQ can beat.
 */
import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import { INBOX_QUEUE } from "../src/core/event/inbox.ts";
import { startDaemon } from "../test/support/crmsync.ts";
import { personEvent } from "../test/support/person-event.ts";
import { waitFor } from "../test/support/wait-for.ts";
import { INTAKE_DEADLINE_MS } from "./ingest.ts";
import type { Table } from "./table.ts";

/** Each about a record of its own. */
const EVENTS = 50_000;
const BATCH = 500;

/** The first ones find a daemon that has compiled nothing yet: they are not measured. */
const WARM_UP = 5000;

const CONCURRENCY = 50;

export async function runStaging(redisUrl: string): Promise<Table> {
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: null });
  try {
    const plain = await measurePlain(redis, redisUrl);
    const own = await measureOwn(redis, redisUrl);
    const row = (what: string, measured: number, target: number | string) => ({
      what,
      measured: Math.round(measured),
      target,
    });
    return {
      title: `Intake of ${EVENTS} events of distinct records, added by addBulk of ${BATCH}`,
      rows: [
        row("accepted/s, nothing else runs: BullMQ's own bound", plain.accepted, ""),
        row("accepted/s beside a daemon", own.accepted, ""),
        row("ended/s by a BullMQ worker that does nothing: the bound", plain.ended, ""),
        row(
          "staged/s by one daemon, from the first one added to the last one staged",
          own.staged,
          1000,
        ),
        row("staged/s by one daemon, once they lie in the inbox", own.stagedAlone, 1000),
        row("processor time of the daemon, µs an event", own.daemonUs, ""),
        row("processor time of Redis, µs an event", own.redisUs, ""),
      ],
    };
  } finally {
    redis.disconnect();
  }
}

async function measurePlain(redis: Redis, redisUrl: string) {
  const options = { prefix: prefixFor("plain"), connection: redis };
  const queue = new Queue(INBOX_QUEUE, options);
  const accepted = await addAll(queue, "p", EVENTS);
  const started = performance.now();
  const connection = new Redis(redisUrl, { maxRetriesPerRequest: null });
  const worker = new Worker(INBOX_QUEUE, async () => {}, {
    ...options,
    connection,
    concurrency: CONCURRENCY,
    removeOnComplete: { count: 0 },
  });
  await new Promise<void>((resolve) => worker.once("drained", () => resolve()));
  const ended = perSecond(EVENTS, started);
  await worker.close();
  await queue.close();
  connection.disconnect();
  return { accepted, ended };
}

async function measureOwn(redis: Redis, redisUrl: string) {
  const prefix = prefixFor("own");
  const queue = new Queue(INBOX_QUEUE, { prefix, connection: redis });
  await using daemon = await startDaemon({ REDIS_URL: redisUrl, QUEUE_PREFIX: prefix }, [
    "--roles",
    "http,intake",
  ]);
  const allStaged = (count: number) =>
    waitFor(async () => (await redis.zcard(`${prefix}:line:live`)) >= count, {
      deadlineMs: INTAKE_DEADLINE_MS,
      what: `${count} are staged`,
    });
  await addAll(queue, "w", WARM_UP);
  await allStaged(WARM_UP);
  const daemonSeconds = () => daemon.metric("process_cpu_seconds_total");
  const [daemonBefore, redisBefore] = [await daemonSeconds(), await redisSeconds(redis)];
  const started = performance.now();
  const accepted = await addAll(queue, "m", EVENTS);
  await allStaged(WARM_UP + EVENTS);
  const staged = perSecond(EVENTS, started);
  const eachUs = (seconds: number) => (seconds * 1e6) / EVENTS;
  const daemonUs = eachUs((await daemonSeconds()) - daemonBefore);
  const redisUs = eachUs((await redisSeconds(redis)) - redisBefore);
  const stagedAlone = await measureAlone();
  await queue.close();
  return { accepted, staged, stagedAlone, daemonUs, redisUs };

  /** The machine that adds them is another one, as a rule. */
  async function measureAlone(): Promise<number> {
    daemon.process.kill("SIGSTOP");
    await addAll(queue, "a", EVENTS);
    const before = await redis.zcard(`${prefix}:line:live`);
    const startedAlone = performance.now();
    daemon.process.kill("SIGCONT");
    const all = WARM_UP + 2 * EVENTS;
    await allStaged(all);
    return perSecond(all - before, startedAlone);
  }
}

/** Makes the events before it measures. @returns events per second */
async function addAll(queue: Queue, name: string, count: number): Promise<number> {
  const jobs = Array.from({ length: count }, (_, n) => ({
    name: "event",
    data: eventOf(`${name}${n}`),
  }));
  const started = performance.now();
  for (let from = 0; from < count; from += BATCH) {
    await queue.addBulk(jobs.slice(from, from + BATCH));
  }
  return perSecond(count, started);
}

/** Without a value of the tenant's lists, which intake would wait for: no process here asks for them. */
const eventOf = (crmCode: string) =>
  personEvent(crmCode, {
    birthDate: "1979-03-04",
    countryOfResidence: "LU",
    nationality: "LU",
    address: "14, rue des Vignes",
    postalCode: "L-2345",
    city: "Luxembourg",
    email: `ada.muster.${crmCode}@example.com`,
    phoneNumber: "+352621555014",
  });

async function redisSeconds(redis: Redis): Promise<number> {
  const text = await redis.info("cpu");
  const of = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, "m").exec(text)?.[1]);
  return of("used_cpu_user") + of("used_cpu_sys");
}

const perSecond = (count: number, started: number): number =>
  count / ((performance.now() - started) / 1000);

const prefixFor = (name: string): string => `{bench-${process.pid}-${Date.now()}-${name}}`;
