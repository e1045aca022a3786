import { stripVTControlCharacters } from "node:util";
import { expect, it } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { textOf } from "../../../src/base/log-text.ts";

it("a line for people has the time, the level, the sentence, the fields, and an error with its stack", () => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(stripVTControlCharacters(textOf(line)));
  const log = createLog("info", { destination: { write } });
  log.info({ url: "http://127.0.0.1:8080" }, "daemon.started");
  log.error({ err: new TypeError("no such thing", { cause: new Error("why") }) }, "sandbox.defect");
  expect(lines[0]).toMatch(
    /^\[\d\d:\d\d:\d\d\] INFO: \S.*\. \{"event":"daemon\.started","url":"http:\/\/127\.0\.0\.1:8080"\}\n$/,
  );
  expect(lines[1]).toMatch(
    /^\[\d\d:\d\d:\d\d\] ERROR: .* \{"event":"sandbox\.defect"\}\n {4}TypeError: no such thing \{"cause":"why"\}\n {6}at /,
  );
});
