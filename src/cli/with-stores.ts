import { readStateConfig } from "../config.ts";
import { connectOperator } from "../ops/connect-redis.ts";
import { openStores, type Stores } from "../status/stores.ts";

/** Runs a command on the state in Redis, and closes the connection after it. */
export async function withStores(work: (stores: Stores) => Promise<void>): Promise<void> {
  const config = readStateConfig();
  const stores = openStores(config, await connectOperator(config));
  try {
    await work(stores);
  } finally {
    await stores.close();
  }
}
