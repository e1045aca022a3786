/**
 * What is read from Redis for people and metrics. Readings that are taken together cost one round
 * trip and show one moment: Redis runs them as one transaction.
 */
import type { Redis } from "ioredis";
import { scriptText } from "./redis-script.ts";

type Argument = string | number;
type Command = readonly [name: string, ...args: Argument[]];

/** One command, and what its reply means. */
export interface Reading<T> {
  readonly command: Command;
  /** @param reply as ioredis returns it for this command. */
  readonly meaning: (reply: unknown) => T;
}

/**
 * @param command its name in lower case, and its arguments.
 * @param meaning its parameter has the type of this command's reply.
 */
export const reading = <T>(command: Command, meaning: (reply: never) => T): Reading<T> => ({
  command,
  meaning: (reply) => meaning(reply as never),
});

/** What is stored as JSON; undefined where nothing is. */
export const jsonReading = <T>(...command: Command): Reading<T | undefined> =>
  reading(command, (text: string | null) => (text === null ? undefined : (JSON.parse(text) as T)));

/** Field of a hash → what its text means. */
export const hashReading = <T>(
  key: string,
  meaning: (text: string) => T,
): Reading<Record<string, T>> =>
  reading(["hgetall", key], (fields: Record<string, string>) =>
    Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, meaning(text)])),
  );

/** A reading by a script. EVAL sends its text: an EVALSHA that fails in a transaction cannot be repeated. */
export const scriptReading = <T>(
  file: URL,
  keys: readonly string[],
  args: readonly Argument[],
  meaning: (reply: never) => T,
): Reading<T> => reading(["eval", scriptText(file), keys.length, ...keys, ...args], meaning);

/** Redis' time, ms. */
export const nowReading: Reading<number> = reading(
  ["time"],
  ([seconds, micros]: [string, string]) =>
    Number(seconds) * 1000 + Math.floor(Number(micros) / 1000),
);

type Discarded = Error & { readonly previousErrors?: readonly Error[] };

type Readings = Readonly<Record<string, Reading<unknown>>>;
export type Meaning<R extends Reading<unknown>> = ReturnType<R["meaning"]>;
type Meanings<R extends Readings> = { [K in keyof R]: Meaning<R[K]> };

/** @throws the error of the first reading that Redis did not carry out. */
export async function readTogether<R extends Readings>(
  redis: Redis,
  readings: R,
): Promise<Meanings<R>> {
  const all = Object.entries(readings);
  const commands = all.map(([, { command }]) => [...command]);
  const replies = await redis
    .multi(commands)
    .exec()
    .catch((error: Discarded) => {
      // Redis discards a transaction after an earlier error, which says more.
      const cause = error.previousErrors?.[0] ?? error;
      // A full Redis accepts no transaction. A pipeline is one round trip, too, but not one moment.
      if (cause.message.startsWith("OOM")) return redis.pipeline(commands).exec();
      throw cause;
    });
  const entries = all.map(([name, { command, meaning }], index) => {
    const [error, reply] = replies?.[index] ?? [new Error("Redis has discarded the transaction")];
    if (error !== null) throw withKeys(error, command);
    return [name, meaning(reply)];
  });
  return Object.fromEntries(entries) as Meanings<R>;
}

/** Redis' error WRONGTYPE does not name the key, so the keys of the command are added to it. A script may use further keys. */
function withKeys(error: Error, [name, ...args]: Command): Error {
  if (!error.message.startsWith("WRONGTYPE")) return error;
  const key =
    name === "eval"
      ? `${args.slice(2, 2 + Number(args[1])).join(" or ")}, or a key that begins so`
      : args[0];
  const says = `${error.message.replace(/\.$/, "")}: ${key}`;
  return Object.assign(new Error(says, { cause: error }), { name: error.name });
}

export async function readOne<T>(redis: Redis, { command, meaning }: Reading<T>): Promise<T> {
  const [name, ...args] = command;
  return meaning(await redis.call(name, args));
}
