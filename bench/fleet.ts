/** Several spending processes, started, told and ended by their parent. */
import { fork, type ChildProcess } from "node:child_process";
import type { Command, Message, Orders } from "./spender.ts";

const SPENDER = new URL("spender.ts", import.meta.url);

export interface Spender {
  readonly pid: number;
  tell(command: Command): void;
  /** As a crash would, at once. */
  kill(): Promise<void>;
  /** Ends it in good order; what it waited for each permit, and the CPU time it took. */
  stop(): Promise<{ readonly waits: readonly number[]; readonly cpuMs: number }>;
}

export async function startSpender(
  orders: Orders,
  hear: (message: Message) => void = () => {},
  program: URL = SPENDER,
): Promise<Spender> {
  const child = fork(program, { env: { ...process.env, SPENDER: JSON.stringify(orders) } });
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
  });
  child.on("message", hear);
  await heard(child, (message) => "ready" in message);
  return {
    pid: child.pid ?? Number.NaN,
    tell: (command) => void child.send(command),
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    async stop() {
      const report = heard(child, (message) => "waits" in message);
      child.send({ stop: true } satisfies Command);
      const { waits, cpuMs } = (await report) as Message & { waits: number[]; cpuMs: number };
      await ended;
      return { waits, cpuMs };
    },
  };
}

function heard(child: ChildProcess, wanted: (message: Message) => boolean): Promise<Message> {
  return new Promise((resolve, reject) => {
    child.on("message", (message: Message) => {
      if (wanted(message)) resolve(message);
    });
    child.once("exit", () => reject(new Error("a spender ended before it answered")));
  });
}

/** Starts some spenders with the same orders; `each` may change them one by one. */
export function startFleet(
  count: number,
  orders: Orders,
  hear?: (message: Message) => void,
  each: (index: number) => Partial<Orders> = () => ({}),
): Promise<Spender[]> {
  return Promise.all(
    Array.from({ length: count }, (_, i) => startSpender({ ...orders, ...each(i) }, hear)),
  );
}
