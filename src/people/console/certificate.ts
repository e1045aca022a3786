/** The tab Certificate: makes the signed certificate of completeness of a month, as `crmsync certify` does. */
import { nameText } from "../../base/person.ts";
import { Refusal } from "../../intake/http/limits.ts";
import type { Readings } from "../../operate/status/readings.ts";
import { actorOf, formOf, sessionOf, type ConsolePorts, type Session } from "./access.ts";
import { ago, facts, html, pathTo, type Html } from "./html.ts";
import { postForm, tabPath, type Pages } from "./pages.ts";

const PATH = tabPath("certificate");

/** Months to choose from. */
const MONTHS = 24;

export function serveCertificate(pages: Pages, ports: ConsolePorts): void {
  const { config } = ports.stores;
  const isReady = () => config.secrets.CERTIFY_KEY?.value() !== undefined;
  let isMaking = false;
  pages.show(PATH, async (request) => {
    const main = html`<p>
        A signed file that says which clients of the CRM are at the service, which are not, since
        when, and whose turn it is; who decided about terminations; when the service or a CRM was
        interrupted; and what the evidence does not cover. It holds crmCodes, names of records,
        owners, fields and times, and no other values of persons.
      </p>
      ${isReady() ? makeForm(sessionOf(request), await ports.readings(), config.AUDIT_LOG) : NO_KEY}`;
    return {
      title: "Certificate",
      heading: "Certificate of completeness",
      tab: "certificate",
      main,
    };
  });
  pages.app.post(PATH, async (request, reply) => {
    const form = formOf(request);
    const format = form.get("format") === "json" ? "json" : "html";
    const month = form.get("month") ?? "";
    if (isMaking)
      throw new Refusal(429, "Another certificate is being made: try again in a minute.", {
        "retry-after": "60",
      });
    isMaking = true;
    try {
      await ports.countExport(request, nameText(sessionOf(request).person));
      const file = await ports.certify({ month, format, by: actorOf(request) });
      file.once("close", () => (isMaking = false));
      return await reply
        .type(format === "json" ? "application/json" : "text/html; charset=utf-8")
        .header("content-disposition", `attachment; filename="certificate-${month}.${format}"`)
        .send(file);
    } catch (error) {
      isMaking = false;
      throw error;
    }
  });
}

const NO_KEY = html`<p class="notice warning">
    <span class="says"
      >Nothing signs it yet: this process has no CERTIFY_KEY. Make a key, and restart with it:</span
    >
  </p>
  <pre>
openssl genpkey -algorithm ed25519 -out certify.pem
openssl pkey -in certify.pem -pubout -out certify.pub
CERTIFY_KEY_FILE=certify.pem</pre>
  <p>Give certify.pub to those who verify certificates, and certify.pem to no one.</p>`;

function makeForm(
  session: Session,
  { comparedExports, now }: Pick<Readings, "comparedExports" | "now">,
  trail: string | undefined,
): Html {
  const compared = Math.max(...Object.values(comparedExports).map(({ at }) => at));
  return html`${facts({
      "Audit trail":
        trail === undefined
          ? "none here (AUDIT_LOG): the certificate names that as a gap"
          : trail === "stdout"
            ? "it goes to stdout: make the certificate by the command, with --audit, where its files are"
            : trail,
      "Newest comparison with the CRM": Number.isFinite(compared)
        ? ago(compared)
        : "none: without it, the certificate names a gap",
      Costs:
        "no request to the service; some seconds, and minutes with gigabytes of trail or a million exceptions: a proxy in front must wait as long",
    })}
    ${postForm(
      session,
      PATH,
      html`<label>
          Month (UTC)
          <select name="month">
            ${monthsUntil(now).map((month, n) => html`<option value="${month}">${n === 0 ? `${month}, until now` : month}</option>`)}
          </select>
        </label>
        <p class="acts">
          <button class="main" name="format" value="html">Make it as a page</button>
          <button name="format" value="json">Make it as JSON</button>
        </p>`,
    )}
    <p class="dim">
      The browser saves a file: open the page to read it, or to print it on A4. The state of single
      records is only known now, and is left out of a month that is over: make the certificate on
      the last day of each month. Its hash becomes a line of the audit trail (<a
        href="${pathTo(tabPath("audit"), { what: "certify" })}"
        >certificates made before</a
      >). With the public key, the command certify --verify tells on any machine whether the file
      was changed.
    </p>`;
}

/** The newest first. */
function monthsUntil(now: number): string[] {
  const date = new Date(now);
  return Array.from({ length: MONTHS }, (_, n) =>
    new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - n)).toISOString().slice(0, 7),
  );
}
