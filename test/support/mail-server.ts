/** A real SMTP server on this machine, which keeps what it takes. */
import { text } from "node:stream/consumers";
import type { AddressInfo } from "node:net";
import type { Readable } from "node:stream";
import { SMTPServer, type SMTPServerSession } from "smtp-server";

export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** As it came, and with its text decoded. */
  readonly raw: string;
  readonly text: string;
  readonly csv: string;
  readonly isEncrypted: boolean;
  readonly user: string | undefined;
}

export interface MailServer extends AsyncDisposable {
  readonly port: number;
  readonly received: readonly ReceivedMail[];
  /** Recipients → the status with which they are refused. */
  readonly refused: Map<string, number>;
}

/** @param tls its certificate; without one it offers no TLS @param login user and password that it asks for */
export async function startMailServer(
  tls?: { readonly cert: string; readonly key: string },
  login?: { readonly user: string; readonly pass: string },
): Promise<MailServer> {
  const received: ReceivedMail[] = [];
  const refused = new Map<string, number>();
  const refusal = (status: number) =>
    Object.assign(new Error("<somebody@firm.example> is refused"), { responseCode: status });
  async function keep(stream: Readable, { envelope, secure, user }: SMTPServerSession) {
    const raw = await text(stream);
    received.push({
      from: envelope.mailFrom === false ? "" : envelope.mailFrom.address,
      to: envelope.rcptTo.map(({ address }) => address),
      raw,
      text: partOf(raw, "text/plain"),
      csv: partOf(raw, "text/csv"),
      isEncrypted: secure,
      user: user as string | undefined,
    });
  }
  const server = new SMTPServer({
    ...tls,
    authOptional: login === undefined,
    disabledCommands: tls === undefined ? ["STARTTLS"] : [],
    onAuth({ password, username }, _session, done) {
      if (username === login?.user && password === login?.pass) done(null, { user: username });
      else done(refusal(535));
    },
    onRcptTo({ address }, _session, done) {
      const status = refused.get(address);
      done(status === undefined ? null : refusal(status));
    },
    onData(stream, session, done) {
      void keep(stream, session).finally(done);
    },
  });
  server.on("error", () => {});
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.server.address() as AddressInfo).port,
    received,
    refused,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** A part of a mail by its type, decoded; "": it has none. */
function partOf(raw: string, type: string): string {
  const boundary = /boundary="([^"]+)"/.exec(raw)?.[1];
  const parts = boundary === undefined ? [raw] : raw.split(`--${boundary}`).slice(1);
  const part = parts.find((one) => one.includes(`Content-Type: ${type}`)) ?? "";
  const [head = "", ...rest] = part.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  if (/^Content-Transfer-Encoding: base64/im.test(head)) {
    return Buffer.from(body, "base64").toString("utf8");
  }
  if (!/^Content-Transfer-Encoding: quoted-printable/im.test(head)) return body;
  const bytes = body
    .replaceAll("=\r\n", "")
    .replaceAll(/=([\dA-F]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
  return Buffer.from(bytes, "latin1").toString("utf8");
}
