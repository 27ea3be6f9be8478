import { AbortedError, type MemoryError, type Outcome, TimeoutError } from "./error.js";

/** The end of a call: after a time, or when the caller's signal says so. */
export class Deadline {
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#controller.abort();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timeout = 0;
  #end = 0;
  #isOver = false;

  /** `timeout` is in milliseconds. */
  constructor(timeout: number, signal: AbortSignal | undefined) {
    this.restart(timeout);
    this.#signal = signal;
    if (signal?.aborted) this.#controller.abort();
    signal?.addEventListener("abort", this.#onAbort);
  }

  /** Ends the requests of the call. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the call has ended, for whatever reason. */
  get hasPassed(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Whether it was the time that has ended it. */
  get isOver(): boolean {
    return this.#isOver;
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
    return new TimeoutError(`the call took longer than ${Math.round(this.#timeout)} ms`, { outcome });
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

  /** Begins the time anew, with so many milliseconds. */
  restart(timeout: number): void {
    this.stop();
    this.#timeout = timeout;
    this.#end = performance.now() + timeout;
    const over = () => {
      this.#isOver = true;
      this.#controller.abort();
    };
    this.#timer = setTimeout(over, Math.min(timeout, 2 ** 31 - 1));
  }

  /** Stops the time until it begins anew. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Lets go of the timer and the caller's signal. */
  release(): void {
    this.stop();
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }

  /** Ends the requests of the call, and lets go of everything. */
  end(): void {
    this.release();
    this.#controller.abort();
  }
}
