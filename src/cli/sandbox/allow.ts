import type { Command } from "commander";
import { administer, type Work } from "./administration.ts";

/** `crmsync sandbox allow …` */
export function addAllowCommands(sandbox: Command): void {
  const allow = sandbox.command("allow").description("allowed addresses (IPv4, IPv6, CIDR)");
  administer(sandbox, addressed(allow.command("add")), add).description("allow addresses");
  administer(sandbox, addressed(allow.command("remove")), remove).description(
    "remove addresses from the allow-list",
  );
  administer(sandbox, allow.command("list"), list).description("list a client's allow-list");
}

const addressed = (command: Command): Command =>
  command.argument("<address...>", "such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::7");

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
