import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export interface SourceFile {
  /** From the project's root, such as `src/core/sync/decide.ts`. */
  path: string;
  text: string;
}

export interface Rules {
  /** The folders, and the files beside them, from the ground up: each may import those on the floors below its own. */
  floors: readonly (readonly string[])[];
  /** Single imports that run upward, each as `file > file`. */
  exceptions: readonly string[];
  /** Folders that may import no more than this, whatever is below them. */
  only: Record<string, readonly string[]>;
  /** Packages and built-in modules that only these areas or files may import. */
  onlyIn: Record<string, readonly string[]>;
  /** Areas without I/O, and the built-in modules that they may import. */
  pure: Record<string, readonly string[]>;
  /** The one file that may read process.env. */
  readsEnvironment: string;
}

export function readSources(root: string, folders: string[]): SourceFile[] {
  const pattern = `{${folders.join(",")}}/**/*.ts`;
  return globSync(pattern, { cwd: root })
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

/** Every breach of the rules, as `file: what`. Files outside of src and workers may import anything. */
export function findBreaches(files: readonly SourceFile[], rules: Rules): string[] {
  return files.flatMap((file) => {
    const specifiers = importsOf(file.text);
    const breaches = specifiers.filter((specifier) => !isWellFormed(specifier));
    return [
      ...breaches.map((specifier) => `imports "${specifier}": not a package, nor a path with .ts`),
      ...(isProduct(file.path) ? findBreachesOfArea(file, specifiers, rules) : []),
    ].map((breach) => `${file.path}: ${breach}`);
  });
}

function findBreachesOfArea(file: SourceFile, specifiers: string[], rules: Rules): string[] {
  const area = folderOf(file.path);
  const floor = floorOf(area, rules);
  const only = rules.only[area];
  const pure = rules.pure[area];
  const breaches = floor === -1 ? [`${area} is on no floor`] : [];
  for (const specifier of specifiers) {
    if (specifier.startsWith(".")) {
      const target = join(dirname(file.path), specifier);
      const to = folderOf(target);
      const isBelow = floorOf(to, rules) < floor && floorOf(to, rules) !== -1;
      const ok =
        to === area ||
        (only?.some((place) => covers(place, target)) ?? isBelow) ||
        rules.exceptions.includes(`${file.path} > ${target}`);
      if (!ok) breaches.push(`${area} may not import ${target}`);
    } else {
      const name = packageOf(specifier);
      // A row may be of a package or of all that share its scope.
      const places = rules.onlyIn[name] ?? rules.onlyIn[name.split("/")[0] ?? ""];
      const ok = places?.some((place) => covers(place, file.path)) ?? true;
      if (!ok) breaches.push(`${name} may not be imported here`);
      if (pure !== undefined && specifier.startsWith("node:") && !pure.includes(specifier)) {
        breaches.push(`${specifier} may not be imported in ${area}, which is pure`);
      }
    }
  }
  if (file.path !== rules.readsEnvironment && READS_ENVIRONMENT.test(file.text)) {
    breaches.push(`only ${rules.readsEnvironment} may read process.env`);
  }
  return breaches;
}

// The formatter puts each statement at the start of a line.
const STATIC_IMPORT = /^(?:import|export)\b[^"';]*?\bfrom\s*["']([^"']+)["']/gm;
const BARE_IMPORT = /^import\s*["']([^"']+)["']/gm;
const CALLED_IMPORT = /\b(?:import|require)\(\s*["']([^"']+)["']/g;
const READS_ENVIRONMENT =
  /\bprocess\??\.env\b|\bprocess\[|\benv\b[^;={}]*\} = process\b|"node:process"/;

function importsOf(text: string): string[] {
  return [STATIC_IMPORT, BARE_IMPORT, CALLED_IMPORT].flatMap((pattern) =>
    [...text.matchAll(pattern)].map((match) => match[1] ?? ""),
  );
}

// An import of types only is erased; one whose names are all types is not.
const LOADING_IMPORT = /^(?:import|export)\b(?!\s+type\b)[^"';]*?\bfrom\s*["']([^"']+)["']/gm;

/**
 * What Node has loaded before the first function of the entries is called: files by their path, packages by
 * their specifier. What is imported later, by `import()`, is not among it.
 */
export function loadedWith(files: readonly SourceFile[], entries: readonly string[]): Set<string> {
  const texts = new Map(files.map(({ path, text }) => [path, text]));
  const loaded = new Set<string>();
  const open = [...entries];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (loaded.has(next) || next.startsWith("node:")) continue;
    loaded.add(next);
    const text = texts.get(next) ?? "";
    for (const [, specifier = ""] of [
      ...text.matchAll(LOADING_IMPORT),
      ...text.matchAll(BARE_IMPORT),
    ]) {
      open.push(specifier.startsWith(".") ? join(dirname(next), specifier) : specifier);
    }
  }
  return loaded;
}

function isWellFormed(specifier: string): boolean {
  return specifier.startsWith(".")
    ? specifier.endsWith(".ts")
    : /^(?:node:|@?[a-z])/.test(specifier);
}

/** Circles of imports, types included, each as its files in alphabetical order. */
export function findCircles(files: readonly SourceFile[]): string[][] {
  return circlesIn(filesImportedBy(files));
}

/** The wing of a file; inside of the core, its folder there. */
const folderOf = (path: string): string =>
  /^(?:src\/core\/[^/]+|src\/[^/]+|[^/]+)/.exec(normalize(path))?.[0] ?? path;

const floorOf = (area: string, rules: Rules): number =>
  rules.floors.findIndex((floor) => floor.includes(area));

function filesImportedBy(files: readonly SourceFile[]): Map<string, string[]> {
  const paths = new Set(files.map(({ path }) => path));
  return new Map(
    files.map(({ path, text }) => [
      path,
      importsOf(text)
        .filter((specifier) => specifier.startsWith("."))
        .map((specifier) => join(dirname(path), specifier))
        .filter((target) => paths.has(target)),
    ]),
  );
}

function circlesIn(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const paths = new Set(imports.keys());
  const reach = new Map([...paths].map((path) => [path, reachableFrom(path, imports)]));
  const circles = [...paths].map((path) =>
    [...paths]
      .filter((other) => reach.get(path)?.has(other) && reach.get(other)?.has(path))
      .toSorted(),
  );
  const distinct = new Map(circles.map((circle) => [circle.join(" "), circle]));
  return [...distinct.values()].filter((circle) => circle.length > 0);
}

/** The files that can be reached by following at least one import. */
function reachableFrom(path: string, imports: ReadonlyMap<string, readonly string[]>): Set<string> {
  const reached = new Set<string>();
  const open = [...(imports.get(path) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (reached.has(next)) continue;
    reached.add(next);
    open.push(...(imports.get(next) ?? []));
  }
  return reached;
}

const isProduct = (path: string): boolean => /^(?:src|workers)\//.test(normalize(path));

/** A place is a folder or a file. */
function covers(place: string, path: string): boolean {
  return path === place || path.startsWith(`${place}/`);
}

function packageOf(specifier: string): string {
  if (specifier.startsWith("node:")) return specifier;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}
