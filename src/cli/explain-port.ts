/** Says why a port could not be opened, with the variable to change. */
import { ConfigError } from "../base/config.ts";
import { UserError } from "../base/user-error.ts";

/** Node's error: it names the address on which Node could not listen, or the name that it could not resolve. */
interface ListenError {
  readonly code?: string;
  readonly syscall?: string;
  readonly address?: string;
  readonly port?: number;
  readonly hostname?: string;
}

/**
 * @param variable the one that sets the port
 * @param host the value of `hostVariable`, where that sets the address
 * @returns the error to throw; one that is not about opening this port stays as it is
 */
export function explainPort(
  error: unknown,
  variable: string,
  host = "127.0.0.1",
  hostVariable = "HTTP_HOST",
): unknown {
  const { code = "", syscall, address = "", port = 0, hostname } = (error ?? {}) as ListenError;
  if (syscall !== "listen" && hostname !== host) return error;
  switch (code) {
    // The program that uses it may end, so a supervisor should try again.
    case "EADDRINUSE":
      return new UserError(
        `port ${port} is in use on ${address}: set ${variable} to another one, or end the program that uses it`,
      );
    case "EACCES":
      return new ConfigError([`${variable} is ${port}, which this user may not open: set another`]);
    case "EADDRNOTAVAIL":
      return new ConfigError([
        `${hostVariable} is ${address}, which is no address of this machine`,
      ]);
    // While no name server answers, Node reports this even for a name that exists nowhere.
    case "EAI_AGAIN":
      return new UserError(
        `${hostVariable} is ${host}, and no name server answers for it: correct it, or start again later`,
      );
    case "ENOTFOUND":
      return new ConfigError([`${hostVariable} is ${host}, a name without an address`]);
    default:
      return error;
  }
}
