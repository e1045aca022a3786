import { html as escaped } from "hono/html";
import { COMPANY_TYPES, PERSON_TYPE, RELATION_STATUSES } from "../service-spec/value-lists.ts";

type Html = Exclude<ReturnType<typeof escaped>, Promise<unknown>>;

/** The template tag: it escapes every value. */
const html = (
  strings: TemplateStringsArray,
  ...values: readonly (string | Html | readonly Html[])[]
): Html => escaped(strings, ...values) as Html;

const options = (values: readonly string[]): Html[] =>
  values.map((value) => html`<option>${value}</option>`);

/** The read-only page at `/`. Its script fills it when it has a token. */
export const RELATIONS_PAGE = html`<!doctype html>
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <title>Business relations sandbox</title>
      <link rel="icon" href="data:," />
      <link rel="stylesheet" href="/assets/page.css" />
      <script type="module" src="/assets/page.js"></script>
    </head>
    <body>
      <header>
        <h1>Business relations sandbox</h1>
        <span id="tenant" class="dim"></span>
        <nav><a href="/openapi.json">openapi.json</a></nav>
      </header>
      <form id="entry" hidden>
        <input
          type="password"
          id="token"
          aria-label="Token"
          placeholder="Token of a client"
          autocomplete="off"
          required
        />
        <button>Show</button>
        <p id="error" class="bad" role="alert"></p>
      </form>
      <main id="content" hidden>
        <ul class="numbers" id="numbers"></ul>
        <div class="columns">
          <div>
            <h2>Relations</h2>
            <form id="filter">
              <input type="search" id="search" aria-label="Search" placeholder="Name or crmCode" />
              <select id="type" aria-label="Type">
                <option value="">every type</option>
                ${options([PERSON_TYPE, ...COMPANY_TYPES])}
              </select>
              <select id="status" aria-label="Status">
                <option value="">every status</option>
                ${options(RELATION_STATUSES)}
              </select>
            </form>
            <table>
              <thead>
                <tr>
                  <th>crmCode</th>
                  <th>Name</th>
                  <th>Type</th>
                  <th>Status</th>
                  <th class="number">Writes</th>
                </tr>
              </thead>
              <tbody id="relations"></tbody>
            </table>
            <p id="none" class="dim" hidden>No relation matches.</p>
            <p><button id="more" hidden>Older</button></p>
          </div>
          <div>
            <section id="details" aria-live="polite" hidden></section>
            <h2>Last requests</h2>
            <table>
              <thead>
                <tr>
                  <th>Time</th>
                  <th>Request</th>
                  <th class="number">Status</th>
                  <th class="number">ms</th>
                </tr>
              </thead>
              <tbody id="requests"></tbody>
            </table>
          </div>
        </div>
      </main>
    </body>
  </html>`.toString();
