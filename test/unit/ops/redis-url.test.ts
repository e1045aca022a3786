import { expect, it } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { describeRedis, parseRedisUrl, withoutPassword } from "../../../src/base/redis-url.ts";

it.each([
  ["redis://localhost", "Redis at localhost:6379", {}],
  ["redis://:p%40ss@10.0.0.1:7000/3", "Redis at 10.0.0.1:7000", { password: "p@ss", db: 3 }],
  ["redis://ann:a@b@h", "Redis at h:6379", { username: "ann", password: "a@b" }],
  ["rediss://[::1]:7000?family=6", "Redis at ::1:7000", { tls: true, family: 6 }],
  ["unix:///run/redis.sock?db=2", "Redis at /run/redis.sock", { socket: "/run/redis.sock", db: 2 }],
  [
    "redis+sentinel://u:p@a,b:7000/main/2?sentinelPassword=s",
    "Redis (main of Sentinels a:26379, b:7000)",
    { kind: "sentinel", master: "main", db: 2, password: "p", sentinelPassword: "s" },
  ],
  [
    "rediss+cluster://a:1,b",
    "Redis Cluster (a:1, b:6379)",
    {
      kind: "cluster",
      tls: true,
      nodes: [
        { host: "a", port: 1 },
        { host: "b", port: 6379 },
      ],
    },
  ],
] as const)("%s is %s", (url, place, parts) => {
  expect(parseRedisUrl(url)).toMatchObject(parts);
  expect(describeRedis(parseRedisUrl(url))).toBe(place);
});

it.each([
  ["rediss://ann:a@b@h/1", "rediss://ann:***@h/1"],
  [
    "redis+sentinel://:p@a,b:1/m?sentinelPassword=s",
    "redis+sentinel://:***@a,b:1/m?sentinelPassword=***",
  ],
  ["redis://h:6379", "redis://h:6379"],
])("people see %s as %s", (url, shown) => {
  expect(withoutPassword(url)).toBe(shown);
});

it.each([
  ["http://h", "must be an address like redis://host:6379"],
  ["localhost:6379", "must be an address like"],
  ["redis+proxy://h", "must be an address like"],
  ["redis://:hush/hush@h", "are written as %25 %2F"],
  ["redis://:hush%zz@h", "write %25 for %"],
  ["redis://h:0", "port from 1 to 65535"],
  ["redis://h:70000", "port from 1 to 65535"],
  ["redis://", "must name the host"],
  ["redis://a,b", "redis+cluster:// for a Redis Cluster"],
  ["redis://h/first", "the database by a whole number"],
  ["redis://h/1/2", "must end after the number of the database"],
  ["redis://h?tls=true", "parameter tls"],
  ["redis+sentinel://a,b", "must name the master"],
  ["redis+sentinel://a,b:x/main", "must name host 2"],
  ["redis+cluster://a,,b", "must name host 2"],
  ["redis+cluster://a/1", "only database 0"],
])("%s is refused: %s", (url, remedy) => {
  const read = () => readConfig({ REDIS_URL: url });
  expect(read).toThrow(remedy);
  expect(read).toThrow(/- REDIS_URL /);
  expect(read).not.toThrow(/hush/);
});
