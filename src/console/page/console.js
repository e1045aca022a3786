/**
 * Shows times by the reader's clock, and replaces the parts of the page that are marked `data-live` by
 * their newer state. Everything else works without it.
 */

const EVERY_MS = 5000;

const CLOCK = /** @type {const} */ ({
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const DAY = /** @type {const} */ ({ month: "short", day: "numeric", year: "numeric" });

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

/** @param {ParentNode} root */
function showLocalTimes(root) {
  const now = new Date();
  for (const time of root.querySelectorAll("time")) {
    const date = new Date(time.dateTime);
    if (Number.isNaN(date.getTime())) continue;
    const exact = date.toLocaleString("en-GB", { ...DAY, ...CLOCK, timeZoneName: "short" });
    const isToday = date.toDateString() === now.toDateString();
    const text =
      time.dataset["ago"] !== undefined
        ? relative(date.getTime() + aheadMs - now.getTime())
        : isToday
          ? `today ${date.toLocaleString("en-GB", CLOCK)}`
          : date.toLocaleString("en-GB", { ...DAY, ...CLOCK });
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
  const isTyping = [...part.querySelectorAll("input")].some(
    (input) => input === document.activeElement || input.value !== input.defaultValue,
  );
  if (isSelected || isTyping) return;
  const open = [...part.querySelectorAll("details[open][id]")].map(({ id }) => id);
  for (const id of open) newer.querySelector(`#${CSS.escape(id)}`)?.setAttribute("open", "");
  if (newer.innerHTML === part.innerHTML) return;
  const focused = part.contains(document.activeElement) ? document.activeElement : null;
  part.replaceChildren(...newer.childNodes);
  if (focused !== null) findAgain(part, focused)?.focus({ preventScroll: true });
}

async function refresh() {
  const response = await fetch(location.href, { headers: { accept: "text/html" } });
  // The session has ended: the server leads to the login.
  if (response.redirected || response.status === 401) return location.reload();
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  const newer = new DOMParser().parseFromString(await response.text(), "text/html");
  showLocalTimes(newer);
  for (const part of document.querySelectorAll("[data-live]")) {
    const found = newer.getElementById(part.id);
    if (found !== null) replace(part, found);
  }
  report("This page updates itself.");
}

async function keepFresh() {
  const shownAt = new Date().toLocaleTimeString([], CLOCK);
  let since = shownAt;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    if (document.hidden) {
      await new Promise((resolve) =>
        document.addEventListener("visibilitychange", resolve, { once: true }),
      );
    }
    try {
      await refresh();
      since = new Date().toLocaleTimeString([], CLOCK);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      report(`Not updated since ${since}: ${why}.`);
    }
  }
}

/** What an act has answered is shown once: not again by a reload, and not with each refresh. */
function forgetNotice() {
  const url = new URL(location.href);
  if (!url.searchParams.has("notice")) return;
  for (const name of ["notice", "proof"]) url.searchParams.delete(name);
  history.replaceState(null, "", url);
}

forgetNotice();
showLocalTimes(document);
setInterval(() => showLocalTimes(document), EVERY_MS);
if (document.querySelector("[data-live]") !== null) {
  report("This page updates itself.");
  void keepFresh();
} else {
  report("");
}
