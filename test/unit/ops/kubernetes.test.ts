/** The manifests of deploy/kubernetes, checked against the schemas of Kubernetes and each other. */
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { prometheusRule } from "../../../deploy/prometheus-rule.ts";
import { readConfig } from "../../../src/base/config.ts";
import { tempDir } from "../../support/temp-dir.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");
const dir = join(root, "deploy/kubernetes");

/** The documents' types; a test compares these with the schemas. */
interface Labels {
  readonly [label: string]: string;
}

interface Pod {
  readonly serviceAccountName: string;
  readonly terminationGracePeriodSeconds: number;
  readonly volumes: readonly { readonly secret?: { readonly secretName: string } }[];
  readonly containers: readonly {
    readonly envFrom: readonly { readonly configMapRef: { readonly name: string } }[];
    readonly image: string;
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly livenessProbe: { readonly httpGet: { readonly path: string } };
    readonly readinessProbe: {
      readonly httpGet: { readonly path: string };
      timeoutSeconds: number;
    };
  }[];
}

interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Labels };
  readonly spec: {
    readonly selector?: Labels & { readonly matchLabels?: Labels };
    readonly podSelector?: { readonly matchLabels: Labels };
    readonly podMetricsEndpoints?: readonly { readonly port: string }[];
    readonly ingress?: readonly { readonly ports: readonly { readonly port: string }[] }[];
    readonly egress?: readonly { readonly ports: readonly { readonly port: number }[] }[];
    readonly ports?: readonly { readonly port: number; readonly targetPort: string }[];
    readonly unhealthyPodEvictionPolicy?: string;
    readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: Pod };
  };
}

interface Kustomization {
  readonly resources: readonly string[];
  readonly images: readonly { readonly name: string; readonly newTag: string }[];
  readonly configMapGenerator: readonly { readonly name: string; readonly literals: string[] }[];
}

interface Workflow {
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly strategy?: { readonly matrix: { readonly include: readonly { arch: string }[] } };
        readonly steps: readonly { readonly run?: string; readonly with?: { tags?: string } }[];
      }
    >
  >;
}

const read = (path: string): string => readFileSync(join(dir, path), "utf8");
const kustomization = parse(read("kustomization.yaml")) as Kustomization;
const monitoring = parse(read("monitoring/kustomization.yaml")) as Kustomization;
const files = [
  ...kustomization.resources,
  ...monitoring.resources.map((file) => `monitoring/${file}`),
];
const documents = files.flatMap((file) =>
  parseAllDocuments(read(file)).map((document) => {
    const [error] = document.errors;
    if (error instanceof Error) throw error;
    return document.toJS() as Document;
  }),
);
const ofKind = (kind: string): Document[] => documents.filter((one) => one.kind === kind);
const deployments = ofKind("Deployment");
const settings = Object.fromEntries(
  kustomization.configMapGenerator
    .flatMap(({ literals }) => literals)
    .map((literal) => [literal.split("=")[0] ?? "", literal.slice(literal.indexOf("=") + 1)]),
);

/** The package's module that has the schema and the type of a document. */
const moduleOf = ({ apiVersion, kind }: Document): string => {
  const isOfOperator = apiVersion.startsWith("monitoring.coreos.com/");
  const name = isOfOperator ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
  return `${name}/${apiVersion}/${kind}`;
};

type Model = new (data: Document) => { validate(): void };

/** The schemas check values, and accept unknown fields; the compiler finds those in literals. */
async function compile(all: readonly Document[]): Promise<string> {
  await using temp = await tempDir();
  await symlink(join(root, "node_modules"), join(temp.path, "node_modules"));
  const checks = all.map((document, index) => {
    const type = `I${document.kind} as T${index}`;
    return `import type { ${type} } from "${moduleOf(document)}";
export const manifest${index}: T${index} = ${JSON.stringify(document)};`;
  });
  const file = join(temp.path, "manifests.ts");
  await writeFile(file, checks.join("\n"));
  const options = "--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext".split(" ");
  const tsc = join(root, "node_modules/.bin/tsc");
  return await run(tsc, [...options, file]).then(
    () => "",
    (error: { stdout: string }) => error.stdout,
  );
}

describe("the manifests", () => {
  it("are those that the kustomizations name", () => {
    const present = ["", "monitoring/"].flatMap((folder) =>
      readdirSync(join(dir, folder))
        .filter((file) => file.endsWith(".yaml") && file !== "kustomization.yaml")
        .map((file) => folder + file),
    );
    expect(files.toSorted()).toEqual(present.toSorted());
    expect(deployments.map(({ metadata }) => metadata.name)).toEqual([
      "crmsync-intake",
      "crmsync-sync",
    ]);
  });

  it.for(documents.map((one) => [`${one.kind} ${one.metadata.name}`, one] as const))(
    "%s has valid values",
    async ([, document]) => {
      // Not a literal: the compiler would check the packages' own types, which it does not accept.
      const models = (await import(moduleOf(document))) as Record<string, Model>;
      const Schema = models[document.kind];
      if (Schema === undefined) throw new Error(`no schema for ${document.kind}`);
      new Schema(document).validate();
    },
  );

  it("have no field that Kubernetes does not know", async () => {
    expect(await compile(documents)).toBe("");
    const [wrong] = structuredClone(deployments) as [Document];
    const [container] = wrong.spec.template.spec.containers as object[];
    Object.assign(container ?? {}, { readynessProbe: {} });
    expect(await compile([wrong])).toMatch(/readynessProbe.* does not exist in type/);
  });

  it("name each other as they are called", () => {
    const [account] = ofKind("ServiceAccount");
    for (const { spec } of deployments) {
      const { metadata, spec: pod } = spec.template;
      expect(metadata.labels).toMatchObject(spec.selector?.matchLabels ?? {});
      expect(pod.serviceAccountName).toBe(account?.metadata.name);
      const names = kustomization.configMapGenerator.map(({ name }) => name);
      for (const { envFrom } of pod.containers)
        expect(envFrom.map(({ configMapRef }) => configMapRef.name)).toEqual(names);
      expect(pod.volumes.map(({ secret }) => secret?.secretName)).toContain("crmsync");
    }
    const pods = deployments.map(({ spec }) => spec.template);
    const ports = pods.flatMap(({ spec }) => spec.containers.flatMap((one) => one.ports));
    const known = new Set(ports.map(({ name }) => name));
    for (const { kind, metadata, spec } of documents.filter((one) => one.spec !== undefined)) {
      const labels = spec.podSelector?.matchLabels ?? spec.selector?.matchLabels ?? spec.selector;
      if (labels === undefined) continue;
      const selected = pods.filter((pod) =>
        Object.entries(labels).every(([label, value]) => pod.metadata.labels[label] === value),
      );
      expect(selected, `${kind} ${metadata.name}`).not.toEqual([]);
      const named = [
        ...(spec.podMetricsEndpoints ?? []),
        ...(spec.ingress ?? []).flatMap((rule) => rule.ports),
        ...(spec.ports ?? []).map(({ targetPort }) => ({ port: targetPort })),
      ];
      for (const { port } of named) expect(known).toContain(port);
    }
  });

  it("name the image that the release pushes, by the version of the package", () => {
    const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
      version: string;
    };
    const [image] = kustomization.images;
    expect(image).toMatchObject({ name: "crmsync", newTag: version });
    for (const { spec } of deployments) {
      for (const { image: name } of spec.template.spec.containers) {
        expect(name).toBe(`crmsync:${version}`);
      }
    }
    const workflow = parse(
      readFileSync(join(root, ".github/workflows/release.yml"), "utf8"),
    ) as Workflow;
    const { image: build, manifest, package: release } = workflow.jobs;
    const steps = (job: Workflow["jobs"][string] | undefined) =>
      (job?.steps ?? []).map(({ run, with: given }) => `${run ?? ""} ${given?.tags ?? ""}`);
    // The tag of git is v and the version; what is pushed is the version.
    expect(steps(release).join()).toContain(`"$GITHUB_REF_NAME" = "v$(node -p`);
    const architectures = build?.strategy?.matrix.include.map(({ arch }) => arch);
    expect(architectures).toEqual(["amd64", "arm64"]);
    for (const job of [build, manifest]) {
      expect(steps(job).join()).toContain("VERSION=${GITHUB_REF_NAME#v}");
    }
    expect(steps(build).join()).toContain("${{ env.IMAGE }}:${{ env.VERSION }}-${{ matrix.arch }}");
    const parts = architectures?.map((arch) => `"$IMAGE:$VERSION-${arch}"`).join(" ");
    expect(steps(manifest).join()).toContain(`create -t "$IMAGE:$VERSION" ${parts}`);
    const docs = readFileSync(join(root, "docs/deploy.md"), "utf8");
    expect(docs).toContain(`newTag: ${version} `);
  });

  it("let a node be drained while Redis is away, and people reach the console", () => {
    for (const { spec } of ofKind("PodDisruptionBudget")) {
      expect(spec.unhealthyPodEvictionPolicy).toBe("AlwaysAllow");
    }
    const port = Number(settings["OPS_PORT"]);
    const consoles = ofKind("Service").find(({ metadata }) => metadata.name.endsWith("console"));
    expect(consoles?.spec.ports).toMatchObject([{ port, targetPort: "ops" }]);
    const ports = deployments.flatMap(({ spec }) => spec.template.spec.containers[0]?.ports ?? []);
    for (const { name, containerPort } of ports) {
      if (name === "ops") expect(containerPort).toBe(port);
    }
    const outwards = ofKind("NetworkPolicy").flatMap(({ spec }) => spec.egress ?? []);
    // DNS, Redis, its Sentinels, HTTPS
    const allowed = outwards.flatMap((rule) => rule.ports.map((one) => one.port));
    expect(new Set(allowed)).toEqual(new Set([53, 6379, 26_379, 443]));
  });

  it("leave the daemon the time that it needs to end, and use its probes", () => {
    // src/base/shutdown.ts: an end takes 5 s at most, after the delay.
    const needsMs = Number(settings["SHUTDOWN_DELAY_MS"]) + 5000;
    for (const { spec } of deployments) {
      const pod = spec.template.spec;
      expect(pod.terminationGracePeriodSeconds * 1000).toBeGreaterThanOrEqual(needsMs + 5000);
      for (const { livenessProbe, readinessProbe } of pod.containers) {
        expect(livenessProbe.httpGet.path).toBe("/livez");
        expect(readinessProbe.httpGet.path).toBe("/readyz");
        expect(readinessProbe.timeoutSeconds).toBeGreaterThan(1);
      }
    }
  });

  it("have a configuration that the daemon accepts", () => {
    const plain = Object.entries(settings).filter(([name]) => !name.endsWith("_FILE"));
    expect(plain.length).toBeGreaterThan(3);
    expect(() => readConfig(Object.fromEntries(plain))).not.toThrow();
    const secrets = Object.keys(settings).filter((name) => name.endsWith("_FILE"));
    const known = Object.keys(readConfig({}).secrets).map((name) => `${name}_FILE`);
    expect(known).toEqual(expect.arrayContaining(secrets));
  });

  it("have the rules of deploy/prometheus/rules (node deploy/generate.ts)", () => {
    expect(read("monitoring/prometheus-rule.yaml")).toBe(prometheusRule());
  });

  it("mount the secret that the recipes of docs/deploy.md write", () => {
    const docs = readFileSync(join(root, "docs/deploy.md"), "utf8");
    const recipes = [...docs.matchAll(/^```yaml\n([^]*?)^```/gm)].map(
      ([, text = ""]) =>
        parse(text) as {
          readonly spec?: {
            readonly target?: { readonly name: string };
            readonly destination?: { readonly name: string };
          };
        },
    );
    const written = recipes.flatMap(({ spec }) => spec?.target ?? spec?.destination ?? []);
    expect(written).toHaveLength(2);
    const mounted = deployments.flatMap(({ spec }) => spec.template.spec.volumes);
    const names = new Set(mounted.flatMap(({ secret }) => secret?.secretName ?? []));
    for (const { name } of written) expect([...names]).toEqual([name]);
  });
});
