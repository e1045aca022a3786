/** Who uses a command, and what they do by it. */
import { hostname, userInfo } from "node:os";
import type { Actor } from "../people/approvals/decide.ts";
import { readConfig, readStateConfig } from "../base/config.ts";
import { UserError } from "../base/user-error.ts";
import { markOf, marksOf, marksOfPerson, operatorNamed } from "../base/person.ts";
import type { Act, ActName } from "../core/state/audit-acts.ts";
import { type Stores, openStores } from "../operate/status/stores.ts";
import { connectOperator } from "../base/connect-redis.ts";

type Known = Pick<Stores, "approvals" | "config">;

/** Call it before the act is done: then no act is without its line in the audit trail. */
export async function recordAct(
  stores: Known & Pick<Stores, "auditActs">,
  act: ActName,
  about: Pick<Act, "crmCode" | "event" | "details"> = {},
): Promise<void> {
  await stores.auditActs.record({ act, by: await operatorName(stores), ...about });
}

/** The user of this command, as the audit trail names users. */
export const operatorName = async (stores: Known): Promise<string> => (await actorOf(stores)).by;

/**
 * The user of this command, with the person that MY_TOKEN proves. The running daemons tell whose token it is; what
 * this command has in its own environment counts only where none has ever run.
 * @throws UserError for a token that nobody has.
 */
export async function actorOf({ approvals, config }: Known): Promise<Actor> {
  const user = `${userName()}@${hostname()}`;
  const token = config.secrets.MY_TOKEN?.value();
  if (token === undefined) return { by: user, person: undefined, marks: [] };
  const holders = (await approvals.rule())?.holders ?? ownHolders();
  const name = holders[markOf(token)];
  if (name === undefined) {
    throw new UserError(
      "MY_TOKEN is none of the tokens to which OPERATOR_TOKEN of the running daemon gives a name (anna:<token>): ask for yours, or leave MY_TOKEN out. A new token counts within a minute",
    );
  }
  const person = operatorNamed(name);
  return { by: `${name} via ${user}`, person, marks: marksOfPerson(person, holders) };
}

function ownHolders(): Readonly<Record<string, string>> {
  const { OPERATOR_TOKEN } = readConfig(undefined, ["OPERATOR_TOKEN"]).secrets;
  return marksOf({ operator: OPERATOR_TOKEN && (() => OPERATOR_TOKEN.value()) });
}

/** In a container, the user may have a number and no name. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`;
  }
}

/**
 * Runs a command on the state in Redis, and closes the connection after it.
 * @param config by default with the secrets that the state needs, and no other
 * @throws StateVersionError for a state that this program does not know.
 */
export async function withStores<Result>(
  work: (stores: Stores) => Promise<Result>,
  config = readStateConfig(),
): Promise<Result> {
  const stores = openStores(config, await connectOperator(config));
  try {
    stores.stateVersion.refuse(await stores.stateVersion.read());
    return await work(stores);
  } finally {
    await stores.close();
  }
}
