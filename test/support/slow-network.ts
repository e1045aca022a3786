/** A network between a process and a server: it delays every byte, and can keep all of them. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

export interface SlowNetwork extends AsyncDisposable {
  /** The address of the server, through this network. */
  readonly url: string;
  /** How long a byte takes in each direction, ms. */
  delayMs: number;
  /** From now on it accepts connections, and nothing passes until `release`. */
  hold(): void;
  release(): void;
  /** Ends all connections: what is on its way is lost. */
  cut(): void;
}

/** @param url of the server, as `redis://host:port`. */
export async function slowNetwork(url: string, delayMs = 0): Promise<SlowNetwork> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  let held = Promise.withResolvers<void>();
  held.resolve();

  function carry(from: Socket, to: Socket): void {
    // One after the other, so that no byte overtakes another when the delay is changed.
    let carried = Promise.resolve();
    const pass = (deliver: () => void) => {
      const arrivedAt = performance.now();
      carried = carried.then(async () => {
        await held.promise;
        const leftMs = arrivedAt + network.delayMs - performance.now();
        if (leftMs > 0) await delay(leftMs);
        if (!to.destroyed) deliver();
      });
    };
    from.on("data", (bytes) => pass(() => void to.write(bytes)));
    from.once("end", () => pass(() => void to.end()));
    from.on("error", () => {}); // "close" follows
    from.once("close", () => {
      sockets.delete(from);
      to.destroy();
    });
    sockets.add(from.setNoDelay(true));
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    const { hostname: host, port } = target;
    const upstream = connect({ host, port: Number(port), allowHalfOpen: true });
    carry(client, upstream);
    carry(upstream, client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const through = new URL(url);
  through.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const network: SlowNetwork = {
    url: through.href,
    delayMs,
    hold() {
      held = Promise.withResolvers<void>();
    },
    release: () => held.resolve(),
    cut() {
      for (const socket of sockets) socket.destroy();
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      network.cut();
      await closed;
    },
  };
  return network;
}
