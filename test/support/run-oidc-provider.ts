/**
 * A real identity provider as a process of its own: oidc-provider, with its own pages for logging in.
 * Arguments: port, address of the console. Whoever logs in as `<name>.<group>.<group>` is in these groups.
 */
import { Provider } from "oidc-provider";
import { OIDC_CLIENT } from "./identity-provider.ts";

const [port = "", console = ""] = process.argv.slice(2);
const issuer = `http://localhost:${port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: OIDC_CLIENT.id,
      client_secret: OIDC_CLIENT.secret,
      // oidc-provider accepts a client's secret only as it was registered.
      token_endpoint_auth_method: "client_secret_post",
      redirect_uris: [`${console}/console/sign-in/callback`],
      backchannel_logout_uri: `${console}/console/backchannel-logout`,
      backchannel_logout_session_required: true,
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
  features: { backchannelLogout: { enabled: true } },
  cookies: { keys: ["a key of the provider's cookies"] },
  pkce: { required: () => true },
  // Its own fetch refuses addresses of this machine, by a dispatcher.
  fetch: (url: string, { method, headers, body }: RequestInit) =>
    fetch(url, { method, headers, body } as RequestInit),
  findAccount: (_context: unknown, id: string) => {
    const [name = "", ...groups] = id.split(".");
    const claims = { sub: id, email: `${name}@firm.example`, email_verified: true, groups };
    return { accountId: id, claims: () => claims };
  },
});

provider.listen(Number(port), "localhost", () => process.stdout.write(`${issuer}\n`));
