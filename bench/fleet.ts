/** Starts and stops processes that spend permits (`spender.ts`, `baselines.ts`). */
import { fork, type ChildProcess } from "node:child_process";
import { isolatedEnv } from "../test/support/process.ts";
import type { Command, Message, Orders } from "./spender.ts";

const SPENDER = new URL("spender.ts", import.meta.url);

export interface Spender {
  readonly pid: number;
  send(command: Command): void;
  /** SIGKILL, as in a crash. */
  kill(): Promise<void>;
  /** Stops it in order; resolves with its waits for permits, ms, and its CPU time. */
  stop(): Promise<{ readonly waits: readonly number[]; readonly cpuMs: number }>;
}

export async function startSpender(
  orders: Orders,
  onMessage: (message: Message) => void = () => {},
  program: URL = SPENDER,
): Promise<Spender> {
  const child = fork(program, { env: isolatedEnv({ SPENDER: JSON.stringify(orders) }) });
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
  });
  child.on("message", onMessage);
  await firstMessage(child, (message) => "ready" in message);
  return {
    pid: child.pid ?? Number.NaN,
    send: (command) => void child.send(command),
    async kill() {
      child.kill("SIGKILL");
      await exited;
    },
    async stop() {
      const report = firstMessage(child, (message) => "waits" in message);
      child.send({ stop: true } satisfies Command);
      const { waits, cpuMs } = (await report) as Message & { waits: number[]; cpuMs: number };
      await exited;
      return { waits, cpuMs };
    },
  };
}

function firstMessage(
  child: ChildProcess,
  matches: (message: Message) => boolean,
): Promise<Message> {
  return new Promise((resolve, reject) => {
    child.on("message", (message: Message) => {
      if (matches(message)) resolve(message);
    });
    child.once("exit", () => reject(new Error("a spender exited before it answered")));
  });
}

/** Starts `count` spenders with the same orders; `each` may change them for one spender. */
export function startFleet(
  count: number,
  orders: Orders,
  onMessage?: (message: Message) => void,
  each: (index: number) => Partial<Orders> = () => ({}),
): Promise<Spender[]> {
  return Promise.all(
    Array.from({ length: count }, (_, i) => startSpender({ ...orders, ...each(i) }, onMessage)),
  );
}
