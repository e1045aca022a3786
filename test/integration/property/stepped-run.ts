import type { ScriptedReply } from "./model-service.ts";
import type { Code } from "./records.ts";

export interface StepChoice {
  readonly reply: ScriptedReply;
  /** Whether an `unavailable` counts as having lasted too long. */
  readonly giveUp: boolean;
}

export const NO_FAULT: StepChoice = { reply: "ok", giveUp: false };

/**
 * A run that stops at each of its checkpoints until the next step. A worker that is never stepped
 * again has crashed.
 */
export class SteppedRun {
  readonly crmCode: Code;
  readonly token: string;
  /** Set by the last step. */
  choice: StepChoice = NO_FAULT;
  /** It has taken its record. */
  hasTaken = false;
  /** Its hold on the record has expired while it was stopped. */
  slept = false;
  /** Redis went back while it had its record: only this worker knows of its request, and does not die. */
  outlives = false;
  isOver = false;
  #resume: () => void = () => {};
  #stopped: PromiseWithResolvers<void> = Promise.withResolvers();

  constructor(crmCode: Code, token: string) {
    this.crmCode = crmCode;
    this.token = token;
  }

  /** Runs until the first checkpoint. */
  begin(work: () => Promise<unknown>): Promise<void> {
    const end = () => {
      this.isOver = true;
      this.#stopped.resolve();
    };
    work().then(end, (error: unknown) => this.#stopped.reject(error));
    return this.#stopped.promise;
  }

  /** Runs until the next checkpoint, or the end. */
  step(choice: StepChoice): Promise<void> {
    this.choice = choice;
    this.#stopped = Promise.withResolvers();
    this.#resume();
    return this.#stopped.promise;
  }

  checkpoint(): Promise<void> {
    this.#stopped.resolve();
    return new Promise((resolve) => {
      this.#resume = resolve;
    });
  }
}
