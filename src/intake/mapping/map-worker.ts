/**
 * The thread in which mappings run. Expressions and modules may loop, backtrack or use up memory,
 * and the daemon can then end the thread. It maps one record at a time, and writes to shared
 * memory which expression it evaluates, so that the daemon can name it.
 */
import { pathToFileURL } from "node:url";
import { parentPort, workerData } from "node:worker_threads";
import { NO_LISTS, type TenantLists } from "../../core/service-spec/tenant-lists.ts";
import { compileMapping } from "./compile-mapping.ts";
import { keepsOfFile, keepsOfModule, type KeepingModule } from "./keeps-of-mapping.ts";
import {
  WATCHED,
  type MapRequest,
  type MapWorkerData,
  type MapWorkerMessage,
  type NewLists,
  type ThreadRequest,
} from "./map-protocol.ts";
import type { Watch } from "./map-fields.ts";
import { allObjectsOf, goneRulesOf, idRulesOf, linksOf } from "./mapping-file.ts";
import { mapRecord } from "./map-record.ts";
import { MappingError, type MappingAbout, type MappingResult } from "./mapping.ts";
import { describeLoadError } from "./module-error.ts";
import { mappingText, readMappingFile, MODULE, whensIn } from "./read-mapping-file.ts";
import type { MapRecord } from "./map-module.ts";
import { mapByModule } from "./map-by-module.ts";
import { pullSources } from "./pull-rule.ts";
import { compileWebhooks, type CompiledWebhook } from "./webhooks/compile.ts";
import { translateChunk } from "./webhooks/translate-event.ts";

type Run = (request: MapRequest, lists: TenantLists, watch: Watch) => Promise<MappingResult>;

interface Loaded {
  readonly about: MappingAbout;
  readonly text: string | undefined;
  readonly run: Run;
  readonly webhooks: ReadonlyMap<string, CompiledWebhook>;
}

async function load({ file, text: known }: MapWorkerData): Promise<Loaded> {
  if (MODULE.test(file)) {
    const module = (await import(pathToFileURL(file).href)) as KeepingModule & {
      mapRecord?: MapRecord;
      reads?: readonly string[];
    };
    const { mapRecord: mapping, reads = [] } = module;
    if (typeof mapping !== "function") {
      throw new MappingError(file, [
        "it must export a function mapRecord(record, event) that returns { crmCode, fields }",
      ]);
    }
    if (!Array.isArray(reads)) {
      throw new MappingError(file, ["reads must be a list of the CRM's fields"]);
    }
    return {
      run: ({ event, record, options }, lists) =>
        mapByModule(mapping, event, record, { ...options, lists }, reads),
      about: { objects: [], reads: new Set(reads), keeps: keepsOfModule(module, file), whens: [] },
      text: undefined,
      webhooks: new Map(),
    };
  }
  const text = known ?? mappingText(file);
  const parsed = readMappingFile(text, file);
  const compiled = compileMapping(parsed);
  const objects = allObjectsOf(parsed);
  return {
    run: ({ event, record, options }, lists, watch) =>
      mapRecord(compiled, event, record, { ...options, lists }, watch),
    about: {
      objects,
      reads: compiled.names,
      sources: compiled.sources,
      gone: goneRulesOf(parsed),
      ids: idRulesOf(parsed),
      links: linksOf(parsed),
      relations: compiled.relations,
      keeps: keepsOfFile(parsed),
      whens: whensIn(parsed, text),
      pulls: pullSources(parsed.pull, objects),
    },
    text,
    webhooks: compileWebhooks(parsed),
  };
}

if (parentPort !== null) {
  const port = parentPort;
  const given = workerData as MapWorkerData;
  const send = (message: MapWorkerMessage) => port.postMessage(message);
  const numbers = new Map(WATCHED.map((name, index) => [name, index]));
  const watch: Watch = (name) => void Atomics.store(given.watched, 0, numbers.get(name) ?? 0);
  try {
    const { about, run, text, webhooks } = await load(given);
    let lists = NO_LISTS;
    const answer = async (request: ThreadRequest): Promise<MapWorkerMessage> => {
      if (request.kind === "map")
        return { kind: "result", result: await run(request, lists, watch) };
      const webhook = webhooks.get(request.webhook);
      if (webhook === undefined) throw new Error(`the mapping has no webhook ${request.webhook}`);
      const at = (index: number) => void Atomics.store(given.watched, 1, index);
      return { kind: "chunk", events: await translateChunk(webhook, request, watch, at) };
    };
    port.on("message", (request: ThreadRequest | NewLists) => {
      if (request.kind === "lists") {
        lists = request.lists;
        return;
      }
      watch("");
      answer(request)
        .then(send)
        .catch((error: unknown) =>
          send({
            kind: "defect",
            stack: error instanceof Error ? (error.stack ?? "") : String(error),
          }),
        );
    });
    send({ kind: "ready", about, text, webhooks: [...webhooks.values()].map((one) => one.about) });
  } catch (error) {
    const problems = error instanceof MappingError ? error.problems : [describeLoadError(error)];
    send({ kind: "unusable", problems });
  }
}
