// A minimal daemon for the tests to end in every way. It runs the embedded Redis in the directory
// of its first argument, prints the URL, then does what its second argument says.
import { Redis } from "ioredis";
import pino from "pino";
import { startEmbeddedRedis } from "../../../src/base/embedded-redis.ts";

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
