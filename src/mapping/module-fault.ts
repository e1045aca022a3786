/** What is wrong with a mapping module, in words that say where and what to do. */

/** Of what Node says when it loads one. */
export function loadingFault(error: unknown): string {
  if (!(error instanceof Error)) return `it cannot be loaded: it threw ${String(error)}`;
  const place = placeOf(error);
  const remedy = remedyOf(error);
  return `it cannot be loaded: ${place === undefined ? "" : `${place}: `}${error.message}${remedy === undefined ? "" : ` (${remedy})`}`;
}

/** What a function threw and where; not the message, which may quote the record. */
export function thrownBy(error: unknown): string {
  if (!(error instanceof Error)) return "something that is no Error";
  const place = placeOf(error);
  return place === undefined ? error.name : `${error.name} at ${place}`;
}

function remedyOf(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") {
    return "Node takes the types away and runs the rest: use only what JavaScript has as well";
  }
  if (code === "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING") {
    return "keep the mapping outside node_modules, or compile it to JavaScript";
  }
  const isCommonJs = /Unexpected token 'export'|import statement outside/.test(error.message);
  return isCommonJs
    ? 'name it .mts or .mjs, or put "type": "module" into its package.json'
    : undefined;
}

/** `mapping.ts:12`, of a syntax error or of the innermost frame that is in a file. */
function placeOf(error: Error): string | undefined {
  const [first = "", ...frames] = (error.stack ?? "").split("\n");
  const syntax = /([^/\\]+:\d+)$/.exec(first);
  if (error instanceof SyntaxError && syntax !== null) return syntax[1];
  for (const frame of frames) {
    const found = /^\s+at .*?file:.*?([^/\\]+:\d+):\d+\)?$/.exec(frame);
    if (found !== null) return found[1];
  }
  return undefined;
}
