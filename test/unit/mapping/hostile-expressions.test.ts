/**
 * What expressions cannot do, on the JSONata that is installed: reach secrets, files or code, change what all
 * objects share, or make the process hang or grow. Patterns that backtrack: isolated-mapping.test.ts.
 */
import { expect, test } from "vitest";
import { compileExpression } from "../../../src/intake/mapping/compile-expression.ts";
import { ExpressionError } from "../../../src/intake/mapping/expression-errors.ts";

const event = { recordId: "7", object: "contact", subject: "contact/7", type: "t", source: "/x" };
const record = {
  text: "Ada",
  number: 1e300,
  object: { a: 1 },
  list: [1, 2],
  long: "#".repeat(100_000),
  digits: "1".repeat(100_000),
};

const evaluate = async (text: string): Promise<unknown> =>
  compileExpression(text).evaluate(record, event);

test.for([1100, 2000, 6000])(
  "%i texts joined by & are rejected, and the mapping says why",
  (count) => {
    const text = Array.from({ length: count }, () => "text").join(" & ");
    expect(() => compileExpression(text)).toThrow(ExpressionError);
  },
);

test("a thousand branches of a condition are not too deep", async () => {
  const branches = Array.from({ length: 990 }, (_, n) => `text = "${n}" ? ${n}`);
  const text = `text = "Ada" ? "first" : ${branches.join(" : ")} : "none"`;
  expect(await evaluate(text)).toBe("first");
});

test.for([
  "$eval('process')",
  "($f := $eval; $f('1'))",
  "$now()",
  "$random()",
  "$process.env",
  '$require("fs")',
  '$import("node:fs")',
  "$globalThis",
  "$constructor",
  "$__proto__",
  "$toString",
  "$valueOf",
  "$event.constructor",
  "$event.toString",
])("%s cannot be used, and the mapping says why", (text) => {
  expect(() => compileExpression(text)).toThrow(
    /^(?:\$\w+ is not allowed: (?:it|the) |there is no \$|\$event has no )/,
  );
});

test.for([
  "process.env",
  "constructor",
  "`__proto__`",
  "object.constructor",
  "object.`__proto__`.toString",
  "object.hasOwnProperty",
  "text.constructor",
  "list.constructor",
  "list.map",
  "$.constructor.constructor",
  "$$.`__proto__`",
  "$string.constructor",
  "$uppercase.implementation",
  "$uppercase.`_jsonata_function`",
  "(function($x) { $x }).constructor",
  "(function($x) { $x }).environment",
  "/a/.constructor",
  '$match("a", /a/).constructor',
  '$lookup(object, "constructor")',
  '$lookup($string, "implementation")',
  "$clone(object).constructor",
  "$keys($string)",
  '$.constructor.constructor("return process")()',
  "text.constructor.fromCharCode(65)",
])("%s finds nothing", async (text) => {
  expect(await evaluate(text)).toBeUndefined();
});

test.for([
  '$sum.constructor("return 1")()',
  "$each($string, function($v) { $v })",
  "$sift($string, function($v) { true })",
  "$merge($string)",
  "$spread($string)",
])("%s fails on the record", async (text) => {
  await expect(evaluate(text)).rejects.toThrow();
});

test.for([
  '{"__proto__": {"polluted": true}}',
  '$merge([object, {"__proto__": {"polluted": true}}])',
  'object ~> |$|{"__proto__": {"polluted": true}, "constructor": {"prototype": {"polluted": true}}}|',
  '$each({"__proto__": {"polluted": true}}, function($v, $k) { {$k: $v} })',
  '$sift({"__proto__": {"polluted": true}}, function($v) { true })',
])("%s changes no other object", async (text) => {
  await evaluate(text);
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  expect((record.object as { polluted?: boolean }).polluted).toBeUndefined();
});

/** Most ms of the processor; JSONata's own limit is 500 ms. */
const MOST_MS = 1500;

test.for([
  "$pad(text, 1000000000)",
  "$pad(text, -500000000, 'ab')",
  "$pad(text, number)",
  "$length($pad(text, 400000000))",
  '$reduce([1..40], function($s) { $s & $s }, "0123456789")',
  '$uppercase($reduce([1..24], function($s) { $s & $s }, "0123456789"))',
  "($f := function($n) { $f($n + 1) }; $f(1))",
  "[1..100000000]",
  '$join([1..99999].("0123456789" & $))',
  "$replace(long, /#/, long)",
  "$join($split(long, ''), long)",
  '$formatNumber(number, "#,##0.00")',
  "$formatNumber(1, long)",
  '$formatNumber(1, "0." & $replace(long, /#/, "0"))',
  '$formatInteger(number, "w")',
  '$formatInteger(number, "I")',
  '$formatInteger(1000000000, "I")',
  '$formatInteger(number, "a")',
  "$formatInteger(1, long)",
  "$formatBase(number, 2)",
  "$round(1.5, number)",
  "$power(number, number)",
  "$number(digits)",
  '$parseInteger(digits, "w")',
  '$parseInteger(digits, "#,##0")',
  "$fromMillis(number)",
  '$fromMillis(1, "[Y" & digits & "]")',
  '$fromMillis(1, "[Y1," & digits & "-" & digits & "]")',
  '$toMillis(long, "[Y]-[M]-[D]")',
  '$toMillis(digits, "[Y]")',
  '$split(text, "", number)',
  "$substring(text, -number, number)",
  "$base64decode(long)",
])("%s ends soon, with a result of a usual size or an error", async (text) => {
  const before = process.threadCpuUsage();
  const result = await evaluate(text).catch((error: unknown) => error);
  const { user } = process.threadCpuUsage(before);
  expect(user / 1000).toBeLessThan(MOST_MS);
  if (typeof result === "string") expect(result.length).toBeLessThan(2_000_000);
});

test.for([
  ["$pad(text, 5)", "Ada  "],
  ["$pad(text, -5)", "  Ada"],
  ["$pad(text, -5, '0')", "00Ada"],
  ["$pad(text, 8, '-+')", "Ada-+-+-"],
  ["$pad(text, 2)", "Ada"],
  ["$pad(text, 5.9, '')", "Ada  "],
  ['"ü" ~> $pad(3, "👍")', "ü👍👍"],
  ["$pad(nothing, 5)", undefined],
  ['nothing & "-" & text & (text & "!")', "-AdaAda!"],
  ['list.($ & "x")', ["1x", "2x"]],
] as const)("%s", async ([text, expected]) => {
  expect(await evaluate(text)).toEqual(expected);
});

test("right of ~> stands a function, not a text", async () => {
  await expect(evaluate('text ~> $join("x") & text')).rejects.toMatchObject({ code: "T2006" });
});
