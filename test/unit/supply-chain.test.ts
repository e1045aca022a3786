/** What comes from others: exact versions, known licences, few install scripts, pinned actions. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";

const ROOT = join(import.meta.dirname, "../..");
const read = (file: string): string => readFileSync(join(ROOT, file), "utf8");

interface Manifest {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly allowScripts: Readonly<Record<string, boolean>>;
}

interface Locked {
  readonly version: string;
  readonly license?: string;
  readonly dev?: true;
  readonly hasInstallScript?: true;
  readonly integrity?: string;
}

const manifest = JSON.parse(read("package.json")) as Manifest;
const lock = JSON.parse(read("package-lock.json")) as { packages: Record<string, Locked> };
const nameOf = (path: string): string => path.replace(/^.*node_modules\//, "");
const PACKAGES = Object.entries(lock.packages)
  .filter(([path]) => path !== "")
  .map(([path, locked]) => ({ name: nameOf(path), ...locked }));

it("every direct dependency has one exact version", () => {
  const all = { ...manifest.dependencies, ...manifest.devDependencies };
  const loose = Object.entries(all).filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version));
  expect(loose).toEqual([]);
});

it("every package of the lock file has a hash", () => {
  expect(PACKAGES.filter(({ integrity }) => !integrity?.startsWith("sha512-"))).toEqual([]);
});

/** Licences that let the product be shipped as it is, with their texts. */
const SHIPPED = ["0BSD", "Apache-2.0", "BlueOak-1.0.0", "BSD-2-Clause", "BSD-3-Clause", "ISC"];
SHIPPED.push("MIT", "MIT-0", "Unlicense");

/** What only builds and tests may have these as well. */
const DEVELOPMENT = [...SHIPPED, "CC0-1.0", "MPL-2.0"];

/** They name their licence, MIT, in a form that the lock file does not know. */
const NAMED_OTHERWISE = new Set(["buildcheck", "cpu-features", "ssh2"]);

it("every package has a licence that allows our use", () => {
  const refused = PACKAGES.filter(
    ({ dev, license, name }) =>
      !(dev === true ? DEVELOPMENT : SHIPPED).includes(license ?? "") &&
      !(dev === true && NAMED_OTHERWISE.has(name)),
  );
  expect(refused.map(({ license, name }) => [name, license])).toEqual([]);
});

it("every package with an install script is allowed or refused by name, and no other is named", () => {
  const found = PACKAGES.filter(({ hasInstallScript }) => hasInstallScript === true);
  const names = found.map(({ name }) => name).toSorted();
  expect(Object.keys(manifest.allowScripts).toSorted()).toEqual([...new Set(names)]);
  const allowed = Object.keys(manifest.allowScripts).filter((name) => manifest.allowScripts[name]);
  expect(allowed).toEqual(["node"]);
});

const WORKFLOWS = readdirSync(join(ROOT, ".github/workflows"));

it.for(WORKFLOWS)(
  "%s pins actions by commit, asks for few rights, and runs what exists",
  (file) => {
    const text = read(`.github/workflows/${file}`);
    expect((parse(text) as { permissions: unknown }).permissions).toEqual({ contents: "read" });
    const uses = [...text.matchAll(/uses: (.*)/g)].map(([, action]) => action);
    for (const action of uses) {
      expect(action).toMatch(
        /^(\.\/\.github\/workflows\/\S+|[\w/-]+@[\da-f]{40} # v\d+\.\d+\.\d+)$/,
      );
    }
    for (const [, script = ""] of text.matchAll(/npm run (?:-s )?([\w:]+)/g)) {
      expect(Object.keys(manifest.scripts)).toContain(script);
    }
  },
);
