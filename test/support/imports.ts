import { globSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

export interface SourceFile {
  /** From the project's root, such as `src/sync/decide.ts`. */
  path: string;
  text: string;
}

export interface Rules {
  /** Per area, a folder of src or one of its files or workers: the areas that it may import. */
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

/** Every breach of the rules, as `file: what`; files outside of src and workers may import all. */
export function findBreaches(files: readonly SourceFile[], rules: Rules): string[] {
  return files.flatMap((file) => {
    const specifiers = importsOf(file.text);
    const breaches = specifiers.filter((specifier) => !isWellFormed(specifier));
    return [
      ...breaches.map((specifier) => `imports "${specifier}": not a package, nor a path with .ts`),
      ...(areaOf(file.path) === undefined ? [] : findBreachesOfArea(file, specifiers, rules)),
    ].map((breach) => `${file.path}: ${breach}`);
  });
}

function findBreachesOfArea(file: SourceFile, specifiers: string[], rules: Rules): string[] {
  const area = areaOf(file.path) ?? "";
  const allowed = rules.mayImport[area];
  const pure = rules.pure[area];
  const breaches = allowed === undefined ? [`${area} is not in the table`] : [];
  for (const specifier of specifiers) {
    const target = specifier.startsWith(".") ? join(dirname(file.path), specifier) : specifier;
    const targetArea = specifier.startsWith(".") ? areaOf(target) : undefined;
    if (specifier.startsWith(".")) {
      const ok = targetArea === area || allowed?.some((to) => covers(to, target)) === true;
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

function isWellFormed(specifier: string): boolean {
  return specifier.startsWith(".")
    ? specifier.endsWith(".ts")
    : /^(?:node:|@?[a-z])/.test(specifier);
}

/** `src/sync/decide.ts` → `src/sync`; `src/config.ts` itself; `workers/main.ts` → `workers`. */
function areaOf(path: string): string | undefined {
  return /^(?:src\/[^/]+|workers)(?=\/|$)/.exec(normalize(path))?.[0];
}

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
