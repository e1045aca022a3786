/**
 * The network between crmsync and the service, which sees every request, forwards every byte and
 * every abrupt end as it came, and can be slow or away.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { RequestReader } from "./request-reader.ts";

export interface Sighting {
  requests: number;
  writes: number;
  /** Answers 429 that no storm has brought: we sent too much. */
  own429: number;
  /** Writes that began while another one of the same record was under way. */
  overlaps: number;
}

/** Header by which the answer of an injected storm is known. */
export const STORM_HEADER = "x-storm";

export class Witness {
  readonly seen: Sighting = { requests: 0, writes: 0, own429: 0, overlaps: 0 };
  /** How long a request lies on the way, ms; it arrives even if its sender has gone meanwhile. */
  lateness: () => number = () => 0;
  readonly #upstreamPort: number;
  readonly #orphanMs: number;
  #server: Server | undefined;
  #port = 0;
  readonly #sockets = new Set<Socket>();
  readonly #underWay = new Map<string, number>();

  /** @param orphanMs how long a request without a sender may still be answered, ms. */
  constructor(upstreamPort: number, orphanMs: number) {
    this.#upstreamPort = upstreamPort;
    this.#orphanMs = orphanMs;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<void> {
    const server = createServer({ allowHalfOpen: false }, (client) => this.#carry(client));
    await new Promise<void>((resolve) => {
      server.listen(this.#port, "127.0.0.1", resolve);
    });
    const address = server.address();
    if (typeof address === "object" && address !== null) this.#port = address.port;
    this.#server = server;
  }

  /** From now on connections are refused; those that are open are reset. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = new Promise((resolve) => {
      server.close(resolve);
    });
    for (const socket of this.#sockets) socket.resetAndDestroy();
    await closed;
  }

  #carry(client: Socket): void {
    const upstream = connect({ port: this.#upstreamPort, host: "127.0.0.1" });
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {}); // its close tells
      socket.once("close", () => this.#sockets.delete(socket));
    }
    let ended = () => {};
    let delivery = Promise.resolve();
    const reader = new RequestReader(({ bytes, body }) => {
      ended = this.#begin(body);
      const lateMs = this.lateness();
      delivery = delivery.then(async () => {
        if (lateMs > 0) await delay(lateMs);
        upstream.write(bytes);
      });
    });
    client.on("data", (bytes: Buffer) => reader.read(bytes));
    upstream.on("data", (bytes: Buffer) => {
      const head = bytes.toString("latin1", 0, 1024).toLowerCase();
      if (head.startsWith("http/1.1 429") && !head.includes(STORM_HEADER)) this.seen.own429 += 1;
      ended();
      client.write(bytes);
    });
    client.once("close", () => {
      // What is on its way arrives, and the service learns late that nobody listens any more.
      void delivery.then(() => setTimeout(() => upstream.destroy(), this.#orphanMs).unref());
    });
    upstream.once("close", (failed) => {
      ended();
      if (failed) client.resetAndDestroy();
      else client.end();
    });
  }

  /** @returns what ends the request; a write is under way until then. */
  #begin(body: string): () => void {
    this.seen.requests += 1;
    if (body === "") return () => {};
    this.seen.writes += 1;
    const { crmCode } = JSON.parse(body) as { crmCode: string };
    const others = this.#underWay.get(crmCode) ?? 0;
    if (others > 0) this.seen.overlaps += 1;
    this.#underWay.set(crmCode, others + 1);
    let over = false;
    return () => {
      if (over) return;
      over = true;
      this.#underWay.set(crmCode, (this.#underWay.get(crmCode) ?? 1) - 1);
    };
  }
}
