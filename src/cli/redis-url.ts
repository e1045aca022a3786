import { Command } from "commander";
import { readStateConfig } from "../base/config.ts";
import { redisUrlOf } from "../base/connect-redis.ts";
import { printEither } from "./output.ts";

export function redisUrlCommand(): Command {
  return new Command("redis-url")
    .description("print the URL of the Redis that the daemon uses, for senders that use BullMQ")
    .option("--json", "print as JSON")
    .addHelpText(
      "after",
      `
It is REDIS_URL, or else the embedded Redis of the daemon that runs on DATA_DIR. That one listens on
loopback only; its port and password stay the same over restarts, in DATA_DIR/redis/redis.conf.
The URL contains the password.`,
    )
    .action(async ({ json }: { readonly json?: true }) => {
      const redisUrl = await redisUrlOf(readStateConfig());
      printEither(json, { redisUrl }, redisUrl);
    });
}
