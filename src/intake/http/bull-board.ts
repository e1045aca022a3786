/** bull-board as a fastify plugin, without the parts that our content security policy forbids. */
import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { FastifyAdapter } from "@bull-board/fastify";
import type { FastifyInstance } from "fastify";

type Queue = ConstructorParameters<typeof BullMQAdapter>[0];

/** @param clean removes what must not be shown from a response of bull-board's API. */
export function createBoard(
  prefix: string,
  queues: readonly Queue[],
  clean: (body: unknown, queue: string | undefined) => unknown,
) {
  const serverAdapter = new FastifyAdapter();
  createBullBoard({
    queues: queues.map((queue) => new BullMQAdapter(queue, { readOnlyMode: true })),
    serverAdapter,
    options: { uiConfig: { boardTitle: "crmsync", hideDocsLink: true } },
  });
  serverAdapter.setBasePath(prefix);
  serverAdapter.setErrorHandler((error) => {
    const { says, status } = answerTo(error);
    // Its types know no 503.
    return { status: status as 500, body: { error: says } };
  });
  const plugin = serverAdapter.registerPlugin();
  return async (app: FastifyInstance): Promise<void> => {
    app.addHook("preSerialization", async ({ params }, _reply, body) =>
      clean(body, (params as { queueName?: string }).queueName),
    );
    app.addHook("onSend", async (_request, reply, payload) =>
      String(reply.getHeader("content-type")).startsWith("text/html") && typeof payload === "string"
        ? withoutInlineStyles(payload)
        : payload,
    );
    await app.register(plugin);
  };
}

function answerTo(error: Error & { readonly code?: string; readonly statusCode?: number }) {
  if (error.code === "FST_ERR_HANDLER_TIMEOUT") {
    return { status: 503, says: "The queues are not known: Redis did not answer in time." };
  }
  const { statusCode = 500 } = error;
  // An address outside of the page's files (dot segments) is refused by its static server.
  return statusCode >= 400 && statusCode < 500
    ? { status: 404, says: "there is nothing at this address" }
    : { status: 500, says: "internal error" };
}

const withoutInlineStyles = (html: string): string =>
  html
    .replaceAll(/<link [^>]*fonts\.googleapis\.com[^>]*>/g, "")
    .replaceAll(/<style>.*?<\/style>/gs, "")
    .replaceAll(/ style="[^"]*"/g, "");
