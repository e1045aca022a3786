import type { Command } from "commander";
import { administer, type Work } from "./administration.ts";

/** `crmsync sandbox token …` */
export function addTokenCommands(sandbox: Command): void {
  const token = sandbox.command("token").description("bearer tokens; a client may have several");
  administer(
    sandbox,
    token.command("create").argument("[label]", "what it is for"),
    create,
  ).description("create a token; it is shown only now");
  administer(sandbox, token.command("list"), list).description("list a client's tokens");
  administer(
    sandbox,
    token.command("revoke").argument("<id>", "its id, as list shows it"),
    revoke,
  ).description("revoke a token, effective with the next request");
}

const create: Work = ({ administration, tenant, print }, [label]) => {
  const created = administration.createToken(tenant, label);
  print(created, [created.token]);
};

const list: Work = ({ administration, tenant, print }) => {
  const tokens = administration.tokens(tenant);
  print(
    tokens,
    tokens.map(({ id, label, createdAt, revokedAt }) =>
      `${id}  ${createdAt}  ${revokedAt === null ? "active" : `revoked ${revokedAt}`}  ${label}`.trimEnd(),
    ),
  );
};

const revoke: Work = ({ administration, print }, [id]) => {
  administration.revokeToken(id!);
  print({ id, revoked: true }, [`token ${id!} revoked`]);
};
