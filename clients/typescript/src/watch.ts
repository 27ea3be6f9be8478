import type { Deadline } from "./deadline.js";
import { MemoryError, TimeoutError, UnavailableError } from "./error.js";
import { EventParser, type ServerEvent } from "./events.js";
import { parseJson } from "./json.js";
import { type CallOptions, errorOfProblem, Failure, jittered, type Request, type Transport } from "./transport.js";
import type { Change, WatchQuery } from "./types.js";

/** After how many milliseconds without data a connection counts as broken: a server sends something every 15 seconds. */
const SILENCE = 45_000;

/**
 * The changes of some records, over any number of connections. After a temporary failure the next connection resumes after the last change.
 * The deadline is that of a call, and restarts after each connection that has brought a change. Ends when the client is closed.
 */
export async function* changes(
  transport: Transport,
  query: WatchQuery,
  options: CallOptions,
  silence = SILENCE,
): AsyncGenerator<Change, void, undefined> {
  const timeout = transport.timeoutOf(options);
  let end = performance.now() + timeout;
  let [attempt, pause] = [0, 0];
  let token: string | undefined;
  while (!transport.isClosed) {
    const deadline = transport.beginStream(end - performance.now(), options.signal);
    let hasBrought = false;
    let failure: Failure;
    try {
      await deadline.pause(pause);
      const response = await transport.open(requestOf(query, token), undefined, deadline);
      if (response instanceof Failure) failure = response;
      else {
        for await (const event of eventsOf(response, deadline, silence)) {
          if (deadline.hasPassed) break;
          const change = changeOf(event);
          [token, hasBrought] = [change.token, true];
          yield change;
        }
        failure = new Failure(new UnavailableError("the server has ended the watch", { retryable: true }));
      }
    } catch (cause) {
      failure = cause instanceof MemoryError ? new Failure(cause) : transport.broken(cause, "NotDone", deadline);
    } finally {
      transport.endStream(deadline);
    }
    if (transport.isClosed) return;
    if (options.signal?.aborted) throw deadline.error("NotDone");
    if (!failure.error.retryable) throw failure.error;
    const now = performance.now();
    if (hasBrought) {
      end = now + timeout;
      // Some backoff stays, for connections that break repeatedly: pauses of up to 800 ms.
      attempt = Math.min(attempt, 3);
    }
    pause = failure.retryAfter ?? jittered(attempt);
    attempt += 1;
    if (now + pause >= end) throw failure.error;
  }
}

function requestOf(query: WatchQuery, token: string | undefined): Request {
  const last: Record<string, string> = token === undefined ? {} : { "Last-Event-ID": token };
  return { method: "GET", path: "/v1/watch", query, headers: { Accept: "text/event-stream", ...last }, repeatable: true };
}

async function* eventsOf(response: Response, deadline: Deadline, silence: number): AsyncGenerator<ServerEvent, void, undefined> {
  const isStream = response.status === 200 && response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  if (!isStream || response.body === null) {
    throw MemoryError.of("Unexpected", "the server does not answer with events: is this an agent-memory server?");
  }
  const [reader, parser] = [response.body.getReader(), new EventParser()];
  for (;;) {
    deadline.restart(silence);
    const { done, value } = await reader.read().catch((cause: unknown) => {
      if (!deadline.isOver) throw cause;
      throw new TimeoutError(`the server has sent nothing for ${silence} ms`, { retryable: true, cause });
    });
    // The time that the caller takes for a change does not count as silence.
    deadline.stop();
    if (done) return;
    yield* parser.push(value);
  }
}

/** The change that an event holds; throws the error that it reports, if any. */
export function changeOf({ name, data, id }: ServerEvent): Change {
  if (name === "error") throw errorOfProblem(data);
  let body: unknown = {};
  try {
    if (data !== "") body = parseJson(data);
  } catch {
    body = undefined;
  }
  // The token becomes the value of a header.
  if (typeof body !== "object" || body === null || Array.isArray(body) || id === undefined || !/^[\x21-\x7e]+$/.test(id)) {
    throw MemoryError.of("Unexpected", "an event of the server is not a change: is this an agent-memory server?");
  }
  return { ...body, kind: name, token: id } as Change;
}
