import { execFile } from "node:child_process";
import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { readConfig } from "../../../src/base/config.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";

const run = promisify(execFile);
const KUBECTL = {
  commands: ["kubectl"],
  check: ["version", "--client"],
  debianPackage: "kubernetes-client",
};

interface Document {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: {
    readonly template: {
      readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
      readonly spec: {
        readonly automountServiceAccountToken: boolean;
        readonly containers: readonly {
          readonly envFrom: readonly { readonly configMapRef: { readonly name: string } }[];
        }[];
      };
    };
  };
}

it("a changed setting changes the template of every pod, and so rolls the pods", async (context) => {
  const kubectl = await requireTool(context, KUBECTL);
  await using dir = await tempDir();
  await cp(join(import.meta.dirname, "../../../deploy/kubernetes"), dir.path, { recursive: true });

  const render = async () => {
    const { stdout } = await run(kubectl, ["kustomize", dir.path]);
    const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Document);
    const references = documents
      .filter(({ kind }) => kind === "Deployment")
      .flatMap(({ spec }) => spec.template.spec.containers)
      .flatMap(({ envFrom }) => envFrom.map(({ configMapRef }) => configMapRef.name));
    const map = documents.find(({ kind }) => kind === "ConfigMap");
    expect(references).toEqual([map?.metadata.name, map?.metadata.name]);
    return references;
  };

  const before = await render();
  const file = join(dir.path, "kustomization.yaml");
  const settings = await readFile(file, "utf8");
  expect(await render()).toEqual(before);
  await writeFile(file, settings.replace("redis://redis:6379", "redis://other:6379"));
  expect(await render()).not.toEqual(before);
});

it("the kustomization for Vault in docs/deploy.md makes each file that a variable names", async (context) => {
  const kubectl = await requireTool(context, KUBECTL);
  await using dir = await tempDir();
  const root = join(import.meta.dirname, "../../..");
  await cp(join(root, "deploy/kubernetes"), join(dir.path, "crmsync/deploy/kubernetes"), {
    recursive: true,
  });
  const blocks = (await readFile(join(root, "docs/deploy.md"), "utf8")).matchAll(
    /^```yaml\n([^]*?)^```/gm,
  );
  const [text = ""] = [...blocks].flatMap(([, yaml = ""]) =>
    yaml.includes("agent-inject") ? [yaml] : [],
  );
  await writeFile(join(dir.path, "kustomization.yaml"), text);
  const { stdout } = await run(kubectl, ["kustomize", dir.path]);
  const documents = parseAllDocuments(stdout).map((document) => document.toJS() as Document);
  const settings = documents.find(({ kind }) => kind === "ConfigMap")?.data ?? {};
  const injected = Object.entries(settings).filter(([, value]) => value.startsWith("/vault/"));
  expect(injected).toEqual([["SERVICE_TOKEN_FILE", "/vault/secrets/service_token"]]);
  expect(Object.keys(readConfig({}).secrets)).toContain("SERVICE_TOKEN");
  expect(settings["OPERATOR_TOKEN_FILE"]).toBe("/secrets/operator_token");
  const deployments = documents.filter(({ kind }) => kind === "Deployment");
  expect(deployments).toHaveLength(2);
  for (const { spec } of deployments) {
    const { annotations = {} } = spec.template.metadata;
    for (const [, file] of injected) {
      const name = file.replace("/vault/secrets/", "");
      const template = annotations[`vault.hashicorp.com/agent-inject-template-${name}`];
      const path = annotations[`vault.hashicorp.com/agent-inject-secret-${name}`];
      expect(template?.trim()).toBe(
        `{{- with secret "${path}" }}{{ .Data.data.${name} }}{{ end -}}`,
      );
    }
    // Without it, the injector rejects the pod: the manifests mount no token.
    expect(spec.template.spec.automountServiceAccountToken).toBe(true);
  }
});
