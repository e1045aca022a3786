import type { Command } from "commander";
import type { TenantLimits, TenantName } from "../../sandbox/administration.ts";
import { administer } from "./administration.ts";
import type { Session, Work } from "./administration.ts";
import { wholeNumber } from "../whole-number.ts";

/** `crmsync sandbox tenant …` */
export function addTenantCommands(sandbox: Command): void {
  const tenant = sandbox.command("tenant").description("clients, one per name and environment");
  administer(sandbox, withLimits(tenant.command("create <name>")), create, {
    createsDatabase: true,
  }).description("create a client");
  administer(sandbox, tenant.command("list"), list).description("list all clients");
  administer(sandbox, withLimits(tenant.command("limits <name>")), setLimits).description(
    "set a client's own limits; without options, the server's limits apply again",
  );
  administer(sandbox, tenant.command("remove <name>"), remove).description(
    "remove a client and everything of it",
  );
}

function withLimits(command: Command): Command {
  return command
    .option("--per-hour <n>", "own limit of requests per hour", wholeNumber(1))
    .option("--burst <n>", "own limit of requests per burst window", wholeNumber(1));
}

const create: Work = (session, [name], flags) => {
  const tenant = tenantNamed(session, name!);
  session.administration.createTenant(tenant, limitsIn(flags));
  session.print(tenant, [
    `tenant ${tenant.name} (${tenant.environment}) created; its allow-list is still empty`,
  ]);
};

const list: Work = ({ administration, print }) => {
  const tenants = administration.tenants();
  print(
    tenants,
    tenants.map(({ name, environment, relations, activeTokens, perHour, burst }) =>
      [
        `${name} (${environment}): ${relations} relations, ${activeTokens} active tokens`,
        ...(perHour === null ? [] : [`${perHour} requests per hour`]),
        ...(burst === null ? [] : [`bursts of ${burst}`]),
      ].join(", "),
    ),
  );
};

const setLimits: Work = (session, [name], flags) => {
  const tenant = tenantNamed(session, name!);
  const limits = limitsIn(flags);
  session.administration.setLimits(tenant, limits);
  session.print({ ...tenant, ...limits }, [`limits of ${tenant.name} set`]);
};

const remove: Work = (session, [name]) => {
  const tenant = tenantNamed(session, name!);
  session.administration.removeTenant(tenant);
  session.print(tenant, [`tenant ${tenant.name} (${tenant.environment}) removed`]);
};

function tenantNamed({ tenant }: Session, name: string): TenantName {
  return { ...tenant, name };
}

function limitsIn(flags: TenantLimits): TenantLimits {
  return { perHour: flags.perHour, burst: flags.burst };
}
