/** Mails each owner's flaws, and the numbers of all to compliance, by SMTP: plain text, and the list as CSV; no values of persons. */
import { createTransport, type NodemailerError } from "nodemailer";
import { mailAddress, type Config } from "../base/config.ts";
import { within } from "../base/deadline.ts";
import { isLoopback } from "../base/loopback.ts";
import { printable } from "../base/printable.ts";
import { smtpIn } from "../base/secret-variable.ts";
import { ok, warn, type Check } from "../operate/doctor/check.ts";
import { COLUMNS, csvOf, textOf, type Flaw, type FlawCounts } from "./flaws.ts";

/** Lines of the text, and flaws in the attachment; the rest is only counted. */
const MOST = { lines: 500, attached: 10_000 };

/** For the connection, the greeting, and each answer, ms: some servers examine a mail before they answer. */
const TIMEOUT_MS = 60_000;

/** For connection, greeting and sign-in together, when the doctor asks, ms. */
const CHECK_MS = 10_000;

/** What became of one message: absent `why`, it was taken. */
export interface Told {
  readonly why?: string;
  /** No other message would be taken either. */
  readonly isOfAll?: boolean;
}

/** @returns undefined without SMTP_URL */
export function openMailer(config: Config) {
  const { MAIL_FROM: from, QUALITY_MAIL_TO: compliance, QUEUE_PREFIX: prefix, secrets } = config;
  const server = secrets.SMTP_URL && smtpIn(secrets.SMTP_URL.value());
  if (server === undefined || from === undefined || compliance === undefined) return undefined;
  const isHere = isLoopback(server.host);
  const transport = createTransport({
    ...server,
    pool: true,
    maxConnections: 1,
    // A message that the library sent again could arrive twice unnoticed.
    maxRequeues: 0,
    requireTLS: !isHere,
    ignoreTLS: isHere,
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const own = new Set([domainOf(from), domainOf(compliance)]);
  const domains = config.QUALITY_MAIL_DOMAINS ?? [...own];

  async function send(
    to: string,
    subject: string,
    text: readonly string[],
    flaws: readonly Flaw[],
  ): Promise<Told> {
    const content = csvOf(flaws.slice(0, MOST.attached));
    const csv = { filename: "flaws.csv", content, contentType: "text/csv; charset=utf-8" };
    const cut = text.length > MOST.lines ? [`and ${text.length - MOST.lines} more lines`] : [];
    try {
      await transport.sendMail({
        envelope: { from, to },
        from: { name: "crmsync", address: from },
        to: { name: "", address: to },
        subject: printable(`crmsync ${prefix}: ${subject}`),
        text: [...text.slice(0, MOST.lines), ...cut].map(printable).join("\n"),
        // No out-of-office notice answers it.
        headers: { "Auto-Submitted": "auto-generated" },
        attachments: flaws.length === 0 ? [] : [csv],
      });
      return {};
    } catch (error) {
      return failureOf(error as NodemailerError);
    }
  }

  return {
    compliance,
    /** @returns why an owner gets no mail; undefined: the owner gets one. Each person who may write in the CRM can name an owner. */
    refusal(owner: string): string | undefined {
      if (!mailAddress.safeParse(owner).success) return "no e-mail address";
      const domain = domainOf(owner);
      const isOurs = domains.some((one) => domain === one || domain.endsWith(`.${one}`));
      return isOurs ? undefined : `not of the domains ${domains.join(", ")}`;
    },
    /** @param counts of all owners. @param flaws the first of the owner's. */
    toOwner(owner: string, counts: FlawCounts, flaws: readonly Flaw[]): Promise<Told> {
      const numbers = textOf(counts.of(owner));
      const text = [
        "Please correct these records in the CRM. The attachment has the list, too.",
        `The CRM names ${owner} as their owner. The numbers of all owners go to ${compliance}.`,
        "",
        ...numbers,
        "",
        ...flaws.map(lineOf),
      ];
      return send(owner, `${numbers[0]} to correct in the CRM`, text, flaws);
    },
    /** @param endOf what became of an owner's list. @param left the lists that no owner has got. */
    toCompliance(
      counts: FlawCounts,
      endOf: (owner: string) => string,
      left: readonly Flaw[],
    ): Promise<Told> {
      const text = textOf(counts, (owner) => ` (${endOf(owner)})`);
      return send(compliance, `${text[0]} in records of the CRM`, text, left);
    },
    /** Signs in, and sends nothing. */
    check: async (): Promise<Told> =>
      transport.verify().then(
        () => ({}),
        (error: unknown) => failureOf(error as NodemailerError),
      ),
    close: async () => transport.close(),
  };
}

/** For the doctor: whether the server takes a sender, without a mail. */
export async function checkMail(config: Config): Promise<readonly Check[]> {
  const mailer = openMailer(config);
  if (mailer === undefined) return [];
  const { why } = await within(CHECK_MS, mailer.check()).catch((error: Error) => ({
    why: error.message,
  }));
  await mailer.close();
  if (why === undefined) return [ok("mail", "the server of SMTP_URL lets crmsync in")];
  const remedy =
    "Correct SMTP_URL (address, port, user and password), or see why the mail server refuses.";
  return [warn("mail", `the server of SMTP_URL cannot be used: ${why}`, remedy)];
}

const domainOf = (address: string): string => address.replace(/^.*@/, "").toLowerCase();

const lineOf = (flaw: Flaw): string =>
  `- ${COLUMNS.flatMap((name) => (name === "owner" ? [] : flaw[name] || [])).join(", ")}`;

/** Errors about one message; all others are about the server. */
const OF_ONE = new Set(["EENVELOPE", "EMESSAGE"]);

/** The server's own text may contain addresses. */
function failureOf({ code = "failed", command = "", ...more }: NodemailerError): Told {
  const { originalCode = code, responseCode } = more;
  const why = responseCode === undefined ? originalCode : `SMTP ${responseCode} to ${command}`;
  return { why, isOfAll: !OF_ONE.has(code) };
}
