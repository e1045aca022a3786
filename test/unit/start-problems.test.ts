import { expect, test } from "vitest";
import { examineConfig, readConfig } from "../../src/base/config.ts";
import { checkConfiguration } from "../../src/operate/doctor/configuration.ts";
import { businessRelationMapping } from "../../src/intake/mapping/business-relation.ts";
import { hashProblems, mistypedVariables, startProblems } from "../../src/whole/start-problems.ts";

const ALL = new Set(["http", "intake", "sync"] as const);
const TOKEN = "a-secret-of-24-characters";
const KEY = Buffer.alloc(32, 7).toString("base64");
const SIGNING = `whsec_${KEY}`;

// What is refused, and what the sentence says to do about it: that is accepted.
test.for([
  [{ NOTIFY_SECRET: SIGNING }, { NOTIFY_URL: "https://hooks.example" }, "without NOTIFY_URL"],
  [{ NOTIFY_FORMAT: "slack" }, { NOTIFY_FORMAT: "" }, "remove NOTIFY_FORMAT"],
  [
    { OUTCOME_WEBHOOK_SECRET: SIGNING },
    { OUTCOME_WEBHOOK: "https://crm.example" },
    "without OUTCOME_WEBHOOK",
  ],
  [{ RECONCILE_APPLY: "1" }, { RECONCILE_DIR: "." }, "RECONCILE_DIR or RECONCILE_CRON"],
  [
    { QUALITY_CRON: "0 7 * * 1" },
    { QUALITY_WEBHOOK: "https://crm.example" },
    "without QUALITY_WEBHOOK or SMTP_URL",
  ],
  [{ QUALITY_MAIL_DOMAINS: "firm.example" }, { QUALITY_MAIL_DOMAINS: "" }, "without SMTP_URL"],
  [{ AUDIT_KEY: KEY }, { AUDIT_LOG: "stdout" }, "without AUDIT_LOG"],
  [{ AUDIT_LOG: "/" }, { AUDIT_LOG: "stdout" }, "(EISDIR): name a file"],
  [{ RECONCILE_DIR: "package.json" }, { RECONCILE_DIR: "." }, "(ENOTDIR): name a folder"],
  [{ RECONCILE_DIR: "package.json/in" }, { RECONCILE_DIR: "." }, "(ENOTDIR): name a folder"],
  [
    { SALESFORCE_CLIENT_ID: "id", SALESFORCE_URL: "https://crm.example" },
    { SALESFORCE_CLIENT_SECRET: "secret" },
    "without SALESFORCE_CLIENT_SECRET",
  ],
  [{ ESPOCRM_URL: "https://crm.example" }, { ESPOCRM_URL: "" }, "without ESPOCRM_API_KEY"],
  [{ INGEST_AUTH: "none", INGEST_TOKEN: TOKEN }, { INGEST_AUTH: "" }, "without INGEST_TOKEN"],
  [
    { APPROVALS: "held", OPERATOR_TOKEN: `anna:${TOKEN}` },
    { OPERATOR_TOKEN: `anna:${TOKEN} ben:another-${TOKEN}` },
    "APPROVALS needs two people",
  ],
  // One person with two tokens could approve nothing.
  [
    { APPROVALS: "held", OPERATOR_TOKEN: `anna.mueller:${TOKEN} Müller-Anna:other-${TOKEN}` },
    { OPERATOR_TOKEN: `anna.mueller:${TOKEN} ben:other-${TOKEN}` },
    "names of the same words are one person",
  ],
] as const)("%j is refused, and accepted with %j", async ([wrong, mended, says]) => {
  expect(await startProblems(readConfig(wrong), ALL)).toEqual([expect.stringContaining(says)]);
  expect(await startProblems(readConfig({ ...wrong, ...mended }), ALL)).toEqual([]);
});

test("of tokens that cannot be used only that is said", async () => {
  const { config, problems } = examineConfig({ APPROVALS: "held", OPERATOR_TOKEN: "anna:x ben:y" });
  expect(problems).toEqual([expect.stringContaining("OPERATOR_TOKEN is shorter than")]);
  expect(await startProblems(config, ALL)).toEqual([]);
});

test("a mapping that is a module cannot be approved", () => {
  const module = { ...businessRelationMapping, name: "map.ts", hash: undefined };
  const approving = readConfig({ APPROVALS: "held,mapping" });
  expect(hashProblems(approving, module)).toEqual([
    expect.stringMatching(/the mapping map\.ts is a module, which may import other files/),
  ]);
  expect(hashProblems(approving, businessRelationMapping)).toEqual([]);
  expect(hashProblems(readConfig({ APPROVALS: "held" }), module)).toEqual([]);
});

test.for([
  ["QUOTA_PERHOUR", "QUOTA_PER_HOUR"],
  ["REQUEST_PER_HOUR", "QUOTA_PER_HOUR"],
  ["quota_per_hour", "QUOTA_PER_HOUR"],
  ["SERVICE_BASEURL", "SERVICE_BASE_URL"],
  ["SERVICE_URL", "SERVICE_BASE_URL"],
  ["SERVICE_TOKEN_FIEL", "SERVICE_TOKEN_FILE"],
  ["INGEST_TOKENS_FILE", "INGEST_TOKEN_FILE"],
  ["REDIS_URI", "REDIS_URL"],
  ["STAET_KEY", "STATE_KEY"],
  ["HTTP_PROT", "HTTP_PORT"],
  ["MAPPINGS", "MAPPING"],
  ["TERMINATION_LIMIT", "TERMINATE_LIMIT"],
  // Only secrets may be in files.
  ["MAPPING_FILE", "MAPPING"],
] as const)("%s is taken for %s", ([variable, meant]) => {
  const config = readConfig({ [variable]: "1" });
  expect(mistypedVariables(config)).toEqual([{ variable, meant }]);
});

test.for([
  "HOME PATH PWD LANG TERM USER SHELL HOSTNAME SHLVL TZ EDITOR MAIL LOGNAME LS_COLORS TMPDIR INVOCATION_ID",
  "JOURNAL_STREAM NOTIFY_SOCKET LISTEN_PID LISTEN_FDS STATE_DIRECTORY LOGS_DIRECTORY CREDENTIALS_DIRECTORY",
  "KUBERNETES_PORT KUBERNETES_SERVICE_HOST REDIS_PORT REDIS_SERVICE_HOST REDIS_SERVICE_PORT REDIS_PORT_6379_TCP",
  "CRMSYNC_PORT CRMSYNC_SERVICE_HOST HTTP_SERVICE_PORT SERVICE_HOST SERVICE_PORT SERVICE_NAME",
  "REDIS_HOST REDIS_PASSWORD REDIS_TLS DATABASE_URL DB_HOST DB_PORT SMTP_HOST SMTP_PORT APP_PORT FTP_PORT PORT",
  "http_proxy https_proxy no_proxy all_proxy ALL_PROXY FTP_PROXY ftp_proxy RSYNC_PROXY",
  "NODE_ENV NODE_OPTIONS NODE_EXTRA_CA_CERTS NODE_VERSION MALLOC_ARENA_MAX MALLOC_TRIM_THRESHOLD_ LD_PRELOAD",
  "OTEL_EXPORTER_OTLP_TIMEOUT OTEL_TRACES_EXPORTER OTEL_SERVICE_NAME OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
  "XDG_DATA_DIRS XDG_RUNTIME_DIR npm_config_cache npm_lifecycle_event DEBUG CI GITHUB_TOKEN GITHUB_API_URL",
  "OPENAI_BASE_URL STRIPE_WEBHOOK_SECRET ODOO_WEBHOOK_SECRET SENTRY_DSN LOG_FILE LOG_DIR DATA_ROOT GIT_AUTHOR_DATE",
  "SSL_CERT_FILE SSL_CERT_DIR AWS_REGION AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AZURE_CLIENT_ID AZURE_TENANT_ID AZURE_CLIENT_SECRET",
])("of %s, none is taken for a variable of crmsync", (names) => {
  const env = Object.fromEntries(names.split(" ").map((name) => [name, "http://a"]));
  expect(mistypedVariables(readConfig(env))).toEqual([]);
});

test("nothing is said of a name that is like one that is set, or that the mapping file names", () => {
  const set = { QUOTA_PER_HOUR: "900", REQUEST_PER_HOUR: "1", INGEST_TOKEM: "1" };
  expect(mistypedVariables(readConfig(set))).toEqual([
    { variable: "INGEST_TOKEM", meant: "INGEST_TOKEN" },
  ]);
  const config = readConfig({ INGEST_TOKEM: "a-secret-of-24-charact.rs" });
  config.namedSecret("INGEST_TOKEM");
  expect(mistypedVariables(config)).toEqual([]);
});

test("the doctor names the variable that was probably meant", async () => {
  const checks = await checkConfiguration(readConfig({ QUOTA_PERHOUR: "500" }));
  expect(checks.find(({ name }) => name === "variables")).toEqual({
    name: "variables",
    result: "warn",
    says: "QUOTA_PERHOUR is set, and crmsync does not read it",
    remedy: "If QUOTA_PER_HOUR was meant, correct the name where the daemon is started.",
  });
});
