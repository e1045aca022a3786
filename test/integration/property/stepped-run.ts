import type { Answer } from "./model-service.ts";
import type { Code } from "./truth.ts";

export interface StepChoice {
  readonly answer: Answer;
  /** Whether an `unavailable` counts as having lasted too long. */
  readonly giveUp: boolean;
}

export const WELL: StepChoice = { answer: "ok", giveUp: false };

/** Work that waits at each of its gates until it is told to go on; left waiting, it has crashed. */
export class SteppedRun {
  readonly crmCode: Code;
  readonly token: string;
  /** Told with the last step. */
  choice: StepChoice = WELL;
  /** From taking its record until the hold has passed to another. */
  holds = false;
  /** Its hold has run out while it waited. */
  slept = false;
  over = false;
  #resume: () => void = () => {};
  #moved: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(crmCode: Code, token: string) {
    this.crmCode = crmCode;
    this.token = token;
  }

  /** Runs until the first gate. */
  begin(work: () => Promise<unknown>): Promise<void> {
    const ended = () => {
      this.over = true;
      this.#moved.resolve();
    };
    work().then(ended, (error: unknown) => this.#moved.reject(error));
    return this.#moved.promise;
  }

  /** Runs until the next gate, or the end. */
  step(choice: StepChoice): Promise<void> {
    this.choice = choice;
    this.#moved = Promise.withResolvers();
    this.#resume();
    return this.#moved.promise;
  }

  gate(): Promise<void> {
    this.#moved.resolve();
    return new Promise((resolve) => {
      this.#resume = resolve;
    });
  }
}
