import { join } from "node:path";
import { expect, it } from "vitest";
import { readSources } from "../../support/imports.ts";

it("connections to Redis are opened in one place, which knows every form of REDIS_URL", () => {
  const files = readSources(join(import.meta.dirname, "../../.."), ["src", "workers"]);
  const opening = files.filter(({ text }) => /\bnew (?:\w*Redis|Cluster)\(/.test(text));
  expect(opening.map(({ path }) => path).toSorted()).toEqual(
    [
      "src/base/open-redis.ts",
      // It asks Sentinels and nodes of a Cluster.
      "src/base/redis-primary.ts",
      // As BullMQ makes its own connections of such a client.
      "src/base/tenant-redis.ts",
      // With the options of a client that the factory has opened.
      "src/core/quota/sliding-log.ts",
    ].toSorted(),
  );
});
