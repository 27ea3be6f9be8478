export { Documents } from "./documents.js";
export {
  AbortedError,
  ClosedError,
  ConflictError,
  ErasedError,
  type ErrorKind,
  FeedResetError,
  InvalidInputError,
  LimitExceededError,
  MemoryError,
  NotFoundError,
  type Outcome,
  TimeoutError,
  TooLargeError,
  UnauthorizedError,
  UnavailableError,
} from "./error.js";
export type { Json, JsonObject } from "./json.js";
export { Memory, type OpenOptions } from "./memory.js";
export { spaceOf } from "./space.js";
export type { CallOptions, ConnectOptions } from "./transport.js";
export type * from "./types.js";
