/** The tab Dead letters: by fault, to show, to redrive and to drop. */
import type { FastifyInstance, FastifyRequest } from "fastify";
import { dropLetters, redriveLetters, type RecordAct } from "../dead-letters/act.ts";
import { forecastsOf, openRedriveView } from "../dead-letters/forecast.ts";
import { groupDeadLetters } from "../dead-letters/group.ts";
import { GROUP_ID } from "../dead-letters/group-of.ts";
import { previewRedrive } from "../dead-letters/preview-redrive.ts";
import { selectIds } from "../dead-letters/select.ts";
import { sharedReading } from "../ops/shared-reading.ts";
import { UserError } from "../ops/user-error.ts";
import type { StoredDeadLetter } from "../state/dead-letters.ts";
import type { Stores } from "../status/stores.ts";
import { actorOf, requireOperator, sessionOf } from "./access.ts";
import {
  confirmView,
  countOf,
  DEAD_ACTS,
  eventView,
  groupsView,
  letterView,
  listView,
  type DeadChoice,
} from "./dead-views.ts";
import { live, tabPath } from "./layout.ts";
import type { ConsolePorts } from "./ports.ts";
import { isAfterAct, pageNumberOf, queryOf, ROWS, sendBack, sendPage } from "./send-page.ts";

const PATH = tabPath("dead");

/** Dead letters that one click decides, and that are previewed: the oldest first. */
const MOST = 5000;
const MOST_PREVIEWED = 500;

/** Grouping 100,000 dead letters takes seconds, ms. */
const GROUPS_DEADLINE_MS = 30_000;

export function serveDead(app: FastifyInstance, ports: ConsolePorts): void {
  const { stores } = ports;
  const freshGroups = () => groupDeadLetters(stores.deadLetters);
  const groups = sharedReading(freshGroups, GROUPS_DEADLINE_MS);
  app.get(PATH, async (request, reply) => {
    const found = await (isAfterAct(request) ? freshGroups() : groups());
    const main = live("dead", groupsView(sessionOf(request), found, Date.now()));
    return sendPage(request, reply, ports, { title: "Dead letters", tab: "dead", main });
  });
  app.get(`${PATH}/group`, async (request, reply) => {
    const id = groupIdOf(queryOf(request)["group"]);
    const number = pageNumberOf(request);
    const ids = await selectIds(stores.deadLetters, { inGroup: id });
    const letters = await read(stores, ids.slice((number - 1) * ROWS, number * ROWS));
    const main = listView(letters, { id, number, total: ids.length });
    return sendPage(request, reply, ports, { title: countOf(ids.length), tab: "dead", main });
  });
  serveLetter(app, ports);
  serveActs(app, ports);
}

function serveLetter(app: FastifyInstance, ports: ConsolePorts): void {
  const { mapping, stores } = ports;
  app.get(`${PATH}/letter`, async (request, reply) => {
    const letter = await find(stores, queryOf(request)["id"]);
    const left = await stores.deadLetterExpiry.left([letter.id]);
    const [forecast] = await forecastsOf([letter], await openRedriveView(stores, mapping));
    const main = letterView(sessionOf(request), letter, forecast, left.get(letter.id));
    return sendPage(request, reply, ports, { title: "Dead letter", tab: "dead", main });
  });
  // The event holds personal data: who reads it is recorded.
  app.post(`${PATH}/event`, { onRequest: requireOperator }, async (request, reply) => {
    const letter = await find(stores, queryOf(request)["id"]);
    const { crmCode, id } = letter;
    const by = actorOf(request);
    await stores.auditActs.record({ act: "dead.show", by, crmCode, details: { letter: id } });
    const main = eventView(letter);
    return sendPage(request, reply, ports, { title: "Event of a dead letter", tab: "dead", main });
  });
}

function serveActs(app: FastifyInstance, ports: ConsolePorts): void {
  const { mapping, stores } = ports;
  app.get(`${PATH}/confirm`, { onRequest: requireOperator }, async (request, reply) => {
    const choice = choiceOf(request);
    const { ids, total } = await chosen(stores, choice);
    const previewed = choice.act === "redrive" ? ids.slice(0, MOST_PREVIEWED) : [];
    const preview =
      previewed.length === 0
        ? undefined
        : await previewRedrive(
            stores.deadLetters.read(previewed),
            await openRedriveView(stores, mapping),
          );
    const main = confirmView(sessionOf(request), choice, { count: ids.length, total, preview });
    const title = `${DEAD_ACTS[choice.act].verb} ${countOf(ids.length)}?`;
    return sendPage(request, reply, ports, { title, tab: "dead", main });
  });
  app.post(PATH, { onRequest: requireOperator }, async (request, reply) => {
    await stores.stateVersion.require();
    const choice = choiceOf(request);
    const { ids } = await chosen(stores, choice);
    const by = actorOf(request);
    const record: RecordAct = (act, about) => stores.auditActs.record({ act, by, ...about });
    const decide = choice.act === "redrive" ? redriveLetters : dropLetters;
    const { dropped, left, redriven } = await decide(stores, stores.deadLetters.read(ids), record);
    const says =
      choice.act === "drop"
        ? `${countOf(dropped)} dropped.`
        : `${countOf(redriven)} redriven: each disappears here once its record passes.`;
    const rest = left === 0 ? "" : ` ${left} left: they contain no event that could be sent.`;
    return sendBack(request, reply, PATH, `${says}${rest}`);
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

/** What was there when the page was made, and is there still. @throws UserError when nothing is. */
async function chosen(
  { deadLetters }: Stores,
  choice: DeadChoice,
): Promise<{ ids: readonly string[]; total: number }> {
  const ids =
    choice.id === undefined
      ? await selectIds(deadLetters, { inGroup: choice.group ?? "", until: choice.at })
      : [(await deadLetters.find(choice.id))?.id].filter((id) => id !== undefined);
  if (ids.length === 0) {
    throw new UserError("these dead letters are gone: they were decided, or their records passed");
  }
  return { ids: ids.slice(0, MOST), total: ids.length };
}

async function read({ deadLetters }: Stores, ids: readonly string[]): Promise<StoredDeadLetter[]> {
  const letters: StoredDeadLetter[] = [];
  for await (const letter of deadLetters.read(ids)) letters.push(letter);
  return letters;
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
