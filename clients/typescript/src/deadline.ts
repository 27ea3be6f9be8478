import { AbortedError, type MemoryError, type Outcome, TimeoutError } from "./error.js";

/** The end of a call: after a time, or when the caller's signal says so. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #end: number;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#controller.abort();

  /** `timeout` is in milliseconds. */
  constructor(
    readonly timeout: number,
    signal: AbortSignal | undefined,
  ) {
    this.#end = performance.now() + timeout;
    this.#timer = setTimeout(() => this.#controller.abort(), Math.min(timeout, 2 ** 31 - 1));
    this.#signal = signal;
    if (signal?.aborted) this.#controller.abort();
    signal?.addEventListener("abort", this.#onAbort);
  }

  /** Ends the requests of the call. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get hasPassed(): boolean {
    return this.#controller.signal.aborted;
  }

  /** How many milliseconds are left. */
  left(): number {
    return this.hasPassed ? 0 : Math.max(0, this.#end - performance.now());
  }

  /** Why the call ended. */
  error(outcome: Outcome): MemoryError {
    if (this.#signal?.aborted) {
      return new AbortedError("the call was aborted", { outcome, cause: this.#signal.reason });
    }
    return new TimeoutError(`the call took longer than ${this.timeout} ms`, { outcome });
  }

  /** Resolves after a pause in milliseconds, or when the call ends. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const signal = this.#controller.signal;
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      signal.addEventListener("abort", done);
      if (signal.aborted) done();
    });
  }

  /** Lets go of the timer and the caller's signal. */
  release(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }
}
