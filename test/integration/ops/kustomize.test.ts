import { execFile } from "node:child_process";
import { cp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
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
  readonly spec: {
    readonly template: {
      readonly spec: {
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
