/** Certificates of a test's own authority, made by openssl. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Certificates {
  readonly ca: string;
  /** For 127.0.0.1, also in its form for IPv6. */
  readonly server: { readonly cert: string; readonly key: string };
  readonly client: { readonly cert: string; readonly key: string };
}

/** @returns the names of the files. */
export function makeCertificates(openssl: string, dir: string): Certificates {
  const run = (...args: string[]) => execFileSync(openssl, args, { cwd: dir, stdio: "pipe" });
  const pair = (name: string) => ({
    cert: join(dir, `${name}.crt`),
    key: join(dir, `${name}.key`),
  });
  const newKey = (name: string) => [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-keyout",
    `${name}.key`,
  ];
  run("req", "-x509", ...newKey("ca"), "-out", "ca.crt", "-subj", "/CN=authority", "-days", "2");
  for (const name of ["server", "client"]) {
    run("req", ...newKey(name), "-out", `${name}.csr`, "-subj", `/CN=${name}`);
    writeFileSync(join(dir, `${name}.ext`), "subjectAltName=IP:127.0.0.1,IP:::ffff:127.0.0.1\n");
    const signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
    run(
      "x509",
      "-req",
      "-in",
      `${name}.csr`,
      ...signed,
      "-extfile",
      `${name}.ext`,
      "-out",
      `${name}.crt`,
    );
  }
  return { ca: pair("ca").cert, server: pair("server"), client: pair("client") };
}
