/** Checks the disks that crmsync itself writes to. */
import { statfs } from "node:fs/promises";
import type { Config } from "../config.ts";
import { ok, warn, type Check } from "./check.ts";

/** With less free space than this a file cannot grow for long, MiB. */
const LITTLE_MIB = 64;

/** Undefined: the disk of this folder has room. @throws an error of node:fs */
export async function littleRoom(dir: string): Promise<string | undefined> {
  const { bavail, bsize } = await statfs(dir);
  const left = Math.round((bavail * bsize) / 2 ** 20);
  return left < LITTLE_MIB ? `its disk has ${left} MiB left` : undefined;
}

/** A line only for a folder that is there, and where the embedded Redis keeps its data. */
export async function checkDataDir({ DATA_DIR: dir, REDIS_URL }: Config): Promise<Check[]> {
  if (REDIS_URL !== undefined) return [];
  const name = "data folder";
  try {
    const says = await littleRoom(dir);
    if (says === undefined) return [ok(name, `the disk of ${dir} has room`)];
    const remedy =
      "Free space: on a full disk the embedded Redis ends, and the daemon with it. No event is accepted, and nothing is sent.";
    return [warn(name, `${dir}: ${says}`, remedy)];
  } catch {
    return []; // the line about Redis says more
  }
}
