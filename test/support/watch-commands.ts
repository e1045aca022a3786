/**
 * The commands that a Redis carries out, as MONITOR tells them. ioredis has this too, but it fails when
 * the first command arrives in one piece with the answer to MONITOR.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";

/** `+1795365820.874379 [0 127.0.0.1:49742] "hmget" "key"`; a script's commands come from `lua`. */
const LINE = /^\+[\d.]+ \[\d+ (\S+)\] (.*)$/;

export interface SeenCommand {
  /** In small letters. */
  readonly name: string;
  /** The command and its arguments as Redis prints them: each in quotation marks. */
  readonly text: string;
}

/** Calls back for each command of any client until it is disposed of; not for those of scripts. */
export async function watchCommands(
  url: string,
  onCommand: (command: SeenCommand) => void,
): Promise<Disposable> {
  const { hostname: host, port } = new URL(url);
  const socket = connect({ host, port: Number(port) });
  await once(socket, "connect");
  const lines = createInterface(socket);
  lines.on("line", (line) => {
    const [, source, text = ""] = LINE.exec(line) ?? [];
    if (source === undefined || source === "lua") return;
    onCommand({ name: /^"([^"]*)"/.exec(text)?.[1]?.toLowerCase() ?? "", text });
  });
  socket.write("MONITOR\r\n");
  await once(lines, "line"); // +OK
  return { [Symbol.dispose]: () => void socket.destroy() };
}
