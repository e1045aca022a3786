/** Docker's health check: exits with 0 when the daemon accepts events. */
// An empty variable counts as none, as for the daemon.
const port = process.env.HTTP_PORT || "8080";
const response = await fetch(`http://127.0.0.1:${port}/readyz`, {
  signal: AbortSignal.timeout(4000),
}).catch((error) => ({ ok: false, text: () => String(error.cause?.code ?? error.message) }));
if (!response.ok) {
  process.stderr.write(`${await response.text()}\n`);
  process.exitCode = 1;
}
