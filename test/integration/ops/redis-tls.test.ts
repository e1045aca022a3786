import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { connectOnce } from "../../../src/base/connect-redis.ts";
import { ownPort } from "../../support/own-port.ts";
import { makeCertificates } from "../../support/certificates.ts";
import { ownRedis } from "../../support/own-redis.ts";
import { spawnCrmsync } from "../../support/process.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";

const OPENSSL = { commands: ["openssl"], check: ["version"], debianPackage: "openssl" };

it("rediss:// with an own authority and a client certificate", async (context) => {
  const openssl = await requireTool(context, OPENSSL);
  await using dir = await tempDir();
  const { ca, server, client } = makeCertificates(openssl, dir.path);
  const port = await ownPort();
  await using _ = await ownRedis({
    "tls-port": String(port),
    "tls-ca-cert-file": ca,
    "tls-cert-file": server.cert,
    "tls-key-file": server.key,
  });
  const urlFile = join(dir.path, "redis-url");
  writeFileSync(urlFile, `rediss://127.0.0.1:${port}\n`);
  const own = { REDIS_CERT_FILE: client.cert, REDIS_KEY_FILE: client.key };
  const env = { REDIS_URL_FILE: urlFile, ...own };
  const connect = (extra: Record<string, string>) => connectOnce(readConfig(extra));

  const redis = await connect({ ...env, REDIS_CA_FILE: ca });
  expect(await redis.ping()).toBe("PONG");
  // BullMQ's and Bottleneck's connections are copies.
  const copy = redis.duplicate();
  expect(await copy.ping()).toBe("PONG");
  copy.disconnect();
  redis.disconnect();

  await expect(connect(env)).rejects.toThrow(/127\.0\.0\.1:\d+ cannot be reached: self-signed/);
  await expect(connect({ REDIS_URL_FILE: urlFile, REDIS_CA_FILE: ca })).rejects.toThrow(
    /certificate required|ECONNRESET|EPIPE/,
  );
  // Node's own variable adds an authority for every connection of the process.
  const status = spawnCrmsync(["status"], { env: { ...env, NODE_EXTRA_CA_CERTS: ca } });
  await status.line(/No process is running|no process/i);
});

it("mistakes about the files are named", async () => {
  await using dir = await tempDir();
  const text = join(dir.path, "text");
  writeFileSync(text, "no certificate");
  const problems = (env: Record<string, string>) => () => readConfig(env);
  const REDIS_URL = "rediss://h";
  expect(problems({ REDIS_URL, REDIS_CA_FILE: text })).toThrow(/REDIS_CA_FILE names .*not in PEM/);
  expect(problems({ REDIS_URL, REDIS_CA_FILE: "/none" })).toThrow(/REDIS_CA_FILE .*\(ENOENT\)/);
  expect(problems({ REDIS_URL: "redis://h", REDIS_CA_FILE: text })).toThrow(
    /REDIS_CA_FILE is set, but REDIS_URL does not begin with rediss/,
  );
  expect(problems({ REDIS_URL, REDIS_URL_FILE: text })).toThrow(/both set/);
  expect(problems({ REDIS_URL_FILE: "/none" })).toThrow(/REDIS_URL_FILE names .*\(ENOENT\)/);
});
