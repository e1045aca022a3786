/** Checks the disks that crmsync itself writes to. */
import type { Config } from "../config.ts";
import { mibLeft } from "../ops/data-dir.ts";
import { ok, warn, type Check } from "./check.ts";

/** With less free space than this a file cannot grow for long: time to act before the disk is full, MiB. */
const WARN_MIB = 64;

/** Undefined: the disk of this folder has room, or there is no such folder. */
export async function littleRoom(dir: string): Promise<string | undefined> {
  const left = (await mibLeft(dir)) ?? Infinity;
  return left < WARN_MIB ? `its disk has ${Math.round(left)} MiB left` : undefined;
}

/** A line only where the embedded Redis keeps its data. */
export async function checkDataDir({ DATA_DIR: dir, REDIS_URL }: Config): Promise<Check[]> {
  if (REDIS_URL !== undefined) return [];
  const name = "data folder";
  if ((await mibLeft(dir)) === undefined) return []; // the line about Redis says more
  const says = await littleRoom(dir);
  if (says === undefined) return [ok(name, `${dir} has room on its disk`)];
  const remedy =
    "Free space: on a full disk the embedded Redis ends, and the daemon with it. No event is accepted, and nothing is sent.";
  return [warn(name, `${dir}: ${says}`, remedy)];
}
