import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export interface SourceFile {
  /** From the project's root, such as `src/sync/decide.ts`. */
  path: string;
  text: string;
}

export interface Rules {
  /** Per area (a folder or a file): the areas that it may import. The longest match counts. */
  mayImport: Record<string, readonly string[]>;
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
  const area = areaOf(file.path, rules);
  const allowed = rules.mayImport[area];
  const pure = rules.pure[area];
  const breaches = allowed === undefined ? [`${area} is not in the table`] : [];
  for (const specifier of specifiers) {
    const target = specifier.startsWith(".") ? join(dirname(file.path), specifier) : specifier;
    if (specifier.startsWith(".")) {
      const ok =
        areaOf(target, rules) === area || allowed?.some((to) => covers(to, target)) === true;
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

/** Circles of the imports between folders; a file of src itself, such as src/config.ts, counts as one. */
export function findFolderCircles(files: readonly SourceFile[]): string[][] {
  const imports = new Map<string, string[]>();
  for (const [path, targets] of filesImportedBy(files)) {
    const own = folderOf(path);
    const others = targets.map(folderOf).filter((folder) => folder !== own);
    imports.set(own, [...(imports.get(own) ?? []), ...others]);
  }
  return circlesIn(imports);
}

const folderOf = (path: string): string => /^(?:src\/[^/]+|[^/]+)/.exec(path)?.[0] ?? path;

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

/** The most specific row of the table that covers the path, else its folder. */
function areaOf(path: string, rules: Rules): string {
  const rows = Object.keys(rules.mayImport).filter((area) => covers(area, normalize(path)));
  const [longest] = rows.toSorted((a, b) => b.length - a.length);
  return longest ?? /^(?:src\/[^/]+|workers)(?=\/|$)/.exec(normalize(path))?.[0] ?? path;
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
