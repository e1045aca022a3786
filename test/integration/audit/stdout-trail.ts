// Writes an audit trail to its stdout, a file that may not grow at first. Once a line cannot be
// written, it may: as on a disk that is full until somebody frees it.
import { execFileSync } from "node:child_process";
import { LineHashes } from "../../../src/people/audit/line.ts";
import { StdoutSink } from "../../../src/people/audit/stdout-sink.ts";
import { AuditTrail } from "../../../src/people/audit/trail.ts";

const trail = new AuditTrail({
  sink: new StdoutSink(),
  hashes: new LineHashes([]),
  onHead() {},
  onFailure(error) {
    process.stderr.write(`${error?.message ?? "recovered"}\n`);
    if (error) execFileSync("prlimit", ["--pid", String(process.pid), "--fsize=unlimited"]);
  },
});
const codes = Array.from({ length: 8 }, (_, n) => `code-${n}`);
await Promise.all(codes.map((crmCode) => trail.append({ act: "change", crmCode })));
await trail.close();
