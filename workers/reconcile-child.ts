/** Runs one reconciliation in a process of its own (reconcile-run.ts). */
import { fork } from "node:child_process";
import { setPriority } from "node:os";
import type { RunResult } from "../src/whole/reconcile/unattended-run.ts";
import type { RunMessage, RunRequest } from "./reconcile-run.ts";

const PROGRAM = new URL(
  import.meta.url.endsWith(".ts") ? "./reconcile-run.ts" : "./reconcile-run.js",
  import.meta.url,
);

/** Takes about a third of the processor while a daemon wants all of it. */
const NICE = 5;

/** Most characters that are kept of what the process wrote before it died. */
const MOST_KEPT = 500;

/** `died`: it ended without an answer. */
export type ChildResult = RunResult | { readonly result: "died"; readonly error: string };

/**
 * @param signal kills it; what it has done is continued by the next run
 * @param onMessage called for all that it tells but its result
 */
export async function runInChild(
  request: RunRequest,
  signal: AbortSignal,
  onMessage: (message: Exclude<RunMessage, { kind: "ended" }>) => void,
): Promise<ChildResult> {
  const child = fork(PROGRAM, {
    execArgv: [],
    stdio: ["ignore", "ignore", "pipe", "ipc"],
  });
  const ended = Promise.withResolvers<ChildResult>();
  let written = "";
  let answer: RunResult | undefined;
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    written = (written + text).slice(-MOST_KEPT);
  });
  child.on("message", (message: RunMessage) => {
    if (message.kind === "ended") answer = message.result;
    else onMessage(message);
  });
  child.on("error", (error) => ended.resolve({ result: "died", error: error.message }));
  child.on("close", (code, by) => {
    const how = by === null ? `with ${code}` : `by ${by}`;
    const error = `its process ended ${how} ${written.trim()}`.trim();
    ended.resolve(answer ?? { result: "died", error });
  });
  const kill = () => child.kill("SIGKILL");
  signal.addEventListener("abort", kill);
  if (signal.aborted) kill();
  try {
    child.send(request, () => {});
    yieldProcessor(child.pid);
    return await ended.promise;
  } finally {
    signal.removeEventListener("abort", kill);
  }
}

/** Live changes go first, also on the processor. Where that is forbidden, it runs like others. */
export function yieldProcessor(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    setPriority(pid, NICE);
  } catch {}
}
