/**
 * The thread in which mappings run: expressions and modules may loop, grow or backtrack without
 * end, and the thread can be ended. It takes one record at a time, and notes what it evaluates
 * where the other side can read it when no answer comes.
 */
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { compileMapping } from "./compile-mapping.ts";
import {
  WATCHED,
  type MapRequest,
  type MapWorkerData,
  type MapWorkerMessage,
} from "./map-protocol.ts";
import { mapRecord, type Watch } from "./map-record.ts";
import { MappingError, type MappingResult } from "./mapping.ts";
import { loadingFault } from "./module-fault.ts";
import { readMappingFile } from "./read-mapping-file.ts";
import type { MapRecord } from "./map-module.ts";
import { mapByModule } from "./record-mapping.ts";

type Run = (request: MapRequest, watch: Watch) => Promise<MappingResult>;

async function load(file: string): Promise<{
  run: Run;
  objects: readonly string[];
  reads: readonly string[];
}> {
  if (/\.[cm]?[jt]s$/.test(file)) {
    const module = (await import(pathToFileURL(file).href)) as {
      mapRecord?: MapRecord;
      reads?: readonly string[];
    };
    const { mapRecord: mapping } = module;
    if (typeof mapping !== "function") {
      throw new MappingError(file, [
        "it must export a function mapRecord(record, event) that returns { crmCode, fields }",
      ]);
    }
    return {
      run: ({ event, record, options }) => mapByModule(mapping, event, record, options),
      objects: [],
      reads: module.reads ?? [],
    };
  }
  const parsed = readMappingFile(readFileSync(file, "utf8"), file);
  const compiled = compileMapping(parsed);
  return {
    run: ({ event, record, options }, watch) => mapRecord(compiled, event, record, options, watch),
    objects: [...new Set(parsed.objects.flatMap(({ object }) => object))],
    reads: [...compiled.names],
  };
}

if (parentPort !== null) {
  const port = parentPort;
  const { file, watched } = workerData as MapWorkerData;
  const say = (message: MapWorkerMessage) => port.postMessage(message);
  const numbers = new Map(WATCHED.map((name, index) => [name, index]));
  const watch: Watch = (name) => void Atomics.store(watched, 0, numbers.get(name) ?? 0);
  try {
    const { run, ...about } = await load(file);
    port.on("message", (request: MapRequest) => {
      watch("");
      run(request, watch).then(
        (result) => say({ kind: "result", result }),
        (error: unknown) =>
          say({
            kind: "defect",
            stack: error instanceof Error ? (error.stack ?? "") : String(error),
          }),
      );
    });
    say({ kind: "ready", ...about });
  } catch (error) {
    const problems = error instanceof MappingError ? error.problems : [loadingFault(error)];
    say({ kind: "unusable", problems });
  }
}
