/** Error messages for mapping modules: what is wrong, where, and what to do. */

/** Describes the error that Node threw when it loaded the module. */
export function describeLoadError(error: unknown): string {
  if (!(error instanceof Error)) return `it cannot be loaded: it threw ${String(error)}`;
  const place = placeOf(error);
  const remedy = remedyOf(error);
  return `it cannot be loaded: ${place === undefined ? "" : `${place}: `}${error.message}${remedy === undefined ? "" : ` (${remedy})`}`;
}

/** Names what a function threw, and where. Leaves out the message, which may quote the record. */
export function nameOfThrown(error: unknown): string {
  if (!(error instanceof Error)) return "a value that is not an Error";
  const place = placeOf(error);
  return place === undefined ? error.name : `${error.name} at ${place}`;
}

function remedyOf(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") {
    return "Node only removes the types: use only syntax that JavaScript also has";
  }
  if (code === "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING") {
    return "keep the mapping outside node_modules, or compile it to JavaScript";
  }
  const isCommonJs = /Unexpected token 'export'|import statement outside/.test(error.message);
  return isCommonJs
    ? 'name it .mts or .mjs, or add "type": "module" to its package.json'
    : undefined;
}

/** File and line (`mapping.ts:12`) of a syntax error, or of the innermost stack frame in a file. */
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
