/** Whether a failed call may have taken effect: `NotDone` if nothing was written, `Unknown` if that is not known. */
export type Outcome = "NotDone" | "Unknown";

/** The kind of an error: those of the contract, and `Aborted` if the caller's signal ended the call. */
export type ErrorKind =
  | "InvalidInput"
  | "TooLarge"
  | "NotFound"
  | "Erased"
  | "Conflict"
  | "LimitExceeded"
  | "Unsupported"
  | "Unavailable"
  | "Timeout"
  | "Unauthorized"
  | "Corrupt"
  | "SchemaMismatch"
  | "FeedReset"
  | "Closed"
  | "Unexpected"
  | "Aborted";

/** The properties of an error besides its kind and message. */
export interface ErrorDetails {
  /** `NotDone` by default. */
  readonly outcome?: Outcome;
  /** The HTTP status of the response, if there was one. */
  readonly status?: number;
  /** Whether the same call can succeed later; false by default. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/** The error of a failed call. The message holds no payload and no token. */
export class MemoryError extends Error {
  readonly kind: ErrorKind;
  readonly outcome: Outcome;
  readonly retryable: boolean;
  readonly status: number | undefined;

  constructor(kind: ErrorKind, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = kind === "Aborted" ? "AbortError" : `${kind}Error`;
    this.kind = kind;
    this.outcome = details.outcome ?? "NotDone";
    this.retryable = details.retryable ?? false;
    this.status = details.status;
  }

  /** Makes an error of the class for its kind. */
  static of(kind: ErrorKind, message: string, details: ErrorDetails = {}): MemoryError {
    const Class = CLASSES[kind];
    return Class === undefined ? new MemoryError(kind, message, details) : new Class(message, details);
  }

  /** The same error with the outcome of the whole call, which an earlier attempt may have made `Unknown`. */
  withOutcome(outcome: Outcome): MemoryError {
    const { kind, message, retryable, cause, status } = this;
    return MemoryError.of(kind, message, { outcome, retryable, cause, ...(status === undefined ? {} : { status }) });
  }
}

type ErrorClass = new (message: string, details?: ErrorDetails) => MemoryError;

/** Makes the base class for a kind. */
function errorOf(kind: ErrorKind): ErrorClass {
  return class extends MemoryError {
    constructor(message: string, details?: ErrorDetails) {
      super(kind, message, details);
    }
  };
}

/** An argument is not valid. */
export class InvalidInputError extends errorOf("InvalidInput") {}

/** An argument is over a limit. */
export class TooLargeError extends errorOf("TooLarge") {}

/** No record has this id. */
export class NotFoundError extends errorOf("NotFound") {}

/** The memory was erased or has expired, and can't be restored. */
export class ErasedError extends errorOf("Erased") {}

/** The revision is another one, the id is taken, or the idempotency key belongs to another memory. */
export class ConflictError extends errorOf("Conflict") {}

/** A removal found more than it may remove, and removed nothing. */
export class LimitExceededError extends errorOf("LimitExceeded") {}

/** The token is missing, or does not allow this. */
export class UnauthorizedError extends errorOf("Unauthorized") {}

/** The server or its engine can't be reached now. */
export class UnavailableError extends errorOf("Unavailable") {}

/** The deadline of the call, or one of the server, has passed. */
export class TimeoutError extends errorOf("Timeout") {}

/** The caller's signal ended the call. Its `name` is `AbortError`, and its `cause` the reason of the signal. */
export class AbortedError extends errorOf("Aborted") {}

/** The feed has lost changes after the token of a watch: begin again with a snapshot. */
export class FeedResetError extends errorOf("FeedReset") {}

/** This client has been closed. */
export class ClosedError extends errorOf("Closed") {}

const CLASSES: Partial<Record<ErrorKind, ErrorClass>> = {
  InvalidInput: InvalidInputError,
  TooLarge: TooLargeError,
  NotFound: NotFoundError,
  Erased: ErasedError,
  Conflict: ConflictError,
  LimitExceeded: LimitExceededError,
  Unauthorized: UnauthorizedError,
  Unavailable: UnavailableError,
  Timeout: TimeoutError,
  FeedReset: FeedResetError,
  Aborted: AbortedError,
  Closed: ClosedError,
};
