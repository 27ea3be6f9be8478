import { type Server, startServer } from "#server";
import { Documents } from "./documents.js";
import { InvalidInputError, NotFoundError } from "./error.js";
import type { Json } from "./json.js";
import { type CallOptions, type ConnectOptions, type Request, Transport } from "./transport.js";
import type {
  Change,
  Embedding,
  EmbedOptions,
  ErasedSlice,
  Erasure,
  Expiry,
  Health,
  HistoryPage,
  Hit,
  MemoryOptions,
  MemoryPage,
  MemoryPatch,
  MemoryQuery,
  NewDocumentOf,
  NewMemory,
  PutDocument,
  Recalled,
  RecallOptions,
  SpaceLevel,
  SpacesOptions,
  StoredMemory,
  ThenOptions,
  Updated,
  Vector,
  VectorModel,
  VersionOptions,
  WatchQuery,
} from "./types.js";
import { changes } from "./watch.js";

/** How `Memory.open` starts its server. */
export interface OpenOptions extends Omit<ConnectOptions, "token" | "fetch"> {
  /** The path of the binary; else `AGENT_MEMORY_BIN`, the package of this platform, or `PATH` has it. */
  readonly binary?: string | undefined;
  /**
   * The model by which the server makes vectors, so that `recall` finds what is meant: the folder of a model that runs in the server, or the
   * base of the URLs of anything that speaks OpenAI's embeddings, whose key is the `AGENT_MEMORY_MODEL_KEY` of the environment.
   */
  readonly embedder?: string | undefined;
  /** The name of the model behind such a URL. */
  readonly embedderModel?: string | undefined;
  /** How many numbers a vector of that model has. */
  readonly embedderWidth?: number | undefined;
}

/** The memory of an agent: its ledger, its documents, and recall. Every method fails with a `MemoryError`. */
export class Memory {
  readonly #transport: Transport;
  readonly #server: Server | undefined;

  private constructor(transport: Transport, server?: Server) {
    this.#transport = transport;
    this.#server = server;
  }

  /** The memory behind a server. Nothing is sent before the first call. */
  static connect(url: string | URL, options: ConnectOptions = {}): Memory {
    return new Memory(new Transport(url, options, "start it with `agent-memory serve`, or give the URL of one that runs"));
  }

  /**
   * The memory in a database: a file of SQLite, made when it is missing, or the URL of any engine. Starts a server for it, which
   * `close` ends, and which ends with this process however that ends. Node.js only.
   */
  static async open(database: string, options: OpenOptions = {}): Promise<Memory> {
    const { binary, embedder, embedderModel, embedderWidth, ...connect } = options;
    const server = await startServer(database, { binary, embedder, embedderModel, embedderWidth });
    return new Memory(
      new Transport(server.url, { ...connect, token: server.token }, "its server has ended: open the memory again"),
      server,
    );
  }

  /** The address of the server that `open` has started; `undefined` behind `connect`. */
  get url(): string | undefined {
    return this.#server?.url;
  }

  /** Appends a memory and returns its id. Safe to repeat: it has an idempotency key before the first attempt. */
  async store(spaceId: string, trigger: Json, options: MemoryOptions & CallOptions = {}): Promise<string> {
    const { signal, timeout, ...rest } = options;
    const body = keyed({ ...rest, spaceId, trigger });
    const stored = await this.#transport.call({ method: "POST", path: "/v1/memories", body, repeatable: true }, { signal, timeout });
    return (stored as { id: string }).id;
  }

  /** Appends memories, all or none, and returns their ids in the same order: 10,000 at most, of 64 MiB. Safe to repeat. */
  async storeMany(memories: readonly NewMemory[], options: CallOptions = {}): Promise<string[]> {
    const body = { memories: memories.map(keyed) };
    const stored = await this.#transport.call({ method: "POST", path: "/v1/memories/batch", body, repeatable: true }, options);
    return (stored as { ids: string[] }).ids;
  }

  /**
   * The memory with this id, or `undefined`; as it was at `asOf` if that is given. A time before the ledger had a history is an
   * `InvalidInputError`, and one that was erased is an `ErasedError` for who may erase.
   */
  async get(id: string, options: ThenOptions & CallOptions = {}): Promise<StoredMemory | undefined> {
    const { asOf, ...call } = options;
    const request = { method: "GET", path: memoryPath(id), query: { asOf }, repeatable: true } as const;
    return (await found(this.#transport.call(request, call))) as StoredMemory | undefined;
  }

  /** One page of the versions of a memory, newest first: what each was, when it was committed, and who made it. */
  async history(id: string, options: VersionOptions & CallOptions = {}): Promise<HistoryPage> {
    const { limit, cursor, ...call } = options;
    const request = { method: "GET", path: `${memoryPath(id)}/history`, query: { limit, cursor }, repeatable: true } as const;
    return (await this.#transport.call(request, call)) as HistoryPage;
  }

  /** Changes the context, the metadata, the status or the expiry of a memory. */
  async update(id: string, patch: MemoryPatch, options: CallOptions = {}): Promise<Updated> {
    const repeatable = patch.ifRevision !== undefined;
    return (await this.#transport.call({ method: "PATCH", path: memoryPath(id), body: patched(patch), repeatable }, options)) as Updated;
  }

  /** One page of memories. */
  async query(query: MemoryQuery, options: CallOptions = {}): Promise<MemoryPage> {
    return (await this.#transport.call({ method: "GET", path: "/v1/memories", query, repeatable: true }, options)) as MemoryPage;
  }

  /** All pages of memories, one after the other. */
  async *pages(query: MemoryQuery, options: CallOptions = {}): AsyncGenerator<MemoryPage, void, undefined> {
    for (let next: MemoryQuery | undefined = query; next !== undefined;) {
      const page: MemoryPage = await this.query(next, options);
      yield page;
      next = page.next === undefined ? undefined : following(query, page.next);
    }
  }

  /**
   * Answers a question in words: the best hits first, from the ledger or from the documents of a collection. A server that has a model of
   * vectors asks by what the question means, too. With a `vector`, the question may be empty.
   */
  async recall(question: string, options: RecallOptions = {}): Promise<Recalled> {
    const { signal, timeout, vector, ...rest } = options;
    const query = { ...rest, text: question };
    const path = "/v1/recall";
    // A vector is too long for a URL.
    const request: Request =
      vector === undefined
        ? { method: "GET", path, query, repeatable: true }
        : { method: "POST", path, body: { ...selected(query), ...withVector({ vector }) }, repeatable: true, reads: true };
    const answer = await this.#transport.call(request, { signal, timeout });
    const recalled = answer as Omit<Recalled, "hits"> & { hits: (Omit<Hit, "before" | "after"> & Partial<Hit>)[] };
    return { ...recalled, hits: recalled.hits.map((hit) => ({ before: [], after: [], ...hit })) };
  }

  /** The model that the database has its vectors from; `undefined` where it has none yet. */
  async vectorModel(options: CallOptions = {}): Promise<VectorModel | undefined> {
    const request = { method: "GET", path: "/v1/vector-model", repeatable: true } as const;
    return (await found(this.#transport.call(request, options))) as VectorModel | undefined;
  }

  /**
   * Makes a model that of the database. The vectors of another one count no more, until that is the model again. For who may write
   * everything, which no token of a file may. Not repeated while its outcome is unknown.
   */
  async setVectorModel(model: VectorModel, options: CallOptions = {}): Promise<VectorModel> {
    const request = { method: "PUT", path: "/v1/vector-model", body: model, repeatable: false } as const;
    return (await this.#transport.call(request, options)) as VectorModel;
  }

  /**
   * Keeps vectors that the caller has made beside records that are there, at most 1,000, and tells of each whether it is kept: not where the
   * record is not there, or has another revision. Where the model is not that of the database, it is an error. Safe to repeat.
   */
  async embed(embeddings: readonly Embedding[], options: EmbedOptions): Promise<boolean[]> {
    const { model, ...call } = options;
    const body = { model, embeddings: embeddings.map(withVector) };
    const kept = await this.#transport.call({ method: "POST", path: "/v1/embed", body, repeatable: true }, call);
    return (kept as { kept: boolean[] }).kept;
  }

  /**
   * The changes of some records, as they are committed, one after the other, without end. It begins with the first `next()`, whose answer
   * says that what is committed from then on comes. To leave the loop closes the connection, `signal` ends it with an `AbortedError`, and
   * `close` ends the loop.
   *
   * A connection that breaks, or on which nothing comes for 45 seconds, is replaced by one that goes on behind the last change, again and
   * again until `timeout` is over. A change may come more than once. `FeedResetError` means to begin anew with `from: "start"`.
   */
  watch(query: WatchQuery, options: CallOptions = {}): AsyncGenerator<Change, void, undefined> {
    return changes(this.#transport, query, options);
  }

  /** The documents of a collection, whose name has 1 to 64 characters of `[a-z0-9_-]`. */
  documents(collection: string): Documents {
    return new Documents(this.#transport, collection);
  }

  /**
   * Puts documents of any collections, all or none, in their order: 10,000 at most, of 64 MiB. Repeated while its outcome is unknown only
   * where each has an `expect` or a new id; a `ConflictError` then has the outcome `Unknown`.
   */
  async putDocuments(documents: readonly NewDocumentOf[], options: CallOptions = {}): Promise<PutDocument[]> {
    const named = documents.map((document) => (document.id === undefined ? identified(document) : document));
    const repeatable = named.every(({ expect }) => expect !== undefined);
    const body = { documents: named.map(expecting) };
    const put = await this.#transport.call({ method: "POST", path: "/v1/documents", body, repeatable }, options);
    return (put as { documents: PutDocument[] }).documents;
  }

  /**
   * Erases a slice of what is selected, with its history and all else that is kept of it: there is no way back. A tombstone with the reason
   * stays of each record, and nothing brings it back. Call it again until `isComplete`. Not repeated while its outcome is unknown. The token
   * needs `erase = true`.
   */
  async erase(erasure: Erasure, options: CallOptions = {}): Promise<ErasedSlice> {
    const { query, ...rest } = erasure;
    refuseEmpty({ ids: rest.ids, collections: rest.collections });
    const body = { ...rest, ...(query === undefined ? {} : { query: selected(query) }) };
    return (await this.#transport.call({ method: "POST", path: "/v1/erase", body, repeatable: false }, options)) as ErasedSlice;
  }

  /** Lists the spaces right below one, or the top-level ones, with how much each holds (exact up to 1,000) and when the newest was created. */
  async spaces(options: SpacesOptions = {}): Promise<SpaceLevel[]> {
    const { signal, timeout, ...query } = options;
    const answer = await this.#transport.call({ method: "GET", path: "/v1/spaces", query, repeatable: true }, { signal, timeout });
    return (answer as { levels: SpaceLevel[] }).levels;
  }

  /** The collections that hold a document. */
  async collections(options: CallOptions = {}): Promise<string[]> {
    const answer = await this.#transport.call({ method: "GET", path: "/v1/collections", repeatable: true }, options);
    return (answer as { collections: string[] }).collections;
  }

  /** How the engine is. */
  async health(options: CallOptions = {}): Promise<Health> {
    return (await this.#transport.call({ method: "GET", path: "/v1/health", repeatable: true }, options)) as Health;
  }

  /** Refuses further calls, ends the watches, and ends the server that `open` has started once it has answered what it was asked. */
  async close(): Promise<void> {
    this.#transport.close();
    await this.#server?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The answer, or `undefined` for what is not there. */
export async function found(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof NotFoundError) return undefined;
    throw error;
  }
}

/** The query of the page behind a cursor, which starts where the one before has ended. */
export function following<Q extends { readonly cursor?: string; readonly offset?: number }>(query: Q, cursor: string): Q {
  const { offset: _, ...rest } = query;
  return { ...rest, cursor } as Q;
}

/** A record as the server takes it, with times in milliseconds and a vector as JSON has it. */
export function written<R extends Expiry & { readonly createdAt?: number | Date; readonly vector?: Vector }>(record: R): object {
  const { createdAt, expiresIn, expiresAt, ...rest } = record;
  const expiry = expiryOf(expiresIn, expiresAt);
  return {
    ...withVector(rest),
    ...(createdAt === undefined ? {} : { createdAt: Number(createdAt) }),
    ...(expiry === undefined ? {} : { expiresAt: expiry }),
  };
}

/** The same, with the numbers of its vector in an array: those of a `Float32Array` would be an object in JSON. */
function withVector<R extends { readonly vector?: Vector | undefined }>(record: R): object {
  const { vector } = record;
  return vector === undefined || typeof vector === "string" ? record : { ...record, vector: Array.from(vector) };
}

/** The time of an expiry in milliseconds: made before the first attempt, so that a repetition has the same. */
function expiryOf(expiresIn: number | undefined, expiresAt: unknown): number | undefined {
  if (expiresIn === undefined && expiresAt === undefined) return undefined;
  if (expiresIn !== undefined && expiresAt !== undefined) {
    throw new InvalidInputError("expiresIn and expiresAt don't go together");
  }
  const time = expiresIn === undefined ? Number(expiresAt) : Date.now() + Math.ceil(expiresIn);
  // As JSON it would be null, which is never.
  if (!Number.isFinite(time)) throw new InvalidInputError("an expiry is a number of milliseconds, or a Date");
  return time;
}

/** A patch as the server takes it, with a time in milliseconds. */
function patched(patch: MemoryPatch): object {
  const { expiresIn, expiresAt, ...rest } = patch;
  if (expiresIn === undefined && (expiresAt === undefined || expiresAt === "clear")) {
    return expiresAt === undefined ? rest : { ...rest, expiresAt };
  }
  return { ...rest, expiresAt: { set: expiryOf(expiresIn, typeof expiresAt === "object" ? expiresAt.set : expiresAt) } };
}

/** A query as a body has it: lists of what may be named several times, and times in milliseconds. */
function selected(query: object): object {
  refuseEmpty(query);
  const shown = (name: string, value: unknown) => {
    if (NAMED.has(name)) return [value].flat();
    return value instanceof Date ? value.getTime() : value;
  };
  const parts = Object.entries(query).filter(([, value]) => value !== undefined);
  return Object.fromEntries(parts.map(([name, value]) => [name, shown(name, value)]));
}

/** Refuses an empty list, which to the server would be one that is left out; only to exclude none is no condition. */
function refuseEmpty(lists: object): void {
  for (const [name, value] of Object.entries(lists)) {
    if (Array.isArray(value) && value.length === 0 && name !== "exclude") throw new InvalidInputError(`${name} is an empty list`);
  }
}

const NAMED = new Set(["space", "under", "prefix", "glob", "regex", "status", "exclude"]);

function keyed(memory: NewMemory): object {
  return { ...written(memory), idempotencyKey: memory.idempotencyKey ?? crypto.randomUUID() };
}

function identified(document: NewDocumentOf): NewDocumentOf {
  return { ...document, id: crypto.randomUUID(), expect: "absent" };
}

function expecting(document: NewDocumentOf): object {
  const { expect } = document;
  return { ...written(document), ...(typeof expect === "number" ? { expect: { revision: expect } } : {}) };
}

function memoryPath(id: string): string {
  if (!/^[0-9a-f-]{36}$/i.test(id)) throw new InvalidInputError("the id of a memory is a UUID");
  return `/v1/memories/${id}`;
}
