/** The certificate as a page for people, which prints on A4; the same as JSON is part of it. */
import { AGREEING } from "../whole/reconcile/summary.ts";
import { DRIFT } from "../core/sync/drift.ts";
import { facts, html, table, type Html, type Value } from "../people/console/html.ts";
import { inOurWords } from "../people/console/words.ts";
import { counted } from "../base/counted.ts";
import type { Certificate } from "./collect.ts";

const STYLE = `
@page { size: A4; margin: 16mm 14mm; }
body { font: 10pt/1.4 system-ui, sans-serif; color: #111; max-width: 182mm; margin: 8mm auto; padding: 0 4mm; }
@media print { body { margin: 0; padding: 0; } }
h1 { font-size: 20pt; margin: 0 0 1mm; } h2 { font-size: 13pt; margin: 8mm 0 2mm; break-after: avoid; }
p { margin: 1mm 0 2mm; } .sum { font-size: 12pt; } .gap { border-left: 1mm solid #b00; padding-left: 3mm; }
table { border-collapse: collapse; width: 100%; font-size: 8.5pt; margin: 2mm 0; } thead { display: table-header-group; }
tr { break-inside: avoid; } th, td { text-align: left; vertical-align: top; padding: 0.8mm 2mm 0.8mm 0; border-bottom: 0.2mm solid #bbb; overflow-wrap: break-word; }
thead th { border-bottom: 0.4mm solid #111; } caption { text-align: left; font-weight: 600; padding: 2mm 0 1mm; }
tbody th { font-weight: 400; } dl { display: grid; grid-template-columns: 42mm 1fr; gap: 0.6mm 4mm; margin: 1mm 0; }
dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; } code { font-size: 7.5pt; overflow-wrap: anywhere; } .dim { color: #555; }
@media screen and (max-width: 40rem) {
  dl { grid-template-columns: 1fr; } dd { margin-bottom: 1.5mm; } thead { position: absolute; left: -100vw; }
  tr { display: block; padding: 1mm 0; border-bottom: 0.2mm solid #bbb; } tbody :is(th, td) { display: block; border: 0; padding: 0; font-size: 10pt; }
  tbody :is(th, td)::before { content: attr(data-label) ": "; color: #555; }
}
`;

/** @param keyId names the key that signs it */
export function pageOf(certificate: Certificate, keyId: string): string {
  const { from, gaps, madeAt, month, to } = certificate;
  const title = `Certificate of completeness, ${month}`;
  const main = html`<h1>${title}</h1>
    <p class="dim">From ${day(from)} to ${day(to)} (UTC); made at ${day(madeAt)}</p>
    <p class="sum">${summaryOf(certificate)}</p>
    ${facts({
      "Made by": certificate.by,
      Service: certificate.service ?? "not known here",
      Tenant: certificate.tenant,
      crmsync: certificate.version,
      "Key of the signature": keyId,
    })}
    <h2>Gaps in the evidence</h2>
    ${gaps.length === 0 ? html`<p>None.</p>` : gaps.map((gap) => html`<p class="gap">${gap}</p>`)}
    <h2>The CRM's list against the service's list</h2>
    ${comparisonsOf(certificate)}
    <h2>Every known relation</h2>
    ${stateOf(certificate)}
    <h2>Changes, terminations and acts</h2>
    ${actsOf(certificate)}
    <h2>The audit trail</h2>
    ${trailOf(certificate)}
    <p class="dim">
      The last line of this file signs every byte before it. The command certify --verify, with the
      public key, checks it on any machine.
    </p>`;
  // In JSON, < stands only in texts: escaped, it cannot end the element.
  const json = JSON.stringify(certificate).replaceAll("<", "\\u003c");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style></head>
<body>${String(main)}
<script type="application/json" id="certificate">${json}</script></body></html>
`;
}

/** `2026-11-21 09:30:12` of ISO 8601. */
const day = (at: string | null): string => at?.slice(0, 19).replace("T", " ") ?? "–";

const text = (value: unknown): string => (typeof value === "string" ? value : "");
const numberOf = (value: unknown): number => (typeof value === "number" ? value : 0);
const joined = (...parts: readonly (string | null)[]): string =>
  parts.filter(Boolean).join(", ") || "–";

type Fields = Readonly<Record<string, unknown>>;

const countsOf = (fields: Fields): [string, number][] =>
  Object.entries((fields["counts"] ?? {}) as Fields).map(([name, of]) => [name, numberOf(of)]);

/** A table of more rows is no page for people. */
const MOST_ROWS = 5000;

/** One column for each heading. */
const list = <Row>(
  caption: string,
  rows: readonly Row[],
  cells: Readonly<Record<string, (row: Row) => Value>>,
): Html =>
  rows.length === 0
    ? html`<p>${caption}: none.</p>`
    : html`${table({
        caption: `${caption}: ${rows.length}`,
        rows: rows.slice(0, MOST_ROWS),
        columns: Object.entries(cells).map(([heading, cell]) => ({ heading, cell })),
      })}
      ${
        rows.length > MOST_ROWS &&
        html`<p class="gap">
          ${rows.length - MOST_ROWS} more are named by the same certificate as JSON, which is part
          of this file: certify --verify --json prints it.
        </p>`
      }`;

/** Results of a comparison by which a record is not shown to be missing or wrong. */
const AGREE: ReadonlySet<string> = new Set(["equal", "newer", "waiting", "ignored"]);

export function summaryOf({ comparisons, gaps, state }: Certificate): string {
  const [newest] = comparisons;
  const counts = newest === undefined ? [] : countsOf(newest);
  const sum = (isWanted: (name: string) => boolean) =>
    counts.reduce((all, [name, count]) => all + (isWanted(name) ? count : 0), 0);
  const lists =
    newest === undefined
      ? "No comparison of both lists."
      : `Of ${numberOf(newest["codes"])} crmCodes in the CRM's list of ${day(text(newest["snapshotAt"]))}, ${sum((name) => name === "equal")} were at the service as the CRM had them; ${sum((name) => !AGREE.has(name))} results differed.`;
  const others =
    comparisons.length > 1 ? ` Other kinds of exports: ${comparisons.length - 1}.` : "";
  const now =
    state === null
      ? ""
      : ` Now ${counted(state.relations, "relation is", "relations are")} known; ${counted(state.exceptions.length, "exception is", "exceptions are")} named.`;
  return `${lists}${others}${now} Gaps in the evidence: ${gaps.length}.`;
}

const RESULTS: Readonly<Record<string, string>> = { ...AGREEING, ...DRIFT, equal: "" };

function comparisonsOf({ compared, comparisons }: Certificate): Html {
  const all = comparisons.map((one: Fields) => {
    const service = (one["service"] ?? {}) as Fields;
    return html`${facts({
      Compared: `${day(text(one["at"]))}, begun by ${text(one["by"])} (${text(one["source"])})`,
      "The CRM's list": `${text(one["snapshot"])}: ${numberOf(one["records"])} records, ${numberOf(one["codes"])} crmCodes, as of ${day(text(one["snapshotAt"]))}`,
      "… its SHA-256": text(one["snapshotHash"]),
      Mapping: `${text(one["mapping"])}, ${text(one["mappingHash"])}`,
      "The service's list": `${numberOf(service["relations"])} relations, ${numberOf(service["active"])} active, listed from ${day(text(service["listedAt"]))} on`,
      "… SHA-256 of it": text(service["hash"]),
    })}
    ${list("Results", countsOf(one), {
      Result: ([name]) => name,
      Records: ([, count]) => count,
      Meaning: ([name]) => RESULTS[name] ?? "",
    })}`;
  });
  const stopped = compared.stopped > 0 && `, ${compared.stopped} of them stopped by a guard`;
  return html`<p>
      ${counted(compared.all, "comparison")} in the
      period${stopped}${all.length > 0 ? "; the newest of each kind of export:" : "."}
    </p>
    ${all}`;
}

function stateOf({ month, state }: Certificate): Html {
  if (state === null)
    return html`<p>
      Not shown: ${month} is over, and what is known of single relations is of today.
    </p>`;
  const { at, exceptions, relations, states } = state;
  return html`<p>
      ${counted(relations, "relation is", "relations are")} known at ${day(at)}. One that is in two
      states counts in both.
    </p>
    ${list("States", Object.entries(states), {
      State: ([name]) => name,
      Relations: ([, count]) => count,
    })}
    ${list("Exceptions", exceptions, {
      crmCode: ({ crmCode }) => crmCode ?? "not known",
      Record: ({ record }) => record ?? "–",
      State: ({ states: all }) => all.join(", "),
      "Since (UTC)": ({ since }) => day(since),
      "Why, and next": ({ next, why }) => inOurWords([why, next].filter(Boolean).join(". ")),
      "Owner, source": ({ owner, source }) => joined(owner, source),
    })}`;
}

function actsOf(certificate: Certificate): Html {
  const { acts, changes, interruptions, mappings, terminations, trail } = certificate;
  if (trail === null) return html`<p>Not known without an audit trail.</p>`;
  const counts = Object.entries(changes).map(([name, count]) => `${name} ${count}`);
  return html`<p>Changes at the service: ${counts.join(", ")}.</p>
    ${list("Terminations", terminations, {
      "Time (UTC)": ({ at }) => day(at),
      crmCode: ({ crmCode }) => crmCode,
      From: ({ source }) => source,
      Decided: ({ how }) => how,
      By: ({ approvedBy, by }) => joined(by, approvedBy && `approved by ${approvedBy}`),
    })}
    ${list("Acts that need a person, or that touch the evidence", acts as readonly Fields[], {
      "Time (UTC)": ({ at }) => day(text(at)),
      Act: ({ act }) => text(act),
      About: ({ asked, crmCode, plan }) => joined(text(crmCode), text(asked), text(plan)),
      By: ({ approvedBy, by }) =>
        joined(text(by), approvedBy === undefined ? "" : `approved by ${text(approvedBy)}`),
    })}
    ${list("Mappings in use, by the starts of processes", mappings, {
      "From (UTC)": ({ from }) => day(from),
      Mapping: ({ mapping }) => mapping,
      "SHA-256": ({ hash }) => hash ?? "a preset",
    })}
    ${list("Interruptions of a minute or longer", interruptions, {
      "From (UTC)": ({ since }) => day(since),
      To: ({ until }) => (until === null ? "not ended in the period" : day(until)),
      What: ({ about, says }) =>
        inOurWords(about === null || says.includes(about) ? says : `${about}: ${says}`),
    })}`;
}

function trailOf({ trail }: Certificate): Html {
  if (trail === null) return html`<p>There is none.</p>`;
  const { chains, faults, faultsNamed, files, isKeyed, lines, notes } = trail;
  return html`${facts({
    Files: files.join(", "),
    Lines: lines,
    Made: isKeyed ? "with a key: only its holder can write a line" : "without a key",
    Faults: faults === 0 ? "none" : faults,
    Notes: notes.join("; "),
  })}
  ${faultsNamed.map((fault) => html`<p class="gap">${fault}</p>`)}
  ${list("Chains that the trail must contain", chains, {
    Chain: ({ chain }) => chain,
    Lines: ({ first, last }) => `${first} to ${last}`,
    "Hash of the last line": ({ hash }) => html`<code>${hash}</code>`,
  })}`;
}
