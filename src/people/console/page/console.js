/**
 * Shows times by the reader's clock, and replaces the parts of the page that are marked `data-live` by
 * their newer state. Everything else works without it.
 */

const EVERY_MS = 5000;

/** What is older is not shown as the present state. */
const STALE_MS = 2 * EVERY_MS;

const CLOCK = /** @type {const} */ ({
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const DAY = /** @type {const} */ ({ month: "short", day: "numeric" });
const YEAR = /** @type {const} */ ({ ...DAY, year: "numeric" });

const RELATIVE = new Intl.RelativeTimeFormat("en");
const UNITS = /** @type {const} */ ([
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1000],
]);

/** How far the reader's clock is ahead of the server's, which told the times. */
const aheadMs = Date.now() - Number(document.body.dataset["now"] ?? Date.now());

/** As `relative` in moment.ts. @param {number} ms */
function relative(ms) {
  const [unit, size] = UNITS.find((one) => Math.abs(ms) >= one[1]) ?? UNITS[3];
  return Math.abs(ms) < 5000 ? "just now" : RELATIVE.format(Math.trunc(ms / size), unit);
}

/**
 * As a part of a sentence: `20:04 today`. A time to come is the end of its minute: it is not over before.
 *
 * @param {Date} date
 * @param {Date} now
 * @param {boolean} isExact to the second
 */
function spoken(date, now, isExact) {
  const isToCome = date.getTime() + aheadMs > now.getTime();
  const shown = new Date(isExact || !isToCome ? date : Math.ceil(date.getTime() / 60_000) * 60_000);
  const { second: _, ...toTheMinute } = CLOCK;
  const clock = shown.toLocaleString("en-GB", isExact ? CLOCK : toTheMinute);
  if (shown.toDateString() === now.toDateString()) return `${clock} today`;
  const isThisYear = shown.getFullYear() === now.getFullYear();
  return `${clock} on ${shown.toLocaleString("en-GB", isThisYear ? DAY : YEAR)}`;
}

/** @param {ParentNode} root */
function showLocalTimes(root) {
  const now = new Date();
  for (const time of root.querySelectorAll("time")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const exact = date.toLocaleString("en-GB", { ...YEAR, ...CLOCK, timeZoneName: "short" });
    const { ago, exact: isExact } = time.dataset;
    const text =
      ago === undefined
        ? spoken(date, now, isExact !== undefined)
        : relative(date.getTime() + aheadMs - now.getTime());
    if (time.textContent !== text) time.textContent = text;
    if (time.title !== exact) time.title = exact;
  }
}

/** Says how current the page is. @param {string} text */
function report(text) {
  const line = document.getElementById("refresh");
  if (line !== null && line.textContent !== text) line.textContent = text;
}

/**
 * How to find an element again in the newer state.
 *
 * @param {Element} part
 * @param {Element} focused
 */
function findAgain(part, focused) {
  const id = focused.id;
  const href = focused.getAttribute("href");
  const all = [...part.querySelectorAll(focused.tagName)];
  const same = all.find((one) => (id !== "" ? one.id === id : one.getAttribute("href") === href));
  return same instanceof HTMLElement ? same : undefined;
}

/**
 * Replaces one part, unless a person is reading or using it in a way that this would disturb.
 *
 * @param {Element} part
 * @param {Element} newer
 */
function replace(part, newer) {
  const selection = getSelection();
  const isSelected = selection?.type === "Range" && selection.containsNode(part, true);
  const isTyping = [...part.querySelectorAll("input")].some((input) =>
    input.type === "checkbox"
      ? input.checked !== input.defaultChecked
      : input === document.activeElement || input.value !== input.defaultValue,
  );
  if (isSelected || isTyping) return;
  const open = [...part.querySelectorAll("details[open][id]")].map(({ id }) => id);
  for (const id of open) newer.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  for (const all of part.querySelectorAll("input[data-all]")) all.setAttribute("hidden", "");
  if (newer.innerHTML === part.innerHTML) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  part.replaceChildren(...newer.childNodes);
  if (focused !== null) findAgain(part, focused)?.focus({ preventScroll: true });
}

/**
 * @typedef {{ says: string, remedy?: Element | null }} Trouble Why the page is not current, and what to do.
 * @returns {Promise<Trouble | undefined>}
 */
async function refresh() {
  const signal = AbortSignal.timeout(STALE_MS);
  const response = await fetch(location.href, { headers: { accept: "text/html" }, signal });
  // The session has ended: the server leads to the login.
  if (response.redirected || response.status === 401) {
    location.reload();
    return undefined;
  }
  const newer = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!response.ok) {
    const says = newer.querySelector("#trouble p")?.textContent;
    return says
      ? { says, remedy: newer.getElementById("do") }
      : { says: `The server answered ${response.status}.` };
  }
  // This page stands for one that could not be shown.
  if (document.body.dataset["unknown"] !== undefined) {
    location.reload();
    return undefined;
  }
  showLocalTimes(newer);
  showTrouble();
  for (const part of document.querySelectorAll("[data-live]")) {
    const found = newer.getElementById(part.id);
    if (found !== null) replace(part, found);
  }
  offerAll();
  document.title = newer.title;
  return undefined;
}

/**
 * Says above all else that what is shown is old, or takes that back.
 *
 * @param {Trouble} [trouble]
 */
function showTrouble(trouble) {
  document.body.classList.toggle("stale", trouble !== undefined);
  const bar = document.getElementById("trouble");
  const says = trouble?.says ?? "";
  if (bar === null || (bar.firstElementChild?.textContent ?? "") === says) return;
  bar.replaceChildren();
  if (trouble === undefined) return;
  const line = document.createElement("p");
  line.role = "alert";
  line.textContent = says;
  bar.append(line, ...(trouble.remedy ? [trouble.remedy] : []));
  document.title = "Not current · crmsync";
  const heading = document.querySelector("#heading > h1");
  if (heading !== null) heading.textContent = "The state is not known now";
}

async function keepFresh() {
  let freshAt = Date.now();
  /** @type {Trouble} */
  let trouble = { says: "crmsync does not answer." };
  setInterval(() => {
    if (Date.now() - freshAt <= STALE_MS || document.body.dataset["unknown"] !== undefined) return;
    const since = new Date(freshAt).toLocaleTimeString("en-GB", CLOCK);
    const says = `Not current: this is the state of ${since}. ${trouble.says}`;
    showTrouble({ ...trouble, says });
  }, 1000);
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    if (document.hidden) {
      await new Promise((resolve) =>
        document.addEventListener("visibilitychange", resolve, { once: true }),
      );
    }
    const askedAt = Date.now();
    try {
      const found = await refresh();
      if (found === undefined) freshAt = askedAt;
      else trouble = found;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      trouble = { says: `crmsync does not answer (${why}). This page comes back by itself.` };
    }
  }
}

/** The checkbox in a head of a table checks all of its rows. */
function offerAll() {
  for (const all of document.querySelectorAll("input[data-all]"))
    if (all instanceof HTMLInputElement) all.hidden = false;
}
document.addEventListener("change", ({ target: all }) => {
  if (!(all instanceof HTMLInputElement) || all.dataset["all"] === undefined) return;
  const boxes = all.closest("table")?.querySelectorAll("tbody input[type=checkbox]") ?? [];
  for (const box of boxes) if (box instanceof HTMLInputElement) box.checked = all.checked;
});

/** What an act has answered is shown once: not again by a reload, and not with each refresh. */
function forgetNotice() {
  const url = new URL(location.href);
  if (!url.searchParams.has("notice")) return;
  for (const name of ["notice", "proof"]) url.searchParams.delete(name);
  history.replaceState(null, "", url);
}

forgetNotice();
offerAll();
showLocalTimes(document);
setInterval(() => showLocalTimes(document), EVERY_MS);
if (document.querySelector("main [data-live]") !== null) {
  report("This page updates itself.");
  void keepFresh();
} else {
  report("");
}
