/** bull-board as a fastify plugin: its page without the parts that a strict policy forbids. */
import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { FastifyAdapter } from "@bull-board/fastify";
import type { FastifyInstance } from "fastify";

type Queue = ConstructorParameters<typeof BullMQAdapter>[0];

/** @param clean what an answer of its API may say; it is told which queue it is about. */
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
  serverAdapter.setErrorHandler(() => ({ status: 500, body: { error: "internal error" } }));
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

const withoutInlineStyles = (html: string): string =>
  html
    .replaceAll(/<link [^>]*fonts\.googleapis\.com[^>]*>/g, "")
    .replaceAll(/<style>.*?<\/style>/gs, "")
    .replaceAll(/ style="[^"]*"/g, "");
