import { AbortedError, type MemoryError, type Outcome, TimeoutError } from "./error.js";

/** The deadline of a call: it ends after a time, or when the caller's signal aborts it. */
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

  /** The signal that aborts the requests of the call. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the call has ended, for any reason. */
  get hasPassed(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Whether the call has ended because its time has passed. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** The milliseconds that are left. */
  left(): number {
    return this.hasPassed ? 0 : Math.max(0, this.#end - performance.now());
  }

  /** The error with which the call has ended. */
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

  /** Restarts the time, with this many milliseconds. */
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

  /** Stops the time until it is restarted. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** Releases the timer and the caller's signal. */
  release(): void {
    this.stop();
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }

  /** Aborts the requests of the call, and releases everything. */
  end(): void {
    this.release();
    this.#controller.abort();
  }
}
