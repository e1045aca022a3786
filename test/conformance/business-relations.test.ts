import { afterAll, beforeAll } from "vitest";
import { describeAuthentication, describeEndpoints } from "./endpoints.ts";
import { describeFields } from "./fields.ts";
import { describeLimits } from "./limits.ts";
import { describeListing } from "./listing.ts";
import { isSandbox, openService, type Service } from "./service.ts";

// One file and so one process: all requests to an external service share one quota.
let service: Service;
const current = (): Service => service;
beforeAll(async () => {
  service = await openService();
});
afterAll(async () => service[Symbol.asyncDispose]());

describeFields(current);
describeEndpoints(current);
describeAuthentication(current);
describeListing(current);
if (isSandbox) describeLimits();
