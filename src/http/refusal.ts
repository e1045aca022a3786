/** Refuses a request. Unlike those of other errors, its message is meant for the client. */
export class Refusal extends Error {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(statusCode: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.statusCode = statusCode;
    this.headers = headers;
  }
}
