import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { readConfig } from "../../../src/config.ts";

const root = join(import.meta.dirname, "../../..");
const text = (path: string): string => readFileSync(join(root, path), "utf8");

interface ComposeService {
  readonly image: string;
  readonly restart?: string;
  readonly ports?: readonly string[];
  readonly logging?: { readonly options: Readonly<Record<string, string>> };
  readonly mem_limit?: string;
  readonly pids_limit?: number;
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const compose = parse(text("docker-compose.yml"), { merge: true }) as {
  services: Record<string, ComposeService>;
};

describe("docker-compose.yml", () => {
  it.for(Object.entries(compose.services))("%s is bounded, and on loopback only", ([, service]) => {
    expect(service.restart).toBe("unless-stopped");
    expect(service.logging?.options["max-size"]).toBeDefined();
    expect(service.mem_limit).toBeDefined();
    expect(service.pids_limit).toBeGreaterThan(0);
    expect(service.image).toMatch(/:[\w.-]+$/);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    for (const volume of service.volumes ?? []) {
      const source = volume.split(":")[0] ?? "";
      if (source.startsWith("./")) expect(existsSync(join(root, source)), source).toBe(true);
    }
  });

  it("names only variables that exist", () => {
    const env = compose.services["crmsync"]?.environment ?? {};
    const config = readConfig({});
    const known = new Set([
      ...Object.keys(config),
      ...Object.keys(config.secrets).map((name) => `${name}_FILE`),
      // These have no default, so an empty environment's configuration lacks them.
      ..."REDIS_URL SERVICE_BASE_URL SERVICE_TOKEN_ISSUED_AT HTTPS_PROXY NO_PROXY".split(" "),
      // Read by OpenTelemetry's own code.
      ..."OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES".split(" "),
    ]);
    for (const name of Object.keys(env)) expect(known).toContain(name);
  });
});

describe("Kubernetes", () => {
  const documents = parseAllDocuments(text("deploy/kubernetes/crmsync.yaml"));

  it("is valid YAML with all deployments and disruption budgets", () => {
    expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
    const kinds = documents.map((document) => (document.toJS() as { kind: string }).kind);
    expect(kinds.filter((kind) => kind === "Deployment")).toHaveLength(2);
    expect(kinds.filter((kind) => kind === "PodDisruptionBudget")).toHaveLength(2);
  });

  it("has a configuration that the daemon accepts", () => {
    const config = documents[0]?.toJS() as { data: Record<string, string> };
    const plain = Object.entries(config.data).filter(([name]) => !name.endsWith("_FILE"));
    expect(() => readConfig(Object.fromEntries(plain))).not.toThrow();
  });
});

it("the image's build context holds only named files", () => {
  const ignored = text(".dockerignore")
    .split("\n")
    .filter((line) => line !== "" && line[0] !== "#");
  expect(ignored[0]).toBe("*");
  for (const line of ignored.slice(1))
    expect(existsSync(join(root, line.slice(1))), line).toBe(true);
});

it("the image's build gets every file that the build script names", () => {
  const { scripts } = JSON.parse(text("package.json")) as { scripts: { build: string } };
  const named = [...scripts.build.matchAll(/(?:-p|\bnode) (\S+)/g)].map(([, file]) => file ?? "");
  expect(named).toContain("tsconfig.build.json");
  expect(named).toContain("deploy/copy-assets.ts");
  const copied = [...text("Dockerfile").matchAll(/^COPY (?!--from).*$/gm)].join("\n");
  for (const file of named) {
    expect(copied).toContain(file);
    expect(text(".dockerignore").split("\n")).toContain(`!${file}`);
  }
});
