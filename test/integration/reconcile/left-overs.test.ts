/** What runs of `crmsync reconcile` have left behind does not stay where no further run follows. */
import { mkdir, readdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "vitest";
import { startChore } from "../../support/chores.ts";
import { newRuntime } from "../../support/new-runtime.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { waitFor } from "../../support/wait-for.ts";

const DAY_MS = 86_400_000;

const DAYS_OLD = {
  "stdin-old": 8,
  "stdin-new": 6,
  "work-old.sqlite": 8,
  "work-old.sqlite-wal": 8,
  "plan-old.ndjson": 181,
  "plan-new.ndjson": 179,
  "plan-new.ndjson.part": 8,
};

test("the daemon removes copies and work files after a week, and plans after 180 days", async () => {
  await using dir = await tempDir();
  const folder = join(dir.path, "reconcile");
  await mkdir(folder);
  for (const [name, days] of Object.entries(DAYS_OLD)) {
    await writeFile(join(folder, name), "");
    const at = new Date(Date.now() - days * DAY_MS);
    await utimes(join(folder, name), at, at);
  }
  startChore(newRuntime({ DATA_DIR: dir.path }), "old files");
  await waitFor(
    async () => (await readdir(folder)).toSorted().join() === "plan-new.ndjson,stdin-new",
    { what: "only new files are left" },
  );
});
