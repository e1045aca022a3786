/** A daemon of Type=notify, and what the journal gets: systemd's part is played by a datagram socket of Python. */
import { fstatSync, openSync, readFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { localSandbox } from "../../support/in-process.ts";
import { spawnCommand } from "../../support/process.ts";
import { requireTool } from "../../support/requirements.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { envFor } from "../../support/tenant-env.ts";
import { waitFor } from "../../support/wait-for.ts";

const NOTIFY = { commands: ["systemd-notify"], check: ["--version"], debianPackage: "systemd" };
const PYTHON = { commands: ["python3"], check: ["--version"], debianPackage: "python3" };

/** Prints each message. It closes the descriptor of BARRIER=1, for which systemd-notify waits. */
const RECEIVER = `
import array, os, socket, sys
heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
heard.bind(sys.argv[1])
print("listening", flush=True)
while True:
    said, extra, _, _ = heard.recvmsg(4096, 4096)
    for _, kind, data in extra:
        if kind == socket.SCM_RIGHTS:
            for fd in array.array("i", data): os.close(fd)
    print(said.decode(), flush=True)
`;

it("systemd hears that a daemon is ready, alive and ending, and nothing of one that is stopped", async (context) => {
  await requireTool(context, NOTIFY);
  const python = await requireTool(context, PYTHON);
  await using sandbox = await localSandbox();
  await using dir = await tempDir();
  const socket = join(dir.path, "notify");
  await using systemd = spawnCommand(python, ["-c", RECEIVER, socket]);
  await systemd.line(/^listening$/);
  const log = join(dir.path, "log");
  const stderr = openSync(log, "a");
  const { dev, ino } = fstatSync(stderr, { bigint: true });
  const env = {
    ...envFor(sandbox, { HTTP_PORT: "0", INGEST_AUTH: "none", DATA_DIR: dir.path }),
    PATH: process.env["PATH"] ?? "",
    // Node warns of it: that must be a line of the log, too.
    NODE_OPTIONS:
      "--experimental-import-meta-resolve --import data:text/javascript,process.nextTick(()=>setTimeout(()=>process.emitWarning('beware'),3000))",
    NOTIFY_SOCKET: socket,
    WATCHDOG_USEC: "3000000",
    JOURNAL_STREAM: `${dev}:${ino}`,
  };
  const daemon = spawn(process.execPath, ["src/cli/main.ts", "start"], {
    env,
    stdio: ["ignore", "ignore", stderr],
  });
  const ended = new Promise<number | null>((resolve) => daemon.once("exit", resolve));
  const heard = (state: string) => systemd.stdout.filter((line) => line === state).length;
  try {
    await waitFor(() => heard("READY=1") === 1, { what: "ready", deadlineMs: 60_000 });
    await waitFor(() => heard("WATCHDOG=1") >= 2, { what: "signs of life", deadlineMs: 30_000 });
    daemon.kill("SIGSTOP");
    await waitFor(() => /\bT\b/.test(stateOf(daemon.pid)), { what: "it is stopped" });
    const before = performance.now();
    // What was on its way has arrived after a second.
    await waitFor(() => performance.now() - before > 1000, { what: "a second" });
    const alive = heard("WATCHDOG=1");
    await waitFor(() => performance.now() - before > 4000, { what: "the time of systemd's dog" });
    expect(heard("WATCHDOG=1")).toBe(alive);
    daemon.kill("SIGCONT");
    daemon.kill("SIGTERM");
    expect(await ended).toBe(0);
    await waitFor(() => heard("STOPPING=1") === 1, { what: "ending" });
  } finally {
    daemon.kill("SIGKILL");
  }
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  expect(lines.length).toBeGreaterThan(3);
  expect(lines.filter((line) => line.includes("Warning: beware"))).toHaveLength(1);
  for (const line of lines) {
    expect(line).toMatch(/^<[2-7]>\{/);
    const { level } = JSON.parse(line.slice(3)) as { level: string };
    expect(line.startsWith(level === "warn" ? "<4>" : level === "info" ? "<6>" : "<")).toBe(true);
  }
});

const stateOf = (pid: number | undefined): string =>
  /^State:.*$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[0] ?? "";
