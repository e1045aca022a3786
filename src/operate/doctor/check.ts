/** One thing that the doctor has checked. */
export interface Check {
  readonly name: string;
  readonly result: "ok" | "warn" | "fail";
  readonly says: string;
  /** What to do about it; present whenever the result is not ok. */
  readonly remedy?: string;
}

export const ok = (name: string, says: string): Check => ({ name, result: "ok", says });

const bad =
  (result: "warn" | "fail") =>
  (name: string, says: string, remedy: string): Check => {
    return { name, result, says, remedy };
  };

export const warn = bad("warn");
export const fail = bad("fail");
