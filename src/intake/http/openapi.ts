/** GET /openapi.json: the daemon's HTTP API, for authors of senders. */
import { readFile } from "node:fs/promises";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { crmEventSchema } from "../../core/event/crm-event.ts";

export function serveOpenApi(
  app: FastifyInstance,
  version: string,
  webhooks: readonly string[],
  jsonWebhooks: readonly string[],
): void {
  /** openapi.yaml, with what this process knows. */
  async function readDocument(): Promise<unknown> {
    // Loaded only when it is needed: few daemons are asked for this.
    const { parseDocument } = await import("yaml");
    const document = parseDocument(
      await readFile(new URL("./openapi.yaml", import.meta.url), "utf8"),
    );
    const { $schema: _, ...event } = z.toJSONSchema(crmEventSchema, {
      io: "input",
      unrepresentable: "any",
    });
    document.setIn(["info", "version"], version);
    document.setIn(["components", "schemas", "Event"], event);
    document.setIn(namesIn("/webhooks/{crm}"), webhooks);
    if (jsonWebhooks.length > 0) document.setIn(namesIn(JSON_WEBHOOKS), jsonWebhooks);
    else document.deleteIn(["paths", JSON_WEBHOOKS]);
    return document.toJS();
  }

  let document: Promise<unknown> | undefined;
  app.get("/openapi.json", () => (document ??= readDocument()));
}

const JSON_WEBHOOKS = "/webhooks/json/{name}";

/** Where the names of webhooks stand. */
const namesIn = (path: string) => ["paths", path, "post", "parameters", 0, "schema", "enum"];
