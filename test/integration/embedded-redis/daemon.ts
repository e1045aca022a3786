// A daemon of a few lines, for the tests to end in every way: it runs the embedded Redis of the
// directory given and prints its URL, then does what its second argument says.
import { Redis } from "ioredis";
import pino from "pino";
import { startEmbeddedRedis } from "../../../src/ops/embedded-redis.ts";

const [dataDir = "", task] = process.argv.slice(2);
const log = pino({ level: "info" }, pino.destination(2));
const redis = await startEmbeddedRedis({ dataDir, log });
process.stdout.write(`url ${redis.url}\n`);

if (task === "write") {
  const client = new Redis(redis.url);
  for (;;) process.stdout.write(`acknowledged ${await client.incr("count")}\n`);
} else if (task === "drain") {
  process.once("SIGINT", () => {
    void (async () => {
      const client = new Redis(redis.url);
      process.stdout.write(`drained ${await client.incr("count")}\n`);
      client.disconnect();
      await redis.close();
    })();
  });
} else if (task === "exit") {
  process.exit(0);
} else if (task === "throw") {
  throw new Error("uncaught");
}
