import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import { readConfig } from "../../../src/base/config.ts";
import { checkConfiguration } from "../../../src/operate/doctor/configuration.ts";

it("names a token that was issued in the future: no age would ever be told", async () => {
  const SERVICE_TOKEN_ISSUED_AT = new Date(Date.now() + 300 * 86_400_000).toISOString();
  const checks = await checkConfiguration(readConfig({ SERVICE_TOKEN_ISSUED_AT }));
  expect(checks.find(({ name }) => name === "token age")).toMatchObject({
    result: "warn",
    says: "it is issued 300 days ahead of today",
  });
});

it.skipIf(process.platform !== "linux")(
  "warns of a disk on which the embedded Redis has no room",
  async () => {
    const dataFolder = async (variables: Record<string, string>) => {
      const checks = await checkConfiguration(readConfig(variables));
      return checks.find(({ name }) => name === "data folder");
    };
    // It has no free space.
    const DATA_DIR = "/proc";
    expect(await dataFolder({ DATA_DIR })).toMatchObject({
      result: "warn",
      says: "/proc: its disk has 0 MiB left",
    });
    expect(await dataFolder({ DATA_DIR, REDIS_URL: "redis://127.0.0.1" })).toBeUndefined();
    expect(await dataFolder({ DATA_DIR: "/nowhere" })).toBeUndefined();
    expect(await dataFolder({ DATA_DIR: tmpdir() })).toMatchObject({ result: "ok" });
  },
);

it("says that sign-in alone opens the status to nobody", async () => {
  const oidc = {
    OIDC_ISSUER: "https://login.example",
    OIDC_CLIENT_ID: "crmsync",
    OIDC_CLIENT_SECRET: "x".repeat(24),
    OIDC_LOOK: "staff",
    CONSOLE_URL: "https://crmsync.example",
  };
  const access = async (variables: Record<string, string>) =>
    (await checkConfiguration(readConfig(variables))).find(
      ({ name }) => name === "status and metrics",
    );
  expect(await access(oidc)).toMatchObject({
    result: "warn",
    says: expect.stringContaining("401") as string,
  });
  expect(await access({ ...oidc, VIEWER_TOKEN: "x".repeat(24) })).toMatchObject({ result: "ok" });
});
