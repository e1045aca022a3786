/** GET /openapi.json: the daemon's HTTP API, for authors of senders. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { crmEventSchema } from "../event/crm-event.ts";

export function serveOpenApi(
  app: FastifyInstance,
  version: string,
  webhooks: readonly string[],
  jsonWebhooks: readonly string[],
): void {
  const document = openApiDocument(version, webhooks, jsonWebhooks);
  app.get("/openapi.json", async () => document);
}

const json = (schema: unknown) => ({ "application/json": { schema } });
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const response = (description: string, schema?: unknown) =>
  schema === undefined ? { description } : { description, content: json(schema) };

const UNAVAILABLE = {
  ...response(
    "Events cannot be stored now, or too many bodies arrive at once. Send all of them again: none counts twice.",
    ref("Error"),
  ),
  headers: { "Retry-After": { schema: { type: "integer" }, description: "seconds" } },
};

const TOO_FAST = {
  ...UNAVAILABLE,
  description: "Too many requests of this sender; send more events in one request.",
};

const ENCODED = "The content type is not supported, or the body is compressed.";

const problem = z.object({
  index: z.int().optional().describe("Position in the batch, from 0."),
  field: z.string(),
  rule: z.string(),
  kind: z.string().describe("The kind of the value found; never the value itself."),
});

const schemaOf = (schema: z.ZodType): unknown => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" });
  return rest;
};

function openApiDocument(
  version: string,
  webhooks: readonly string[],
  jsonWebhooks: readonly string[],
) {
  return {
    openapi: "3.1.0",
    info: {
      title: "crmsync",
      version,
      description: "Accepts changes of CRM records as CloudEvents 1.0.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    paths: {
      "/events": eventsPath(),
      "/webhooks/{crm}": webhooksPath(webhooks),
      ...(jsonWebhooks.length > 0 && { "/webhooks/json/{name}": jsonWebhooksPath(jsonWebhooks) }),
      ...healthPaths(),
    },
    components: {
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "INGEST_TOKEN" },
        viewer: { type: "http", scheme: "bearer", description: "VIEWER_TOKEN or OPERATOR_TOKEN" },
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
        Error: schemaOf(
          z.object({
            error: z.string(),
            problems: z.array(problem).optional(),
            problemCount: z
              .int()
              .optional()
              .describe("How many problems there are; at most 50 are listed."),
          }),
        ),
      },
    },
  };
}

function eventsPath() {
  return {
    post: {
      operationId: "sendEvents",
      summary: "Send one event or a batch; all events are stored, or none.",
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
        "202": response("All events are stored.", ref("Taken")),
        "400": response("The events have problems; none was stored.", ref("Error")),
        "401": response("The token or signature is missing or wrong.", ref("Error")),
        "409": response("This signed request was accepted before.", ref("Error")),
        "413": response("The body is larger than 1 MiB.", ref("Error")),
        "415": response(ENCODED, ref("Error")),
        "429": TOO_FAST,
        "503": UNAVAILABLE,
      },
    },
  };
}

/** Of a webhook. */
const NOT_TAKEN = {
  "409": response("This signed request was accepted before.", ref("Error")),
  "413": response("The body is larger than 4 MiB.", ref("Error")),
  "415": response("The body is compressed.", ref("Error")),
  "429": TOO_FAST,
  "503": UNAVAILABLE,
};

function webhooksPath(webhooks: readonly string[]) {
  const crm = { name: "crm", in: "path", required: true, schema: { enum: webhooks } };
  return {
    post: {
      operationId: "receiveWebhook",
      summary: "Receive a CRM's own webhook, verified with that CRM's signature or secret.",
      parameters: [crm],
      requestBody: { required: true, content: { "*/*": { schema: {} } } },
      responses: {
        "200": response("All events are stored; the body is what the CRM expects."),
        "400": response("The body is not what this CRM sends.", ref("Error")),
        "401": response("The signature or secret is missing or wrong.", ref("Error")),
        ...NOT_TAKEN,
      },
    },
  };
}

function jsonWebhooksPath(names: readonly string[]) {
  return {
    post: {
      operationId: "receiveJson",
      summary: "Receive the JSON of any tool, as the mapping file describes it.",
      parameters: [{ name: "name", in: "path", required: true, schema: { enum: names } }],
      requestBody: { required: true, content: json({}) },
      responses: {
        "200": response("All events are stored.", ref("Taken")),
        "400": response(
          "Some events, or all, have problems and were not stored; the others are.",
          ref("Error"),
        ),
        "401": response("The credentials are missing or wrong.", ref("Error")),
        ...NOT_TAKEN,
      },
    },
  };
}

function healthPaths() {
  const get = (operationId: string, summary: string, responses: Record<string, unknown>) => ({
    get: { operationId, summary, responses },
  });
  const ops = (operationId: string, summary: string, description: string) => ({
    get: {
      operationId,
      summary: `${summary} On another port if OPS_PORT is set.`,
      // Without a token in the configuration, none is needed.
      security: [{ viewer: [] }, {}],
      responses: {
        "200": response(description),
        "401": response("A token is configured, and it is missing or wrong.", ref("Error")),
        "429": TOO_FAST,
      },
    },
  });
  const record = (operationId: string, place: string, name: string) => {
    const { get: shared } = ops(
      operationId,
      `What \`crmsync why --json\` prints, by ${name}.`,
      "JSON.",
    );
    const schema = { type: "string" };
    const responses = {
      ...shared.responses,
      "404": response("Nothing is known of it; `error` says what that means.", ref("Error")),
      "503": response("Redis does not answer.", ref("Error")),
    };
    const parameters = [{ name, in: place, required: true, schema }];
    return { get: { ...shared, parameters, responses } };
  };
  return {
    "/livez": get("live", "Whether the process runs.", { "200": response("It runs.") }),
    "/readyz": get("ready", "Whether events can be accepted.", {
      "200": response("They can; the body says whether changes are sent, and why not."),
      "503": response("They cannot; the body says why."),
    }),
    "/metrics": ops("metrics", "Metrics for Prometheus.", "Text."),
    "/status": ops("status", "What `crmsync status --json` prints.", "JSON."),
    "/records/{crmCode}": record("record", "path", "crmCode"),
    "/records": record("recordOfCrm", "query", "subject"),
  };
}
