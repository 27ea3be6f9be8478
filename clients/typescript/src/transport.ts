import { Deadline } from "./deadline.js";
import { ClosedError, type ErrorKind, InvalidInputError, MemoryError, type Outcome, UnavailableError } from "./error.js";
import { parseJson, writeJson } from "./json.js";

/** Options of any call. */
export interface CallOptions {
  /** Aborts the call. */
  readonly signal?: AbortSignal | undefined;
  /** The deadline of the call with its retries, in milliseconds; by default that of the client. */
  readonly timeout?: number | undefined;
}

/** Options of a client. */
export interface ConnectOptions {
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string | undefined;
  /** The deadline of a call with its retries, in milliseconds; 30,000 by default. */
  readonly timeout?: number | undefined;
  /** The limit of retries of a call; 4 by default. */
  readonly retries?: number | undefined;
  /** Used instead of the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
}

/** One request. */
export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: object | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Whether it can be sent again although an earlier attempt may have taken effect. */
  readonly repeatable: boolean;
  /** Whether it is a read although it is not a `GET`. */
  readonly reads?: true;
}

const DEFAULT_TIMEOUT = 30_000;
const DEFAULT_RETRIES = 4;
/** The first pause before a retry, and the longest one that the client chooses itself, in milliseconds. */
const PAUSES = { first: 100, longest: 5_000 };
/** The longest pause that a server may ask for, in milliseconds. */
const LONGEST_ASKED = 60_000;
/** Codes of network errors after which no request can have arrived. */
const UNREACHED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

/** Sends requests, and retries those that can be retried safely. */
export class Transport {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #timeout: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;
  readonly #advice: string;
  readonly #streams = new Set<Deadline>();
  #isClosed = false;

  /** `advice` is added to the message when the server can't be reached. */
  constructor(url: string | URL, options: ConnectOptions, advice: string) {
    this.#advice = advice;
    this.#base = checkedBase(url);
    this.#token = options.token;
    if (options.token !== undefined && !/^[\x21-\x7e]+$/.test(options.token)) {
      throw new InvalidInputError("a token must have visible ASCII characters only");
    }
    this.#timeout = options.timeout ?? DEFAULT_TIMEOUT;
    this.#retries = options.retries ?? DEFAULT_RETRIES;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Refuses all further calls, and ends the streams. */
  close(): void {
    this.#isClosed = true;
    for (const stream of this.#streams) stream.end();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The deadline of an endless connection: like that of a call, but closing the client ends it too. Its owner must call `endStream`. */
  beginStream(timeout: number, signal: AbortSignal | undefined): Deadline {
    const stream = new Deadline(timeout, signal);
    this.#streams.add(stream);
    return stream;
  }

  endStream(stream: Deadline): void {
    this.#streams.delete(stream);
    stream.end();
  }

  /** The deadline of a call, in milliseconds. Fails if the client is closed. */
  timeoutOf(options: CallOptions): number {
    if (this.#isClosed) throw new ClosedError("this client is closed");
    const timeout = options.timeout ?? this.#timeout;
    if (!(timeout > 0)) throw new InvalidInputError("a timeout must be a number of milliseconds above 0");
    return timeout;
  }

  /** Sends a request, with retries until the deadline, and returns the answer. */
  async call(request: Request, options: CallOptions = {}): Promise<unknown> {
    const timeout = this.timeoutOf(options);
    // Serialised before the first attempt, so that each attempt sends the same bytes.
    const body = request.body === undefined ? undefined : writeJson(request.body);
    const deadline = new Deadline(timeout, options.signal);
    let outcome: Outcome = "NotDone";
    try {
      for (let attempt = 0; ; attempt += 1) {
        if (deadline.hasPassed) throw deadline.error(outcome);
        const result = await this.#attempt(request, body, deadline);
        if (!(result instanceof Failure)) return result;
        const { error, retryAfter } = result;
        if (error.outcome === "Unknown") outcome = "Unknown";
        const mayRepeat = error.retryable && (error.outcome === "NotDone" || request.repeatable);
        const pause = retryAfter ?? jittered(attempt);
        if (!mayRepeat || attempt >= this.#retries || pause >= deadline.left()) {
          throw error.outcome === outcome ? error : error.withOutcome(outcome);
        }
        await deadline.pause(pause);
      }
    } finally {
      deadline.release();
    }
  }

  /** One attempt, up to the headers of its response; a `Failure` if it is refused or gets no response. */
  async open(request: Request, body: string | undefined, deadline: Deadline): Promise<Response | Failure> {
    const headers: Record<string, string> = { Accept: "application/json", ...request.headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#token !== undefined) headers["Authorization"] = `Bearer ${this.#token}`;
    const unknown = unlessRead(request);
    const url = this.#base + request.path + queryString(request.query);
    const { method } = request;
    try {
      const response = await this.#fetch(url, {
        method,
        headers,
        signal: deadline.signal,
        redirect: "manual",
        ...(body === undefined ? {} : { body }),
      });
      return response.ok ? response : new Failure(refusal(response, await response.text(), unknown), retryAfter(response));
    } catch (cause) {
      return this.broken(cause, unknown, deadline);
    }
  }

  /** The failure of an attempt without a complete response. */
  broken(cause: unknown, unknown: Outcome, deadline: Deadline): Failure {
    return new Failure(deadline.hasPassed ? deadline.error(unknown) : this.#unreachable(cause, unknown));
  }

  async #attempt(request: Request, body: string | undefined, deadline: Deadline): Promise<unknown> {
    const response = await this.open(request, body, deadline);
    if (response instanceof Failure || response.status === 204) return response instanceof Failure ? response : undefined;
    const unknown = unlessRead(request);
    let text: string;
    try {
      text = await response.text();
    } catch (cause) {
      return this.broken(cause, unknown, deadline);
    }
    try {
      return parseJson(text);
    } catch {
      const message = `${this.#base} does not answer with JSON: is this an agent-memory server?`;
      return new Failure(MemoryError.of("Unexpected", message, { outcome: unknown, status: response.status }));
    }
  }

  #unreachable(cause: unknown, unknown: Outcome): MemoryError {
    const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
    const code = String((reason as { code?: unknown } | undefined)?.code ?? "");
    const outcome = UNREACHED.has(code) ? "NotDone" : unknown;
    const why = code || (reason instanceof Error ? reason.message : "unknown");
    const advice = UNREACHED.has(code) ? `; ${this.#advice}` : "";
    return new UnavailableError(`no answer from ${this.#base} (${why})${advice}`, { outcome, retryable: true, cause });
  }
}

/** The error of an attempt, and the pause that the server asks for, in milliseconds. */
export class Failure {
  constructor(
    readonly error: MemoryError,
    readonly retryAfter?: number | undefined,
  ) {}
}

/** The outcome of an attempt that the server may have carried out. */
function unlessRead(request: Request): Outcome {
  return request.method === "GET" || request.reads === true ? "NotDone" : "Unknown";
}

function checkedBase(url: string | URL): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new InvalidInputError("the URL of a server must look like http://127.0.0.1:7700");
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
    throw new InvalidInputError("the URL of a server must begin with http:// or https://; Memory.open takes files and databases");
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new InvalidInputError("the URL of a server must hold no password: give a token");
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

/** The parameters of a query: one for each member of a list, and times in milliseconds. */
function queryString(query: object | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    // An empty `exclude` is no condition. Any other empty list would be sent as if it were absent, and select too much.
    if (Array.isArray(value) && value.length === 0 && name !== "exclude") {
      throw new InvalidInputError(`${name} is empty: name one, or leave it out`);
    }
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === undefined) continue;
      parameters.append(name, one instanceof Date ? String(one.getTime()) : String(one));
    }
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/** The error of a refusal, from its problem details, or else from the status. */
function refusal(response: Response, text: string, unknown: Outcome): MemoryError {
  const { status } = response;
  const isProblem = response.headers.get("content-type")?.startsWith("application/problem+json") === true;
  const problem = isProblem ? problemIn(text) : undefined;
  if (problem !== undefined) return errorOf(problem, status, unknown);
  // A proxy answers instead of the server, and does not say whether the request has arrived.
  const isRefusal = status >= 400 && status < 500;
  const [kind, outcome] = [kindOf(status), isRefusal ? "NotDone" : unknown] as const;
  const retryable = status === 429 || status === 502 || status === 503 || status === 504;
  return MemoryError.of(kind, `the server answers with status ${status} and without a reason`, { outcome, status, retryable });
}

/** The error of the problem details in an event. */
export function errorOfProblem(text: string): MemoryError {
  const problem = problemIn(text);
  if (problem !== undefined) return errorOf(problem, Number(problem.status), "NotDone");
  return MemoryError.of("Unexpected", "the server has ended the stream without a reason");
}

function errorOf(problem: Problem, status: number, unknown: Outcome): MemoryError {
  const kind = (problem.error as ErrorKind | undefined) ?? kindOf(status);
  const outcome = problem.outcome === "unknown" ? unknown : "NotDone";
  const isUnknownPath = problem.error === undefined && (status === 404 || status === 405);
  const advice = isUnknownPath ? ": the server is older than this client" : "";
  return MemoryError.of(kind, `${problem.detail}${advice}`, { outcome, status, retryable: problem.retryable === true });
}

interface Problem {
  readonly detail: string;
  readonly status?: number;
  readonly error?: string;
  readonly outcome?: string;
  readonly retryable?: boolean;
}

function problemIn(text: string): Problem | undefined {
  try {
    const problem = JSON.parse(text) as Partial<Problem> | null;
    return typeof problem?.detail === "string" ? (problem as Problem) : undefined;
  } catch {
    return undefined;
  }
}

function kindOf(status: number): ErrorKind {
  switch (status) {
    case 400:
    case 415:
    case 422:
      return "InvalidInput";
    case 401:
    case 403:
    case 421:
      return "Unauthorized";
    case 404:
    case 405:
      return "Unsupported";
    case 409:
    case 412:
      return "Conflict";
    case 413:
    case 414:
    case 431:
      return "TooLarge";
    case 429:
    case 502:
    case 503:
      return "Unavailable";
    case 504:
      return "Timeout";
    default:
      return "Unexpected";
  }
}

function retryAfter(response: Response): number | undefined {
  const value = response.headers.get("retry-after");
  if (value === null) return undefined;
  const milliseconds = /^\d+$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now();
  // Jitter spreads the retries of clients that were refused at the same time.
  return Number.isNaN(milliseconds) ? undefined : Math.min(Math.max(0, milliseconds), LONGEST_ASKED) + Math.random() * PAUSES.first;
}

/** A random pause, whose upper bound doubles with each attempt. */
export function jittered(attempt: number): number {
  return Math.random() * Math.min(PAUSES.longest, PAUSES.first * 2 ** attempt);
}
