// oidc-provider has no types of its own. What run-oidc-provider.ts uses of it.
declare module "oidc-provider" {
  import type { Server } from "node:http";
  export class Provider {
    constructor(issuer: string, configuration: object);
    listen(port: number, host: string, ready: () => void): Server;
  }
}
