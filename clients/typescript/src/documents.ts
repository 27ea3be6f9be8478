import { ConflictError, InvalidInputError, MemoryError, type Outcome } from "./error.js";
import { following, found, written } from "./requests.js";
import type { CallOptions, Transport } from "./transport.js";
import type {
  DocumentPage,
  DocumentQuery,
  DocumentSelection,
  HistoryPage,
  NewDocument,
  PutOptions,
  RemoveOptions,
  StoredDocument,
  ThenOptions,
  VersionOptions,
} from "./types.js";

/** The documents of one collection. */
export class Documents {
  readonly #transport: Transport;
  readonly #path: string;

  constructor(
    transport: Transport,
    /** The name of the collection. */
    readonly collection: string,
  ) {
    if (!/^[a-z0-9_-]{1,64}$/.test(collection)) {
      throw new InvalidInputError("the name of a collection must have 1 to 64 characters of [a-z0-9_-]");
    }
    this.#transport = transport;
    this.#path = `/v1/documents/${collection}`;
  }

  /**
   * Adds a document under a new id. The call is retried safely; with a `vector`, a retry may fail with a `ConflictError` whose outcome is
   * `Unknown`.
   */
  async add(document: NewDocument, options: CallOptions = {}): Promise<StoredDocument> {
    const id = crypto.randomUUID();
    try {
      return await this.put(id, document, { ...options, expect: "absent" });
    } catch (error) {
      // The id is new, so a document that has it comes from an earlier attempt of this call. It does not tell whether a vector was kept.
      const maySettle = error instanceof ConflictError && document.vector === undefined;
      const added = maySettle ? await settled(this, id, error.outcome, options) : undefined;
      if (added === undefined) throw error;
      return added;
    }
  }

  /**
   * Creates or replaces a document. With `expect`, a put with an unknown outcome is retried; a `ConflictError` then has the outcome
   * `Unknown`, since the document in place may come from an earlier attempt.
   */
  async put(id: string, document: NewDocument, options: PutOptions = {}): Promise<StoredDocument> {
    const { expect, ...call } = options;
    const headers: Record<string, string> =
      expect === undefined ? {} : expect === "absent" ? { "If-None-Match": "*" } : { "If-Match": `"${expect}"` };
    const request = { method: "PUT", path: this.#pathOf(id), body: written(document), headers, repeatable: expect !== undefined } as const;
    return (await this.#transport.call(request, call)) as StoredDocument;
  }

  /** The document with this id, or `undefined`; as of the time `asOf` if that is given, unless it was removed since. */
  async get(id: string, options: ThenOptions & CallOptions = {}): Promise<StoredDocument | undefined> {
    const { asOf, ...call } = options;
    const request = { method: "GET", path: this.#pathOf(id), query: { asOf }, repeatable: true } as const;
    return (await found(this.#transport.call(request, call))) as StoredDocument | undefined;
  }

  /** One page of the versions of a document, newest first. `removed` includes its removals and the versions before them. */
  async history(id: string, options: VersionOptions & { readonly removed?: boolean } & CallOptions = {}): Promise<HistoryPage> {
    const { limit, cursor, removed, ...call } = options;
    const query = { limit, cursor, removed };
    const request = { method: "GET", path: `${this.#pathOf(id)}/history`, query, repeatable: true } as const;
    return (await this.#transport.call(request, call)) as HistoryPage;
  }

  /** One page of documents. */
  async query(query: DocumentQuery, options: CallOptions = {}): Promise<DocumentPage> {
    return (await this.#transport.call({ method: "GET", path: this.#path, query, repeatable: true }, options)) as DocumentPage;
  }

  /** All pages of documents, one after the other. */
  async *pages(query: DocumentQuery, options: CallOptions = {}): AsyncGenerator<DocumentPage, void, undefined> {
    for (let next: DocumentQuery | undefined = query; next !== undefined;) {
      const page: DocumentPage = await this.query(next, options);
      yield page;
      next = page.next === undefined ? undefined : following(query, page.next);
    }
  }

  /** Removes documents and returns their ids. If more than `max` are found, it removes none (`LimitExceededError`). */
  async remove(selection: DocumentSelection, options: RemoveOptions = {}): Promise<string[]> {
    const { max, dryRun, ...call } = options;
    // An empty list would be the same as no list, and select everything that the rest of the selection finds.
    if (Array.isArray(selection.id) && selection.id.length === 0) return [];
    const query = { ...selection, max, dryRun };
    // A retry would remove documents that came meanwhile, and could not tell which ones the first attempt has removed.
    const request = { method: "DELETE", path: this.#path, query, repeatable: dryRun === true } as const;
    return ((await this.#transport.call(request, call)) as { ids: string[] }).ids;
  }

  #pathOf(id: string): string {
    // In a URL these would mean a folder.
    if (id === "" || id === "." || id === "..") throw new InvalidInputError('the id of a document must not be empty, "." or ".."');
    return `${this.#path}/${percentEncoded(id)}`;
  }
}

/** The document in place after a put got a conflict. An error gets the outcome of that put; that of the read would be `NotDone`. */
export async function settled(
  documents: Documents,
  id: string,
  outcome: Outcome,
  options: CallOptions = {},
): Promise<StoredDocument | undefined> {
  try {
    return await documents.get(id, options);
  } catch (error) {
    throw error instanceof MemoryError ? error.withOutcome(outcome) : error;
  }
}

function percentEncoded(id: string): string {
  try {
    return encodeURIComponent(id);
  } catch {
    throw new InvalidInputError("an id holds half of a surrogate pair");
  }
}
