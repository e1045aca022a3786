export interface Request {
  /** Head and body, as they came. */
  readonly bytes: Buffer;
  readonly body: string;
}

const HEAD_END = "\r\n\r\n";

/** Cuts what a client sends into requests, each told once it is whole. */
export class RequestReader {
  readonly #tell: (request: Request) => void;
  #unread = Buffer.alloc(0);

  constructor(tell: (request: Request) => void) {
    this.#tell = tell;
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
      this.#tell({ bytes: request, body: request.toString("utf8", bodyStart) });
    }
  }
}
