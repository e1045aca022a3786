/** Sends bytes to a server and reads the status of the first response. */
import { connect } from "node:net";

/** `closed`: the server ended the connection without a response, as it may for what is not HTTP. */
export type Answer = number | "closed" | "none";

/** Ends its own side after the bytes; `none` if the server neither responds nor closes in time. */
export function send(port: number, bytes: Buffer, deadlineMs: number): Promise<Answer> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" });
    let head = "";
    const end = (answer: Answer) => {
      clearTimeout(late);
      socket.destroy();
      resolve(answer);
    };
    const late = setTimeout(() => end("none"), deadlineMs);
    socket.on("connect", () => socket.end(bytes));
    socket.on("data", (chunk: Buffer) => {
      head += chunk.toString("latin1", 0, 32);
      const status = /^HTTP\/1\.\d (\d{3})/.exec(head)?.[1];
      if (status !== undefined) end(Number(status));
    });
    socket.on("close", () => end("closed"));
    socket.on("error", () => end("closed"));
  });
}
