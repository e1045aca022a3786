import { randomUUID } from "node:crypto";
import type { NotedEvent } from "../../src/core/sync/step.ts";

/** An event as a step of a history names it. */
export const notedEventOf = (more: Partial<NotedEvent> = {}): NotedEvent => ({
  source: "/crm/acme",
  id: randomUUID(),
  type: "updated",
  subject: "contact/4711",
  time: Date.now(),
  warnings: [],
  redriven: false,
  ...more,
});
