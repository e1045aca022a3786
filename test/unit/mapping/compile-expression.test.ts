import { expect, test } from "vitest";
import { compileExpression } from "../../../src/intake/mapping/compile-expression.ts";

const event = { type: "t", source: "/x", subject: "contact/1", object: "contact", recordId: "1" };

/** A record whose field takes so long to read, ms; at the first reading only. */
function slowRecord(pass: (ms: number) => void, ms: number) {
  let isRead = false;
  return {
    get slow() {
      if (!isRead) pass(ms);
      isRead = true;
      return "x";
    },
  };
}

test("a machine that was suspended during an evaluation costs the record nothing", async () => {
  const standStill = (ms: number) =>
    void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  const expression = compileExpression('slow & "y"');
  expect(await expression.evaluate(slowRecord(standStill, 700), event)).toBe("xy");
});

test("an evaluation that is slow by itself fails", async () => {
  const compute = (ms: number) => {
    const before = process.threadCpuUsage();
    while (process.threadCpuUsage(before).user < ms * 1000);
  };
  const expression = compileExpression('slow & "y"');
  await expect(expression.evaluate(slowRecord(compute, 700), event)).rejects.toMatchObject({
    code: "D1012",
  });
});
