import type { Command } from "commander";
import { administer } from "./administration.ts";
import type { Work } from "./administration.ts";

/** `crmsync sandbox allow …` */
export function addAllowCommands(sandbox: Command): void {
  const allow = sandbox.command("allow").description("allowed addresses (IPv4, IPv6, CIDR)");
  administer(sandbox, allow.command("add <address...>"), add).description("allow addresses");
  administer(sandbox, allow.command("remove <address...>"), remove).description(
    "remove addresses from the allow-list",
  );
  administer(sandbox, allow.command("list"), list).description("list a client's allow-list");
}

const add: Work = (session, addresses) => {
  session.administration.allow(session.tenant, addresses);
  return list(session, [], {});
};

const remove: Work = (session, addresses) => {
  session.administration.disallow(session.tenant, addresses);
  return list(session, [], {});
};

const list: Work = ({ administration, tenant, print }) => {
  const addresses = administration.allowed(tenant);
  print(addresses, addresses);
};
