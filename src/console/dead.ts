/** The tab Dead letters: by fault, to show, to try again and to drop. */
import type { FastifyRequest } from "fastify";
import { itemOf } from "../approvals/carry-out.ts";
import { needsApproval } from "../approvals/decide.ts";
import { dropLetters, redriveLetters, type RecordAct } from "../dead-letters/act.ts";
import { forecastOf, openRedriveView } from "../dead-letters/forecast.ts";
import { GROUP_ID } from "../dead-letters/group-of.ts";
import { previewRedrive } from "../dead-letters/preview-redrive.ts";
import { fits } from "../dead-letters/select.ts";
import { faultOf } from "../dead-letters/words.ts";
import { UserError } from "../ops/user-error.ts";
import type { StoredDeadLetter } from "../state/dead-letters.ts";
import type { Stores } from "../status/stores.ts";
import { actorOf, sessionOf } from "./access.ts";
import { askedView, askInstead } from "./approvals.ts";
import { html } from "./html.ts";
import { DeadIndex, MOST_LISTED, type CountedLetters, type Look } from "./dead-index.ts";
import {
  confirmView,
  countingView,
  countOf,
  DEAD_ACTS,
  eventView,
  groupsView,
  headingOf,
  letterView,
  listView,
  nameOf,
  type DeadChoice,
} from "./dead-views.ts";
import { live, tabPath, type Page } from "./layout.ts";
import type { ConsolePorts } from "./ports.ts";
import { isAfterAct, pageNumberOf, queryOf, ROWS, type Pages } from "./pages.ts";
import { inOurWords } from "./words.ts";

const PATH = tabPath("dead");

/** Dead letters that are previewed: the first of those that are decided. */
const MOST_PREVIEWED = 300;

export function serveDead(pages: Pages, ports: ConsolePorts): void {
  const { stores } = ports;
  const index = new DeadIndex(stores.deadLetters);
  pages.show(PATH, async (request) => {
    const look = await index.look(isAfterAct(request));
    const asked = await askedView(ports, "drop");
    const main = live("dead", html`${asked}${groupsView(sessionOf(request), look)}`);
    const heading = headingOf(look);
    return { title: "Dead letters", heading, tab: "dead", main };
  });
  pages.show(`${PATH}/group`, async (request) => {
    const id = groupIdOf(queryOf(request)["group"]);
    const look = await index.look();
    const { counted } = look;
    if (counted === undefined) return countingPage(look);
    const number = pageNumberOf(request);
    const members = counted.members.get(id) ?? [];
    const ids = members.slice((number - 1) * ROWS, number * ROWS).map((member) => member.id);
    const total = sizeOf(counted, id);
    const letters = await Array.fromAsync(stores.deadLetters.read(ids));
    const main = listView(letters, { id, number, total, listed: members.length });
    return { title: countOf(total), tab: "dead", main };
  });
  serveLetter(pages, ports);
  serveActs(pages, ports, index);
}

const countingPage = (look: Look): Page => ({
  title: "Dead letters",
  tab: "dead",
  main: live("dead", countingView(look)),
});

function serveLetter(pages: Pages, ports: ConsolePorts): void {
  const { mapping, stores } = ports;
  pages.show(`${PATH}/letter`, async (request) => {
    const letter = await find(stores, queryOf(request)["id"]);
    const left = await stores.deadLetterExpiry.left([letter.id]);
    const forecast = await forecastOf(letter, await openRedriveView(stores, mapping));
    const main = letterView(sessionOf(request), letter, forecast, left.get(letter.id));
    return { title: "Dead letter", tab: "dead", main };
  });
  // The event holds personal data: who reads it is recorded.
  pages.act(`${PATH}/event`, async (request) => {
    const letter = await find(stores, queryOf(request)["id"]);
    const { crmCode, id } = letter;
    const by = actorOf(request);
    await stores.auditActs.record({ act: "dead.show", by, crmCode, details: { letter: id } });
    const main = eventView(letter);
    return { title: "Event of a dead letter", tab: "dead", main };
  });
}

function serveActs(pages: Pages, ports: ConsolePorts, index: DeadIndex): void {
  const { mapping, stores } = ports;
  pages.confirm(`${PATH}/confirm`, async (request) => {
    const choice = choiceOf(request);
    const look = choice.id === undefined ? await index.look() : undefined;
    if (look !== undefined && look.counted === undefined) {
      return countingPage(look);
    }
    const { ids, total } = await chosen(stores, choice, look?.counted);
    const previewed = choice.act === "redrive" ? ids.slice(0, MOST_PREVIEWED) : [];
    const preview =
      previewed.length === 0
        ? undefined
        : await previewRedrive(
            stillChosen(stores, choice, previewed),
            await openRedriveView(stores, mapping),
          );
    const about = await aboutOf(stores, choice, look?.counted);
    const isAsked = choice.act === "drop" && (await needsApproval(stores, "drop"));
    const shown = { about, count: ids.length, total, preview, isAsked };
    const main = confirmView(sessionOf(request), choice, shown);
    const title = `${DEAD_ACTS[choice.act].name(countOf(ids.length))}?`;
    return { title, tab: "dead", main };
  });
  pages.act(PATH, async (request) => {
    await stores.stateVersion.require();
    const choice = choiceOf(request);
    const { ids } = await chosen(
      stores,
      choice,
      choice.id === undefined ? await index.wait() : undefined,
    );
    if (choice.act === "drop" && (await needsApproval(stores, "drop"))) {
      const items = await Array.fromAsync(stillChosen(stores, choice, ids), itemOf);
      return askInstead(request, ports, { act: "drop" }, items);
    }
    const by = actorOf(request);
    const record: RecordAct = (act, about) => stores.auditActs.record({ act, by, ...about });
    const decide = choice.act === "redrive" ? redriveLetters : dropLetters;
    const { dropped, left, redriven } = await decide(
      stores,
      stillChosen(stores, choice, ids),
      record,
    );
    index.outdate();
    const says =
      choice.act === "drop"
        ? `${countOf(dropped)} dropped.`
        : `${countOf(redriven)} accepted again: each disappears here once its record passes.`;
    const rest = left === 0 ? "" : ` ${left} left: they contain no event that could be sent.`;
    return { path: PATH, says: `${says}${rest}` };
  });
}

/** @throws UserError */
function choiceOf(request: FastifyRequest): DeadChoice {
  const { act, at, group, id } = queryOf(request);
  const isUsable = (act === "redrive" || act === "drop") && /^\d{1,16}$/.test(at ?? "");
  if (!isUsable || (group === undefined) === (id === undefined)) {
    throw new UserError("this address names no dead letters: choose on the page Dead letters");
  }
  const which = id === undefined ? { group: groupIdOf(group) } : { id };
  return { act, ...which, at: Number(at) };
}

/** What a person is about to decide. */
async function aboutOf(
  { deadLetters }: Stores,
  { group, id }: DeadChoice,
  counted: CountedLetters | undefined,
): Promise<string> {
  if (id === undefined) {
    const found = counted?.groups.groups.find((one) => one.id === group);
    return found === undefined ? "" : `Fault: ${inOurWords(faultOf(found))}`;
  }
  const letter = await deadLetters.find(id);
  return letter === undefined ? "" : nameOf(letter);
}

/** What was there when the page was made, and is there still. @throws UserError when nothing is. */
async function chosen(
  { deadLetters }: Stores,
  choice: DeadChoice,
  counted: CountedLetters | undefined,
): Promise<{ ids: readonly string[]; total: number }> {
  const { at, group = "", id: one } = choice;
  const ids =
    one === undefined
      ? (counted?.members.get(group) ?? []).filter((member) => member.at <= at).map(({ id }) => id)
      : [await deadLetters.find(one)].flatMap((letter) =>
          letter === undefined || letter.at > at ? [] : [letter.id],
        );
  if (ids.length === 0) {
    throw new UserError(
      "these dead letters are gone: they were decided, their records passed, or newer events have replaced them; look again",
    );
  }
  const isPart = counted !== undefined && ids.length === MOST_LISTED;
  return { ids, total: isPart ? sizeOf(counted, group) : ids.length };
}

/** The smallest groups are not among the groups that are shown. */
const sizeOf = ({ groups, members }: CountedLetters, group: string): number =>
  groups.groups.find(({ id }) => id === group)?.letters ?? members.get(group)?.length ?? 0;

/** The letters that are as they were counted: others may have been replaced meanwhile. */
async function* stillChosen(
  { deadLetters }: Stores,
  { at, group, id }: DeadChoice,
  ids: readonly string[],
): AsyncGenerator<StoredDeadLetter> {
  const filter = { until: at, ...(id === undefined && group !== undefined && { inGroup: group }) };
  for await (const letter of deadLetters.read(ids)) if (fits(letter, filter)) yield letter;
}

async function find({ deadLetters }: Stores, id: string | undefined): Promise<StoredDeadLetter> {
  const letter = await deadLetters.find(id ?? "");
  if (letter === undefined) {
    throw new UserError("this dead letter is gone: it was decided, or its record passed");
  }
  return letter;
}

function groupIdOf(text: string | undefined): string {
  if (text !== undefined && GROUP_ID.test(text)) return text;
  throw new UserError("this address names no group of dead letters");
}
