import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { createTurns } from "../../../src/intake/http/intake-guard.ts";

/** Bodies that ask for their turn, and the order in which they get it. */
function asking(most: number) {
  const turns = createTurns(most);
  const begun: string[] = [];
  return {
    begun,
    ask: (name: string, bytes: number): ServerResponse => {
      const response = new ServerResponse(new IncomingMessage(new Socket()));
      void turns.take(bytes, response).then(() => begun.push(name));
      return response;
    },
    end: async (response: ServerResponse) => {
      response.emit("close");
      await setImmediate();
    },
  };
}

test("bodies are parsed together up to a limit, and a larger one alone", async () => {
  const { ask, begun, end } = asking(1000);
  const first = ask("400", 400);
  const second = ask("500", 500);
  const third = ask("4000", 4000);
  await setImmediate();
  expect(begun).toEqual(["400", "500"]);
  await end(first);
  expect(begun).toEqual(["400", "500"]);
  await end(second);
  expect(begun).toEqual(["400", "500", "4000"]);
  const fourth = ask("10", 10);
  await setImmediate();
  expect(begun).toHaveLength(3);
  await end(third);
  expect(begun.at(-1)).toBe("10");
  await end(fourth);
});

test("a small body passes a large one that waits", async () => {
  const { ask, begun, end } = asking(1000);
  const first = ask("first", 1000);
  ask("1 MiB", 1024 * 1024);
  const small = ask("small", 100);
  ask("gone", 50).emit("close");
  await end(first);
  expect(begun).toEqual(["first", "small"]);
  await end(small);
  expect(begun).toEqual(["first", "small", "1 MiB"]);
});

test("a body whose sender has left before its turn takes no place", async () => {
  const { ask, begun, end } = asking(1000);
  const first = ask("first", 1000);
  const second = ask("second", 1000);
  ask("third", 1000);
  await end(second);
  await end(first);
  expect(begun).toEqual(["first", "third"]);
});
