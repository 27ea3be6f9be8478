import { Deadline } from "./deadline.js";
import { ClosedError, type ErrorKind, InvalidInputError, MemoryError, type Outcome, UnavailableError } from "./error.js";
import { parseJson, writeJson } from "./json.js";

/** What any call takes. */
export interface CallOptions {
  /** Ends the call. */
  readonly signal?: AbortSignal | undefined;
  /** How long the call may take with its retries, in milliseconds; that of the client unless given. */
  readonly timeout?: number | undefined;
}

/** How a client talks to its server. */
export interface ConnectOptions {
  /** Sent as `Authorization: Bearer`. */
  readonly token?: string | undefined;
  /** How long a call may take with its retries, in milliseconds; 30,000 unless given. */
  readonly timeout?: number | undefined;
  /** How often a call is repeated at most; 4 unless given. */
  readonly retries?: number | undefined;
  /** Stands for the global `fetch`. */
  readonly fetch?: typeof fetch | undefined;
}

/** One request. */
export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: object | undefined;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
  /** Whether it can be sent again though it may have had its effect already. */
  readonly repeatable: boolean;
}

const DEFAULT_TIMEOUT = 30_000;
const DEFAULT_RETRIES = 4;
/** The first pause before another attempt and the longest one that the client chooses itself, in milliseconds. */
const PAUSES = { first: 100, longest: 5_000 };
/** The longest pause that a server can ask for, in milliseconds. */
const LONGEST_ASKED = 60_000;
/** What the network says when no request can have arrived. */
const UNREACHED = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

/** Sends requests, and repeats those that can be repeated safely. */
export class Transport {
  readonly #base: string;
  readonly #token: string | undefined;
  readonly #timeout: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;
  readonly #advice: string;
  #isClosed = false;

  /** `advice` says what to do when the server is not there. */
  constructor(url: string | URL, options: ConnectOptions, advice: string) {
    this.#advice = advice;
    this.#base = checkedBase(url);
    this.#token = options.token;
    if (options.token !== undefined && !/^[\x21-\x7e]+$/.test(options.token)) {
      throw new InvalidInputError("a token has visible ASCII characters alone");
    }
    this.#timeout = options.timeout ?? DEFAULT_TIMEOUT;
    this.#retries = options.retries ?? DEFAULT_RETRIES;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
  }

  /** Refuses all further calls. */
  close(): void {
    this.#isClosed = true;
  }

  /** The answer to a request, with retries until the deadline. */
  async call(request: Request, options: CallOptions = {}): Promise<unknown> {
    if (this.#isClosed) throw new ClosedError("this client is closed");
    const timeout = options.timeout ?? this.#timeout;
    if (!(timeout > 0)) throw new InvalidInputError("a timeout is a number of milliseconds above 0");
    // Before the first attempt, so that each attempt sends the same bytes.
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

  async #attempt(request: Request, body: string | undefined, deadline: Deadline): Promise<unknown> {
    const headers: Record<string, string> = { Accept: "application/json", ...request.headers };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.#token !== undefined) headers["Authorization"] = `Bearer ${this.#token}`;
    const unknown: Outcome = request.method === "GET" ? "NotDone" : "Unknown";
    const url = this.#base + request.path + queryString(request.query);
    let response: Response;
    let text: string;
    try {
      const { method } = request;
      response = await this.#fetch(url, {
        method,
        headers,
        signal: deadline.signal,
        redirect: "manual",
        ...(body === undefined ? {} : { body }),
      });
      text = await response.text();
    } catch (cause) {
      if (deadline.hasPassed) return new Failure(deadline.error(unknown));
      return new Failure(this.#unreachable(cause, unknown));
    }
    if (!response.ok) return new Failure(refusal(response, text, unknown), retryAfter(response));
    if (response.status === 204) return undefined;
    try {
      return parseJson(text);
    } catch {
      const message = `${this.#base} answers with something else than JSON: is it the address of agent-memory?`;
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

/** What an attempt came to, and how many milliseconds the server wants to be left alone. */
class Failure {
  constructor(
    readonly error: MemoryError,
    readonly retryAfter?: number | undefined,
  ) {}
}

function checkedBase(url: string | URL): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new InvalidInputError("the URL of a server looks like http://127.0.0.1:7700");
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
    throw new InvalidInputError("the URL of a server begins with http:// or https://; Memory.open takes files and databases");
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw new InvalidInputError("the URL of a server holds no password; give a token");
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, "");
}

/** Each value of a query, lists as often as they have members, times as milliseconds. */
function queryString(query: object | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    // To leave out none is no condition, but to name no space or status finds nothing, and can't be meant.
    if (Array.isArray(value) && value.length === 0 && name !== "exclude") throw new InvalidInputError(`${name} is an empty list`);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one === undefined || one === false) continue;
      parameters.append(name, one instanceof Date ? String(one.getTime()) : String(one));
    }
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/** Why the server refused, by its problem details; else by the status. */
function refusal(response: Response, text: string, unknown: Outcome): MemoryError {
  const { status } = response;
  const problem = problemIn(response, text);
  if (problem === undefined) {
    // A proxy speaks for the server here, and does not say whether the request arrived.
    const isRefusal = status >= 400 && status < 500;
    const [kind, outcome] = [kindOf(status), isRefusal ? "NotDone" : unknown] as const;
    const retryable = status === 429 || status === 502 || status === 503 || status === 504;
    return MemoryError.of(kind, `the server answers with status ${status} and without a reason`, { outcome, status, retryable });
  }
  const kind = (problem.error as ErrorKind | undefined) ?? kindOf(status);
  const outcome = problem.outcome === "unknown" ? unknown : "NotDone";
  const isUnknownPath = problem.error === undefined && (status === 404 || status === 405);
  const advice = isUnknownPath ? ": the server is older than this client" : "";
  return MemoryError.of(kind, `${problem.detail}${advice}`, { outcome, status, retryable: problem.retryable === true });
}

interface Problem {
  readonly detail: string;
  readonly error?: string;
  readonly outcome?: string;
  readonly retryable?: boolean;
}

function problemIn(response: Response, text: string): Problem | undefined {
  if (!response.headers.get("content-type")?.startsWith("application/problem+json")) return undefined;
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
  // Jitter keeps those apart whom one answer has sent away together.
  return Number.isNaN(milliseconds) ? undefined : Math.min(Math.max(0, milliseconds), LONGEST_ASKED) + Math.random() * PAUSES.first;
}

/** A random pause, of which the upper bound doubles with each attempt. */
function jittered(attempt: number): number {
  return Math.random() * Math.min(PAUSES.longest, PAUSES.first * 2 ** attempt);
}
