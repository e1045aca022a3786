/** Checks the section `pull` of a mapping file beyond its structure. */
import type { Mistake, Path } from "../mistake.ts";
import { nearest } from "../nearest.ts";
import { FETCH_FROM } from "../webhooks/rule.ts";
import type { PullRule } from "./rule.ts";

/** CRMs with a connector of their own, which PULL_FROM names. */
const CRMS: ReadonlySet<string> = new Set(FETCH_FROM);

/** @param known the objects that the mapping has rules for. */
export function checkPulls(
  pulls: Readonly<Record<string, PullRule>>,
  known: readonly string[],
): Mistake[] {
  return Object.entries(pulls).flatMap(([name, rule]) => {
    const found: (readonly [at: Path, message: string | undefined])[] = [
      [[], CRMS.has(name) ? `${name} has a connector: choose another name` : undefined],
      [["url"], wrongAddress(rule, known)],
      ...Object.entries({ ...rule.headers }).map(
        ([name, text]) => [["headers", name], wrongHeader(name, text)] as const,
      ),
      ...Object.keys({ ...rule.objects }).map(
        (object) => [["objects", object], wrongObject(object, known)] as const,
      ),
      [["paging"], wrongPaging(rule)],
    ];
    return found.flatMap(([at, message]) =>
      message === undefined ? [] : [{ path: ["pull", name, ...at], message }],
    );
  });
}

const PLACE = /\{([^{}]*)\}/g;
const placesIn = (text: string): string[] => [...text.matchAll(PLACE)].map(([, name = ""]) => name);

function wrongAddress(rule: PullRule, known: readonly string[]): string | undefined {
  const { headers = {}, objects, url } = rule;
  if (!/^https?:$/.test(URL.parse(url.replaceAll(PLACE, "x"))?.protocol ?? "")) {
    return "must be an address such as https://api.acme.example/contacts?updated_since={since}";
  }
  const unknown = placesIn(url).find((name) => name !== "since" && name !== "object");
  if (unknown !== undefined) {
    return `may contain {since} and {object}, but not {${unknown}}: secrets belong in \`headers\``;
  }
  if (![url, ...Object.values(headers)].some((text) => text.includes("{since}"))) {
    return "must contain {since}, the time from which it is asked, as in ?updated_since={since}; or a header must";
  }
  const names = objects === undefined ? known : Object.keys(objects);
  return names.length > 1 && !url.includes("{object}")
    ? `must contain {object}, because it lists ${names.join(", ")}; or say under \`objects\` which one it lists`
    : undefined;
}

/** Names of headers that hold a secret. */
const CREDENTIALS = /^(?:authorization|cookie|.*(?:key|token|secret).*)$/i;

function wrongHeader(name: string, text: string): string | undefined {
  if (!/^[A-Za-z0-9-]+$/.test(name)) return "must be the name of a header";
  const places = placesIn(text);
  const unknown = places.find(
    (one) => one !== "since" && one !== "object" && !/^[A-Z][A-Z0-9_]*$/.test(one),
  );
  if (unknown !== undefined) {
    return `{${unknown}} is not known here: secrets are environment variables in capitals, as {ACME_TOKEN}`;
  }
  return CREDENTIALS.test(name) && places.length === 0
    ? "must name an environment variable, never the secret itself: Bearer {ACME_TOKEN}"
    : undefined;
}

function wrongObject(object: string, known: readonly string[]): string | undefined {
  if (known.some((name) => name.toLowerCase() === object.toLowerCase())) return undefined;
  const near = nearest(object, known);
  const hint = near === undefined ? `there are ${known.join(", ")}` : `did you mean ${near}?`;
  return `the mapping has no rule for this object; ${hint}`;
}

function wrongPaging({ paging, url }: PullRule): string | undefined {
  if (paging === undefined || paging === "link") return undefined;
  const { next, page, parameter, token } = paging;
  if ([next, token, page].filter((one) => one !== undefined).length !== 1) {
    return "needs one of next, token and page";
  }
  if ((token === undefined) !== (parameter === undefined)) {
    return "`token` and `parameter` go together: the parameter takes the token";
  }
  const added = parameter ?? page ?? "";
  return URL.parse(url)?.searchParams.has(added) === true
    ? `adds the parameter ${added} to the address: remove it from \`url\``
    : undefined;
}
