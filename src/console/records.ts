/** The tab Records: what became of one record, and the steps that led there. */
import type { FastifyInstance } from "fastify";
import type { Fate } from "../history/fates.ts";
import { storyOf, type Story } from "../history/story.ts";
import { html, pathTo, type Html } from "./html.ts";
import { live, tabPath } from "./layout.ts";
import { momentOf } from "./moment.ts";
import type { ConsolePorts } from "./ports.ts";
import { queryOf, sendPage } from "./send-page.ts";

const PATH = tabPath("records");

export function serveRecordsTab(app: FastifyInstance, ports: ConsolePorts): void {
  app.get(PATH, async (request, reply) => {
    const given = queryOf(request)["name"] ?? "";
    const story = given.trim() === "" ? undefined : await storyFor(given, ports);
    const name = story?.name ?? "";
    const main = html`${searchForm(name)}${story && live("story", storyView(story))}`;
    const title = name === "" ? "Records" : `Record ${name}`;
    return sendPage(request, reply, ports, { title, tab: "records", main });
  });
}

/** Tries the name as it was given, then without blanks around it: a person may have pasted these. */
async function storyFor(given: string, { mapping, stores }: ConsolePorts): Promise<Story> {
  const story = await storyOf(stores, given, mapping);
  const name = given.trim();
  return story.fate !== "unknown" || name === given ? story : storyOf(stores, name, mapping);
}

const searchForm = (name: string): Html =>
  html`<form action="${PATH}" class="search" role="search">
      <label for="name">crmCode, or record of the CRM (contact/7)</label>
      <input type="search" id="name" name="name" value="${name}" required maxlength="500" />
      <button class="main">Find</button>
    </form>
    ${name === "" && html`<p class="dim">What became of it, why it is not on the service yet, and what to do.</p>`}`;

/** How pressing each fate is. */
const TONES: Readonly<Record<Fate, "good" | "warning" | "bad">> = {
  on_service: "good",
  unchanged: "good",
  superseded: "good",
  terminated: "good",
  sending: "good",
  ignored: "warning",
  waits_for_quota: "warning",
  waits_for_retry: "warning",
  paused: "warning",
  fetching: "warning",
  not_on_service: "warning",
  uncertain: "warning",
  unknown: "warning",
  stopped: "bad",
  held: "bad",
  rejected: "bad",
};

function storyView(story: Story): Html {
  const { answer, crmCode, fate, historySince, name, others, remedy, runbook } = story;
  const { similar, steps, subject } = story;
  return html`<p class="notice ${TONES[fate]}"><strong>${name}</strong>: ${answer}</p>
    ${(remedy !== null || runbook !== null) && html`<p><strong>What to do:</strong> ${remedy ?? ""} ${runbook !== null && html`<code>${runbook}</code>`}</p>`}
    ${decideLink(story)}
    <dl>
      <dt>crmCode</dt>
      <dd>${crmCode ?? "not known"}</dd>
      <dt>Record of the CRM</dt>
      <dd>${subject ?? "not known"}</dd>
    </dl>
    ${others.map(
      (other) =>
        html`<p>
          It also led to <a href="${pathTo(PATH, { name: other.crmCode })}">${other.crmCode}</a>:
          ${other.answer}
        </p>`,
    )}
    ${similar.map(
      (one) =>
        html`<p>
          <a href="${pathTo(PATH, { name: one.name })}">${one.name}</a>
          (crmCode ${one.crmCode ?? "not known"}): ${one.answer}
        </p>`,
    )}
    <h2>What happened</h2>
    ${steps.length === 0 ? html`<p>No step of it is kept.</p>` : timeline(steps)}
    <p class="dim">
      ${historySince === null ? "No history is kept (HISTORY_DAYS is 0, or no process has run yet)." : html`History is complete since ${momentOf(historySince)}, the last 20 steps.`}
    </p>`;
}

/** Leads to where a person decides. */
function decideLink({ deadLetter, fate }: Story): Html | string {
  if (fate === "held") return html`<p><a href="${tabPath("held")}">Held terminations</a></p>`;
  if (fate !== "rejected" || deadLetter === null) return "";
  const path = pathTo(`${tabPath("dead")}/letter`, { id: deadLetter });
  return html`<p><a href="${path}">Its dead letter</a></p>`;
}

const timeline = (steps: Story["steps"]): Html =>
  html`<ol class="timeline" reversed>
    ${steps.map(
      ({ at, says }) =>
        html`<li>
          ${momentOf(at)}
          <span>${says}</span>
        </li>`,
    )}
  </ol>`;
