/**
 * The network between crmsync and the service. It records every request, forwards every byte and
 * every connection reset, and can be slow or down.
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { ownPort } from "../support/own-port.ts";
import { RequestReader } from "./request-reader.ts";

export interface Recording {
  requests: number;
  writes: number;
  /** 429s that no injected storm has caused: we sent too many requests. */
  own429: number;
  /** Writes that began while another write of the same record was in flight. */
  overlaps: number;
}

/** Header that marks the 429s of an injected storm. */
export const STORM_HEADER = "x-storm";

export class RecordingProxy {
  readonly recording: Recording = { requests: 0, writes: 0, own429: 0, overlaps: 0 };
  /** Delay of a request, ms; it arrives even if its sender has closed the connection. */
  lateness: () => number = () => 0;
  readonly #upstreamPort: number;
  readonly #orphanMs: number;
  readonly #holdMs: number;
  #server: Server | undefined;
  #port = 0;
  readonly #sockets = new Set<Socket>();
  readonly #inFlight = new Map<string, number>();

  /**
   * @param orphanMs how long the service may still answer after the sender has gone, ms
   * @param holdMs how long a process holds the record that it sends, ms. A write without a response
   *   counts as over by then: the service has committed it or never will, but a frozen sender
   *   cannot close its connection.
   */
  constructor(upstreamPort: number, orphanMs: number, holdMs: number) {
    this.#upstreamPort = upstreamPort;
    this.#orphanMs = orphanMs;
    this.#holdMs = holdMs;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async open(): Promise<void> {
    this.#port ||= await ownPort();
    const server = createServer({ allowHalfOpen: false }, (client) => this.#forward(client));
    await new Promise<void>((resolve) => {
      server.listen(this.#port, "127.0.0.1", resolve);
    });
    this.#server = server;
  }

  /** Refuses new connections and resets the open ones. */
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

  #forward(client: Socket): void {
    const upstream = connect({ port: this.#upstreamPort, host: "127.0.0.1" });
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {}); // "close" follows
      socket.once("close", () => this.#sockets.delete(socket));
    }
    let ended = () => {};
    let delivery = Promise.resolve();
    const reader = new RequestReader(({ bytes, body }) => {
      // The service has closed the connection, and its client does not know yet: this never arrives.
      if (upstream.destroyed) return;
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
      if (head.startsWith("http/1.1 429") && !head.includes(STORM_HEADER))
        this.recording.own429 += 1;
      ended();
      client.write(bytes);
    });
    client.once("close", () => {
      // Delayed requests still arrive; the service sees the closed connection later.
      void delivery.then(() => setTimeout(() => upstream.destroy(), this.#orphanMs).unref());
    });
    upstream.once("close", (failed) => {
      ended();
      if (failed) client.resetAndDestroy();
      else client.end();
    });
  }

  /** @returns a function that ends the request; a write is in flight until then */
  #begin(body: string): () => void {
    this.recording.requests += 1;
    if (body === "") return () => {};
    this.recording.writes += 1;
    const { crmCode } = JSON.parse(body) as { crmCode: string };
    const others = this.#inFlight.get(crmCode) ?? 0;
    if (others > 0) this.recording.overlaps += 1;
    this.#inFlight.set(crmCode, others + 1);
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      clearTimeout(holdEnd);
      this.#inFlight.set(crmCode, (this.#inFlight.get(crmCode) ?? 1) - 1);
    };
    const holdEnd = setTimeout(end, this.#holdMs).unref();
    return end;
  }
}
