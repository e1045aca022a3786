import type { Command } from "commander";
import type { TenantLimits, TenantName } from "../../sandbox/administration.ts";
import { counted } from "../../ops/counted.ts";
import { administer, type Session, type Work } from "./administration.ts";
import { wholeNumber } from "../whole-number.ts";

/** `crmsync sandbox tenant …` */
export function addTenantCommands(sandbox: Command): void {
  const tenant = sandbox.command("tenant").description("clients, one per name and environment");
  administer(sandbox, withLimits(named(tenant.command("create"))), create, {
    createsDatabase: true,
    namesTenant: true,
  }).description("create a client");
  administer(sandbox, tenant.command("list"), list, { namesTenant: true }).description(
    "list all clients",
  );
  administer(sandbox, withLimits(named(tenant.command("limits"))), setLimits, {
    namesTenant: true,
  }).description(
    "set a client's own limits, one or both; without options, the server's limits apply again",
  );
  administer(sandbox, named(tenant.command("remove")), remove, { namesTenant: true }).description(
    "remove a client and everything of it",
  );
}

const named = (command: Command): Command => command.argument("<name>", "name of the client");

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
        `${name} (${environment}): ${counted(relations, "relation")}, ${counted(activeTokens, "active token")}`,
        ...(perHour === null ? [] : [`${counted(perHour, "request")} per hour`]),
        ...(burst === null ? [] : [`bursts of ${burst}`]),
      ].join(", "),
    ),
  );
};

const setLimits: Work = (session, [name], flags) => {
  const tenant = tenantNamed(session, name!);
  const limits = changedLimits(session, tenant, limitsIn(flags));
  session.administration.setLimits(tenant, limits);
  session.print({ ...tenant, ...limits }, [`limits of ${tenant.name} set`]);
};

/** A limit that is not given stays as it is. */
function changedLimits(
  { administration }: Session,
  { name, environment }: TenantName,
  given: TenantLimits,
): TenantLimits {
  const { perHour, burst } = given;
  if (perHour === undefined && burst === undefined) return given;
  const now = administration
    .tenants()
    .find((one) => one.name === name && one.environment === environment);
  return { perHour: perHour ?? now?.perHour ?? undefined, burst: burst ?? now?.burst ?? undefined };
}

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
