/** `crmsync certify`: makes the signed certificate of a month, and verifies one. */
import { Command, Option } from "commander";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { readConfig } from "../base/config.ts";
import { counted } from "../base/counted.ts";
import { printable } from "../base/printable.ts";
import { UserError } from "../base/user-error.ts";
import type { Certificate } from "../certify/collect.ts";
import { makeCertificate } from "../certify/make.ts";
import { summaryOf } from "../certify/page.ts";
import { certificateIn, check, hashOfFile, keyIdOf, publicKeyOf } from "../certify/seal.ts";
import { WrongUsage } from "./arguments.ts";
import { operatorName, withStores } from "./operator.ts";
import { print, printEither } from "./output.ts";

interface CertifyOptions {
  readonly month?: string;
  readonly out?: string;
  readonly audit?: readonly string[];
  readonly by?: string;
  readonly verify?: string;
  readonly key?: string;
  readonly json?: true;
}

export function certifyCommand(): Command {
  return new Command("certify")
    .description("make the signed certificate of completeness of a month, or verify one")
    .option(
      "--month <YYYY-MM>",
      "of this month (UTC), until now if it is the present one; default: the present one",
    )
    .option(
      "--out <file>",
      "where to write it: a page, or JSON where it ends with .json; - for stdout; default: certificate-<month>.html",
    )
    .option(
      "--audit <files...>",
      "files of the audit trail, the oldest first; default: AUDIT_LOG and what it was rotated to",
    )
    .option(
      "--verify <file>",
      "whether a certificate is as it was signed; needs neither Redis nor a configuration",
    )
    .option(
      "--key <public>",
      "with --verify: the public key that you know, as a file or in base64; default: that of CERTIFY_KEY",
    )
    .option("--json", "print what it says as JSON, too; with --out -, write it as JSON")
    .addOption(new Option("--by <who>", "of the console: who has asked for it").hideHelp())
    .addHelpText(
      "after",
      `
It is signed with CERTIFY_KEY, and its hash is a line of the audit trail:
  openssl genpkey -algorithm ed25519 -out certify.pem        (CERTIFY_KEY_FILE=certify.pem)
  openssl pkey -in certify.pem -pubout -out certify.pub      (for who verifies it)
It names crmCodes, records, owners, fields and times; no other values of persons.
Exit code of --verify: 1 if the file was changed, or another key has signed it.`,
    )
    .action(certify);
}

async function certify(options: CertifyOptions): Promise<void> {
  if (options.verify !== undefined) return verifyFile(options.verify, options);
  if (options.key !== undefined) throw new WrongUsage("--key is for --verify");
  const { audit: files, json, month, out } = options;
  const isJson = out === "-" ? json : out?.endsWith(".json");
  const format = isJson ? "json" : "html";
  const nameOf = (one: Certificate) => out ?? `certificate-${one.month}.html`;
  await withStores(async (stores) => {
    const user = await operatorName(stores);
    const by = options.by === undefined ? user : `${options.by} via ${user}`;
    const request = { month, format, by, files } as const;
    const { certificate, file, keyId } = await makeCertificate(stores, request, async (made) => {
      if (out !== "-") await writeNew(nameOf(made.certificate), made.file);
    });
    if (out === "-") process.stdout.write(file);
    else printEither(json, certificate, textOf(certificate, nameOf(certificate), keyId));
  }, readConfig());
}

async function writeNew(out: string, file: string): Promise<void> {
  await writeFile(out, file, { flag: "wx", mode: 0o600 }).catch((error: NodeJS.ErrnoException) => {
    throw new UserError(
      error.code === "EEXIST"
        ? `${out} is there already, and is not replaced: name another file by --out`
        : `${out} cannot be written (${error.code ?? ""})`,
    );
  });
}

const textOf = (certificate: Certificate, out: string, keyId: string): string =>
  [
    summaryOf(certificate),
    ...certificate.gaps.map((gap) => `! ${gap}`),
    `${out}, signed with the key ${keyId}`,
  ]
    .map(printable)
    .join("\n");

/** It must work on a machine that has nothing of crmsync but the program. */
async function verifyFile(name: string, { json, key: given }: CertifyOptions): Promise<void> {
  const own =
    given === undefined
      ? readConfig(undefined, ["CERTIFY_KEY"]).secrets.CERTIFY_KEY?.value()
      : undefined;
  const text = given ?? own;
  if (text === undefined) {
    throw new UserError(
      "whose certificate it must be is not known: give the public key by --key (without it, anybody could have signed it)",
    );
  }
  let file: Buffer;
  try {
    file = readFileSync(name);
  } catch (error) {
    throw new UserError(`${name} cannot be read (${(error as NodeJS.ErrnoException).code ?? ""})`);
  }
  const key = publicKeyOf(text);
  const checked = check(file, key);
  if (checked.kind !== "genuine") {
    throw new UserError(`${name} is refused: ${whyRefused(checked, keyIdOf(key))}`);
  }
  const certificate = certificateIn(file) as Certificate;
  const { exceptions = [] } = certificate.state ?? {};
  print(
    [
      `${name} is as it was signed, with the key ${keyIdOf(key)}`,
      `${certificate.month} of ${certificate.tenant}, made at ${certificate.madeAt} by ${certificate.by}: ${counted(exceptions.length, "exception")}, ${counted(certificate.gaps.length, "gap")} in the evidence`,
      `${hashOfFile(file)} (in the audit trail: act certify)`,
    ]
      .map(printable)
      .join("\n"),
  );
  if (json) print(JSON.stringify(certificate));
}

function whyRefused(
  checked: Exclude<ReturnType<typeof check>, { kind: "genuine" }>,
  keyId: string,
): string {
  switch (checked.kind) {
    case "no_certificate":
      return "its last line is not the signature of a certificate; the file was changed or cut off, or is another one";
    case "changed":
      return "it was changed after it was signed";
    case "other_key":
      return `it was signed with another key (${checked.keyId}, not ${keyId}): it is not from whom you think, or the key was replaced`;
  }
}
