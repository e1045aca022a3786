import { createServer } from "node:net";

/** Resolves with `port`, or any free port for 0; undefined if something listens on it. */
export async function freePort(port = 0): Promise<number | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen(port, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" ? address?.port : undefined));
    });
  });
}
