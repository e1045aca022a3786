/** An address whose connections lead to one server, and later to another: as after a failover. */
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface TcpSwitch extends AsyncDisposable {
  /** That of the server, with the address of the switch. */
  readonly url: string;
  /** Ends all connections; the next ones lead to this server. */
  moveTo(url: string): void;
  /** Only new connections lead to this server: as when a provider moves a name or an address. */
  moveNewTo(url: string): void;
}

export async function tcpSwitch(url: string): Promise<TcpSwitch> {
  let target = new URL(url);
  const sockets = new Set<Socket>();
  const join = (one: Socket, other: Socket) => {
    sockets.add(one.setNoDelay(true));
    one.pipe(other);
    one.on("error", () => {}); // "close" follows
    one.once("close", () => {
      sockets.delete(one);
      other.destroy();
    });
  };
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    join(client, upstream);
    join(upstream, client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const through = new URL(url);
  through.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: through.href,
    moveTo(other) {
      target = new URL(other);
      endAll();
    },
    moveNewTo(other) {
      target = new URL(other);
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      endAll();
      await closed;
    },
  };
}
