import { type Server, startServer } from "#server";
import { Documents } from "./documents.js";
import type { Json } from "./json.js";
import { expecting, following, found, identified, keyed, memoryPath, patched, refuseEmpty, selected, withVector } from "./requests.js";
import { type CallOptions, type ConnectOptions, type Request, Transport } from "./transport.js";
import type {
  Change,
  Embedding,
  EmbedOptions,
  ErasedSlice,
  Erasure,
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
  VectorModel,
  VersionOptions,
  WatchQuery,
} from "./types.js";
import { changes } from "./watch.js";

/** Options of `Memory.open`: how it starts its server, and how it talks to it. */
export interface OpenOptions extends Omit<ConnectOptions, "token" | "fetch"> {
  /** The path of the binary; by default `AGENT_MEMORY_BIN`, or else that of the package for this platform, or else the first on `PATH`. */
  readonly binary?: string | undefined;
  /**
   * The embedding model of the server, with which `recall` also finds by meaning: the folder of a model that runs in the server, or the base
   * URL of an endpoint with OpenAI's embeddings API, whose key is taken from `AGENT_MEMORY_MODEL_KEY` in the environment.
   */
  readonly embedder?: string | undefined;
  /** The name of the model at such an endpoint. */
  readonly embedderModel?: string | undefined;
  /** The length of that model's vectors, in numbers. */
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

  /** Connects to a running server. Nothing is sent before the first call. */
  static connect(url: string | URL, options: ConnectOptions = {}): Memory {
    return new Memory(new Transport(url, options, "start it with `agent-memory serve`, or give the URL of one that runs"));
  }

  /**
   * Starts a server for a database: the path of a SQLite file, which is created if it is missing, or the URL of any engine. The server ends
   * with `close`, and with this process, however that ends; on Windows, unless this process is killed. Node.js only.
   */
  static async open(database: string, options: OpenOptions = {}): Promise<Memory> {
    const { binary, embedder, embedderModel, embedderWidth, ...connect } = options;
    const server = await startServer(database, { binary, embedder, embedderModel, embedderWidth });
    return new Memory(
      new Transport(server.url, { ...connect, token: server.token }, "its server has ended: open the memory again"),
      server,
    );
  }

  /** The address of the server that `open` has started; `undefined` after `connect`. */
  get url(): string | undefined {
    return this.#server?.url;
  }

  /** Stores a memory and returns its id. The call is retried safely: the memory gets an idempotency key before the first attempt. */
  async store(spaceId: string, trigger: Json, options: MemoryOptions & CallOptions = {}): Promise<string> {
    const { signal, timeout, ...rest } = options;
    const body = keyed({ ...rest, spaceId, trigger });
    const stored = await this.#transport.call({ method: "POST", path: "/v1/memories", body, repeatable: true }, { signal, timeout });
    return (stored as { id: string }).id;
  }

  /** Stores memories, all or none, and returns their ids in order: at most 10,000, with 64 MiB of text. The call is retried safely. */
  async storeMany(memories: readonly NewMemory[], options: CallOptions = {}): Promise<string[]> {
    const body = { memories: memories.map(keyed) };
    const stored = await this.#transport.call({ method: "POST", path: "/v1/memories/batch", body, repeatable: true }, options);
    return (stored as { ids: string[] }).ids;
  }

  /**
   * The memory with this id, or `undefined`; as of the time `asOf` if that is given. A time before the ledger had a history is an
   * `InvalidInputError`. An erased memory is an `ErasedError` for a token that may erase, and `undefined` for others.
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
   * Answers a question in words: the best hits first, from the ledger or from the documents of a collection. A server with an embedding
   * model also searches by meaning. With a `vector`, the question may be empty.
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

  /** The vector model of the database; `undefined` if none was set yet. */
  async vectorModel(options: CallOptions = {}): Promise<VectorModel | undefined> {
    const request = { method: "GET", path: "/v1/vector-model", repeatable: true } as const;
    return (await found(this.#transport.call(request, options))) as VectorModel | undefined;
  }

  /**
   * Sets the vector model of the database. Vectors of other models are ignored until their model is set again. Only a caller who may write
   * everything may do this; no token of a token file may. The call is not retried while its outcome is unknown.
   */
  async setVectorModel(model: VectorModel, options: CallOptions = {}): Promise<VectorModel> {
    const request = { method: "PUT", path: "/v1/vector-model", body: model, repeatable: false } as const;
    return (await this.#transport.call(request, options)) as VectorModel;
  }

  /**
   * Stores up to 1,000 vectors that the caller has computed, each beside its record. Returns for each whether it was kept; it is
   * not if the record does not exist or has another revision. A model other than that of the database is an error. The call is retried safely.
   */
  async embed(embeddings: readonly Embedding[], options: EmbedOptions): Promise<boolean[]> {
    const { model, ...call } = options;
    const body = { model, embeddings: embeddings.map(withVector) };
    const kept = await this.#transport.call({ method: "POST", path: "/v1/embed", body, repeatable: true }, call);
    return (kept as { kept: boolean[] }).kept;
  }

  /**
   * Iterates endlessly over the changes of some records, as they are committed. The watch begins with the first `next()`; once that has
   * answered, every later commit comes. Leaving the loop closes the connection, `signal` ends the watch with an `AbortedError`, and `close`
   * ends the loop.
   *
   * If a connection breaks, or is silent for 45 seconds, the watch reconnects and resumes after the last change, repeatedly until `timeout`
   * has passed. A change may come more than once. `FeedResetError` means to begin again with `from: "start"`.
   */
  watch(query: WatchQuery, options: CallOptions = {}): AsyncGenerator<Change, void, undefined> {
    return changes(this.#transport, query, options);
  }

  /** The documents of a collection, whose name has 1 to 64 characters of `[a-z0-9_-]`. */
  documents(collection: string): Documents {
    return new Documents(this.#transport, collection);
  }

  /**
   * Puts documents in any collections, all or none, and returns them in order: at most 10,000, with 64 MiB of text. While the outcome is
   * unknown, the call is retried only if each has an `expect` or no id; a `ConflictError` then has the outcome `Unknown`.
   */
  async putDocuments(documents: readonly NewDocumentOf[], options: CallOptions = {}): Promise<PutDocument[]> {
    const named = documents.map((document) => (document.id === undefined ? identified(document) : document));
    const repeatable = named.every(({ expect }) => expect !== undefined);
    const body = { documents: named.map(expecting) };
    const put = await this.#transport.call({ method: "POST", path: "/v1/documents", body, repeatable }, options);
    return (put as { documents: PutDocument[] }).documents;
  }

  /**
   * Erases a slice of the selected records, with their histories and everything else that is kept of them. This can't be undone: a tombstone
   * with the reason stays of each record, and keeps it from being restored. Call it again until `isComplete`. The call is not retried while
   * its outcome is unknown. The token needs `erase = true`.
   */
  async erase(erasure: Erasure, options: CallOptions = {}): Promise<ErasedSlice> {
    const { query, ...rest } = erasure;
    refuseEmpty({ ids: rest.ids, collections: rest.collections });
    const body = { ...rest, ...(query === undefined ? {} : { query: selected(query) }) };
    return (await this.#transport.call({ method: "POST", path: "/v1/erase", body, repeatable: false }, options)) as ErasedSlice;
  }

  /** Lists the spaces right below one, or the top-level ones, each with its number of records (exact up to 1,000) and the time of the newest. */
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

  /** The state of the engine. */
  async health(options: CallOptions = {}): Promise<Health> {
    return (await this.#transport.call({ method: "GET", path: "/v1/health", repeatable: true }, options)) as Health;
  }

  /** Refuses further calls, ends the watches, and stops the server that `open` has started, after it has answered its open requests. */
  async close(): Promise<void> {
    this.#transport.close();
    await this.#server?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
