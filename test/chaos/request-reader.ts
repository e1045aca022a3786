export interface Request {
  /** Head and body, as received. */
  readonly bytes: Buffer;
  readonly body: string;
}

const HEAD_END = "\r\n\r\n";

/** Splits a client's bytes into requests; `onRequest` gets each complete one. */
export class RequestReader {
  readonly #onRequest: (request: Request) => void;
  #unread = Buffer.alloc(0);

  constructor(onRequest: (request: Request) => void) {
    this.#onRequest = onRequest;
  }

  read(bytes: Buffer): void {
    this.#unread = Buffer.concat([this.#unread, bytes]);
    for (;;) {
      const headEnd = this.#unread.indexOf(HEAD_END);
      if (headEnd < 0) return;
      const head = this.#unread.toString("latin1", 0, headEnd);
      const bodyStart = headEnd + HEAD_END.length;
      const end = bodyStart + Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0);
      if (this.#unread.length < end) return;
      const request = this.#unread.subarray(0, end);
      this.#unread = this.#unread.subarray(end);
      this.#onRequest({ bytes: request, body: request.toString("utf8", bodyStart) });
    }
  }
}
