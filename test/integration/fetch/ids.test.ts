/** A CRM accepts more than one spelling of an id: each must be the same relation. */
import { expect, onTestFinished, test } from "vitest";
import { startIntake } from "../../../workers/intake.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { personEvent } from "../../support/person-event.ts";
import { waitFor } from "../../support/wait-for.ts";

const ACCESS = {
  SALESFORCE_URL: "https://crm.example",
  SALESFORCE_CLIENT_ID: "app",
  SALESFORCE_CLIENT_SECRET: "secret-of-the-app",
  DYNAMICS_URL: "https://crm.example",
  DYNAMICS_TENANT_ID: "tenant",
  DYNAMICS_CLIENT_ID: "app",
  DYNAMICS_CLIENT_SECRET: "secret-of-the-app",
};

test.for([
  ["salesforce", "Contact/003Qk00000AbC12IAF", "Contact/003Qk00000AbC12"],
  [
    "dynamics",
    "contact/5f2d9c11-7ba3-ef11-8a69-6045bd8f1a20",
    "contact/5F2D9C11-7BA3-EF11-8A69-6045BD8F1A20",
  ],
])("%s: %s and %s are one record", async ([crm, subject, other]) => {
  const runtime = newRuntime(ACCESS);
  const intake = startIntake(runtime);
  onTestFinished(() => intake.close());
  const data = { fetch: crm };
  await runtime.inbox.push([
    personEvent("", {}, { subject, data }),
    personEvent("", {}, { subject: other, data }),
  ]);
  await waitFor(
    async () => (await runtime.inbox.queue.getJobCountByTypes("wait", "active")) === 0,
    {
      what: "both events are accepted",
    },
  );
  const fetches = await runtime.thinEvents.queue.getJobs();
  expect(fetches.map((job) => job.data)).toEqual([{ crm, subject }]);
});
