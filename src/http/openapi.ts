/** GET /openapi.json: what may be sent to the daemon, for whoever writes a producer. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { crmEventSchema } from "../event/crm-event.ts";

export function serveOpenApi(
  app: FastifyInstance,
  version: string,
  webhooks: readonly string[],
): void {
  const document = openApiDocument(version, webhooks);
  app.get("/openapi.json", async () => document);
}

const json = (schema: unknown) => ({ "application/json": { schema } });
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const answer = (description: string, schema?: unknown) =>
  schema === undefined ? { description } : { description, content: json(schema) };

const UNAVAILABLE = {
  ...answer("Events cannot be kept now; none was taken.", ref("Error")),
  headers: { "Retry-After": { schema: { type: "integer" }, description: "seconds" } },
};

const problem = z.object({
  index: z.int().optional().describe("Position in the batch, from 0."),
  field: z.string(),
  rule: z.string(),
  kind: z.string().describe("Of which kind the value was; never the value."),
});

const schemaOf = (schema: z.ZodType): unknown => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return rest;
};

function openApiDocument(version: string, webhooks: readonly string[]) {
  return {
    openapi: "3.1.0",
    info: {
      title: "crmsync",
      version,
      description: "Takes changes of CRM records as CloudEvents 1.0.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    paths: { "/events": eventsPath(), "/webhooks/{crm}": webhooksPath(webhooks), ...healthPaths() },
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "INGEST_TOKEN" },
        signature: {
          type: "apiKey",
          in: "header",
          name: "webhook-signature",
          description: "Standard Webhooks, with webhook-id and webhook-timestamp; INGEST_SECRET.",
        },
      },
      schemas: {
        Event: schemaOf(crmEventSchema),
        Taken: schemaOf(z.object({ accepted: z.int(), duplicates: z.int() })),
        Error: schemaOf(z.object({ error: z.string(), problems: z.array(problem).optional() })),
      },
    },
  };
}

function eventsPath() {
  return {
    post: {
      operationId: "sendEvents",
      summary: "One event or a batch; all are kept, or none.",
      description: "In binary mode (ce-… headers) the body is the event's data.",
      security: [{ bearer: [] }, { signature: [] }],
      requestBody: {
        required: true,
        content: {
          "application/cloudevents+json": { schema: ref("Event") },
          "application/cloudevents-batch+json": { schema: { type: "array", items: ref("Event") } },
          "application/json": { schema: {} },
        },
      },
      responses: {
        "202": answer("Kept.", ref("Taken")),
        "400": answer("Problems; none was taken.", ref("Error")),
        "401": answer("No right to send.", ref("Error")),
        "409": answer("This very signed request was taken before.", ref("Error")),
        "413": answer("Larger than 1 MiB.", ref("Error")),
        "415": answer("Another content type.", ref("Error")),
        "503": UNAVAILABLE,
      },
    },
  };
}

function webhooksPath(webhooks: readonly string[]) {
  const crm = { name: "crm", in: "path", required: true, schema: { enum: webhooks } };
  return {
    post: {
      operationId: "receiveWebhook",
      summary: "A CRM's own webhook, checked as that CRM signs.",
      parameters: [crm],
      requestBody: { required: true, content: { "*/*": { schema: {} } } },
      responses: {
        "200": answer("Kept; the body is what the CRM expects."),
        "400": answer("Not what this CRM sends.", ref("Error")),
        "401": answer("The signature or secret is missing or wrong.", ref("Error")),
        "409": answer("This very signed request was taken before.", ref("Error")),
        "503": UNAVAILABLE,
      },
    },
  };
}

function healthPaths() {
  const get = (operationId: string, summary: string, responses: Record<string, unknown>) => ({
    get: { operationId, summary, responses },
  });
  return {
    "/livez": get("live", "The process turns.", { "200": answer("It does.") }),
    "/readyz": get("ready", "Events can be taken.", {
      "200": answer("They can; the body says whether they are sent, and why not."),
      "503": answer("They cannot; the body says why."),
    }),
    "/metrics": get("metrics", "For Prometheus.", { "200": answer("Text.") }),
    "/status": get("status", "What `crmsync status --json` prints.", { "200": answer("JSON.") }),
  };
}
