/** Exits with 0 when the daemon takes events; for Docker's health check. */
const port = process.env.HTTP_PORT ?? "8080";
const answer = await fetch(`http://127.0.0.1:${port}/readyz`, {
  signal: AbortSignal.timeout(4000),
}).catch((error) => ({ ok: false, text: () => String(error.cause?.code ?? error.message) }));
if (!answer.ok) {
  process.stderr.write(`${await answer.text()}\n`);
  process.exitCode = 1;
}
