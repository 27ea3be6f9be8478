import type { components } from "./openapi.js";
import type { Json, JsonObject } from "./json.js";
import type { CallOptions } from "./transport.js";

type Schemas = components["schemas"];

/** The state of a memory's task; `observed` was seen and is never answered. */
export type Status = Schemas["StatusName"];

/** A memory of the ledger. Times are milliseconds since 1970 UTC. */
export type StoredMemory = Omit<Schemas["Memory"], "trigger" | "context" | "metadata"> & {
  readonly trigger: Json;
  readonly context?: Json;
  readonly metadata: JsonObject;
};

/** A text that an agent saved, in a collection. Times are milliseconds since 1970 UTC. */
export type StoredDocument = Omit<Schemas["Document"], "metadata"> & { readonly metadata: JsonObject };

/** A row that is not a valid record. */
export type Unreadable = Schemas["UnreadableBody"];

/** The state of the engine. */
export type Health = Schemas["HealthBody"];

/** The vector of a text by an embedding model: numbers, or the base64 of the bytes that the server keeps. */
export type Vector = string | ArrayLike<number>;

/** When a record expires: from then on no answer contains it, and the server erases it. */
export interface Expiry {
  /** In this many milliseconds from the call; not with `expiresAt`. */
  readonly expiresIn?: number;
  /** At this time; never by default. A number is milliseconds since 1970 UTC. */
  readonly expiresAt?: number | Date;
}

/** The fields of a new memory besides its space and its trigger. */
export interface MemoryOptions extends Expiry {
  /** What came of it, if that is known already. */
  readonly context?: Json;
  /** Data for use in conditions. */
  readonly metadata?: JsonObject;
  /** `pending` by default. */
  readonly status?: Status;
  /** When it happened; now by default. A number is milliseconds since 1970 UTC. */
  readonly createdAt?: number | Date;
  /**
   * A second store with the same key, trigger and space returns the first id; another trigger or space is refused. Made for the call by
   * default.
   */
  readonly idempotencyKey?: string;
  /** Its vector, by the model of the database. A server with an embedding model makes one by default. */
  readonly vector?: Vector;
}

/** A memory to store. */
export interface NewMemory extends MemoryOptions {
  /** Where it happened, from broad to narrow. */
  readonly spaceId: string;
  /** What happened: any JSON. */
  readonly trigger: Json;
}

/** A change of a memory. Fields that are not given stay as they are. */
export interface MemoryPatch {
  /** `clear` removes the expiry. A number is milliseconds since 1970 UTC. */
  readonly expiresAt?: "clear" | { readonly set: number | Date };
  /** Sets the expiry to this many milliseconds from the call; not with `expiresAt`. */
  readonly expiresIn?: number;
  readonly context?: "clear" | { readonly set: Json };
  /** `merge` is a merge patch (RFC 7396). */
  readonly metadata?: { readonly replace: JsonObject } | { readonly merge: JsonObject };
  readonly status?: Status;
  /** The revision that the memory must have; otherwise it is a `Conflict`. Only with it is an update with an unknown outcome retried. */
  readonly ifRevision?: number;
}

/** The state of a memory after an update. */
export type Updated = Schemas["UpdatedBody"];

/** Selects spaces: at least one selector (several form a union), or `all`. */
export interface Spaces {
  /** The spaces with these ids. */
  readonly space?: string | readonly string[];
  /** These spaces and all spaces below them: the selector that keeps tenants apart. */
  readonly under?: string | readonly string[];
  /** Spaces that start with these bytes; `guild1` also finds `guild12`. */
  readonly prefix?: string | readonly string[];
  /** Spaces whose whole id matches a pattern of `*`, `?` and `[a-z]`. */
  readonly glob?: string | readonly string[];
  /** Spaces in whose id a regular expression finds a match. */
  readonly regex?: string | readonly string[];
  /** Every space. */
  readonly all?: true;
}

/** Selects a part of the tree of spaces. */
export interface SpacesOptions extends CallOptions {
  /** The spaces right below this one; the top-level ones without it. */
  readonly under?: string;
  /** Lists the spaces of the documents of this collection instead of those of the ledger. */
  readonly collection?: string;
  /** The number of levels: 1 by default, at most 8. */
  readonly depth?: number;
  /** The limit of each level, in spaces: 50 by default, at most 1,000. */
  readonly limit?: number;
  /** `next` of an earlier level; `under` must then be the same as that of the level. */
  readonly cursor?: string;
}

/** The spaces right below one, in the order of the bytes of their ids. */
export interface SpaceLevel {
  /** The space above them; absent for top-level spaces. */
  readonly under?: string;
  readonly spaces: readonly Schemas["SpaceBody"][];
  /** The `cursor` of the rest. A short level may have one. */
  readonly next?: string;
}

/** Conditions on the content of records. */
export interface Search {
  /** A condition, as in `metadata.topic = 'rust' AND text ILIKE '%birthday%'`. */
  readonly where?: string;
  /** Words, of which a record must hold at least one. */
  readonly text?: string;
}

/** Conditions that only memories have. */
export interface LedgerConditions {
  /** Created after this time (exclusive). */
  readonly after?: number | Date;
  /** Created before this time (exclusive). */
  readonly before?: number | Date;
  readonly status?: Status | readonly Status[];
  /** Excludes the memories with these ids. */
  readonly exclude?: string | readonly string[];
}

/** The order and the page of a query. */
export interface PageOptions {
  /** `newest` first by default. */
  readonly order?: "newest" | "oldest";
  /** The limit of a page, in records: 50 by default, at most 1,000. */
  readonly limit?: number;
  /** Skips this many records at the start, at most 10,000; not with a cursor. */
  readonly offset?: number;
  /** `next` of an earlier page of the same query. */
  readonly cursor?: string;
}

export interface MemoryQuery extends Spaces, Search, LedgerConditions, PageOptions {}

export interface DocumentQuery extends Spaces, Search, PageOptions {}

/** A page of memories. A short or empty page may have a next one; only a page without `next` is the last. */
export interface MemoryPage {
  readonly memories: readonly StoredMemory[];
  /** Rows that can't be read, and that match as far as they can. */
  readonly unreadable: readonly Unreadable[];
  readonly next?: string;
}

/** A page of documents. A short or empty page may have a next one; only a page without `next` is the last. */
export interface DocumentPage {
  readonly documents: readonly StoredDocument[];
  /** Rows that can't be read, and that match as far as they can. */
  readonly unreadable: readonly Unreadable[];
  readonly next?: string;
}

/** The time as of which a record is read. */
export interface ThenOptions {
  /** Returns the record as of this time instead of now. */
  readonly asOf?: number | Date;
}

/** The page of a history. */
export interface VersionOptions {
  /** The limit of the page, in versions: 50 by default, at most 1,000. */
  readonly limit?: number;
  /** `next` of an earlier page of the same history. */
  readonly cursor?: string;
}

/** A version of a record, which held from its commit to the next one. Without a memory and a document, it is the removal of a document. */
export interface Version {
  readonly revision: number;
  /** When it was committed, in milliseconds since 1970 UTC, by the server's clock. */
  readonly committedAt?: number;
  /** Who made the change: the name of a token, or of an agent's program. */
  readonly actor?: string;
  readonly memory?: StoredMemory;
  readonly document?: StoredDocument;
}

/** A page of versions, newest first. A short or empty page may have a next one; only a page without `next` is the last. */
export interface HistoryPage {
  readonly versions: readonly Version[];
  readonly next?: string;
}

/** A document to put. Without an expiry it never expires, even if it did before. */
export interface NewDocument extends Expiry {
  /** The space of the document. */
  readonly spaceId: string;
  /** The text, of at most 1 MiB. */
  readonly content: string;
  /** Data for use in conditions. */
  readonly metadata?: JsonObject;
  /** When it was created; now by default. Later puts do not change it. */
  readonly createdAt?: number | Date;
  /** Its vector, by the model of the database. A server with an embedding model makes one by default. */
  readonly vector?: Vector;
}

/** A document of a `putDocuments`. */
export interface NewDocumentOf extends NewDocument {
  readonly collection: string;
  /** A new id by default. */
  readonly id?: string;
  /** What must be in place, nothing or this revision; otherwise it is a `Conflict`. */
  readonly expect?: "absent" | number;
}

/** A document after `putDocuments`. Times are milliseconds since 1970 UTC. */
export interface PutDocument {
  readonly id: string;
  readonly collection: string;
  readonly createdAt: number;
  readonly updatedAt?: number;
  readonly revision: number;
  readonly expiresAt?: number;
}

export interface PutOptions extends CallOptions {
  /** What must be in place, nothing or this revision; otherwise it is a `Conflict`. Only with it is a put with an unknown outcome retried. */
  readonly expect?: "absent" | number;
}

/** Selects the documents that satisfy every given condition. `id` alone searches every space; `all` alone is refused. */
export interface DocumentSelection extends Spaces, Search {
  readonly id?: string | readonly string[];
}

export interface RemoveOptions extends CallOptions {
  /** The limit of the removal: if more are found, none is removed. 10 by default, at most 10,000. */
  readonly max?: number;
  /** Returns what would be removed, and removes nothing. */
  readonly dryRun?: boolean;
}

/** The records to erase, and the reason: either memories by `ids`, or what a query finds. */
export interface Erasure {
  /** One line, which the tombstone of each record keeps. It should not name anybody who is to be forgotten. */
  readonly reason: string;
  /** The ids of at most 1,000 memories. */
  readonly ids?: readonly string[];
  /** With all spaces, a status, a condition or words are required. */
  readonly query?: Spaces & Search & LedgerConditions;
  /** Whether to erase also the documents that the spaces, `where` and `text` of the query find. */
  readonly documents?: boolean;
  /** The collections of the documents; all by default. */
  readonly collections?: readonly string[];
  /** The limit of a call with a query, in records: 100 by default, at most 1,000. */
  readonly limit?: number;
}

/** The records that one call has erased. */
export interface ErasedSlice {
  /** The erased records. Those with a collection are documents, the others memories. */
  readonly records: readonly { readonly id: string; readonly collection?: string }[];
  /** Whether nothing is left. Otherwise the same call erases the next slice. */
  readonly isComplete: boolean;
}

/** The scope of a question, and how it is read. */
export interface RecallOptions extends Spaces, LedgerConditions, CallOptions {
  /** Searches the documents of this collection instead of the ledger. */
  readonly collection?: string;
  /** A condition that every hit must satisfy. */
  readonly where?: string;
  /** The limit of hits: 10 by default, at most 1,000. */
  readonly limit?: number;
  /** How many records on each side of a hit in its container come with it, at most 10. */
  readonly neighbours?: number;
  /** Whether the answer has the terms that matched and the divisors of the scores. */
  readonly explain?: boolean;
  /** `english`, `german` or another language that the server supports, or `none`; by default the language of the database. */
  readonly language?: string;
  /** What groups records into containers: `parent` (the space above, the default), `depth:N` or `metadata:KEY`. */
  readonly container?: string;
  /** The metadata key with the name of the speaker; `speaker` by default. */
  readonly speaker?: string;
  /** The vector of the question, by the model of the database; its text may then be empty. */
  readonly vector?: Vector;
  /** Whether the server searches by meaning with its own model; by default it does if it has one. Not with a `vector`. */
  readonly meaning?: boolean;
}

/** A memory, or a document if a collection was searched. */
export interface RecalledRecord {
  readonly memory?: StoredMemory;
  readonly document?: StoredDocument;
}

/** A hit of a question. */
export interface Hit extends RecalledRecord {
  /** The score, which is the sum of the parts. */
  readonly score: number;
  /** The parts of the score. */
  readonly parts: Schemas["PartsBody"];
  /** The neighbours before it in its container, oldest first. */
  readonly before: readonly RecalledRecord[];
  /** The neighbours after it. */
  readonly after: readonly RecalledRecord[];
  /** The terms of the question that it holds, with `explain`. */
  readonly terms?: readonly Schemas["TermBody"][];
}

/** The answer to a question. */
export interface Recalled {
  /** The hits, best first. */
  readonly hits: readonly Hit[];
  /** How many records of the scope were examined. */
  readonly examined: number;
  /** Whether the whole scope was examined, and all hits with their neighbours fit. If not, part of these is left out. */
  readonly complete: boolean;
  /** The number of examined records that have no vector yet; absent if the search was by words alone. */
  readonly unembedded?: number;
  /** The divisors of the parts, with `explain`. */
  readonly explained?: Schemas["ExplainedBody"];
}

/** The vector model of a database. */
export interface VectorModel {
  readonly name: string;
  /** The length of its vectors, in numbers; at most 4,096. */
  readonly width: number;
  /** How vectors are kept: `compact` (the default), with one byte for each number, or `exact`, with four. */
  readonly precision?: "compact" | "exact";
}

/** The vector of a record at one of its revisions. */
export interface Embedding {
  /** The collection of a document; a memory has none. */
  readonly collection?: string;
  readonly id: string;
  readonly revision: number;
  readonly vector: Vector;
}

export interface EmbedOptions extends CallOptions {
  /** The name of the model of the vectors, which must be that of the database. */
  readonly model: string;
}

/** Selects the records of a watch, and says where it begins. */
export interface WatchQuery extends Spaces, Search, LedgerConditions {
  /** `memories` by default. The conditions on time, status and id don't apply to documents. */
  readonly of?: "memories" | "documents" | "both";
  /** The collections of the documents; all by default. */
  readonly collection?: string | readonly string[];
  /**
   * `now` by default; `start`, for a snapshot of the existing records and then the changes, without a gap; or the `token` of a change, to
   * resume after it in a watch of the same records.
   */
  readonly from?: string;
}

/**
 * One element of a watch: a record that has changed, as it is now, or the position of the watch. Its `token` resumes after it, even after a
 * restart.
 *
 * A newer server may send kinds that are not listed here: ignore them.
 */
export type Change = { readonly token: string } & (ChangedMemory | ChangedDocument | GoneRecord | UnreadableRecord | WatchProgress);

/** A memory that is new or has changed. */
export interface ChangedMemory {
  readonly kind: "stored" | "updated";
  readonly memory: StoredMemory;
  readonly document?: never;
}

/** A document that is new or has changed. */
export interface ChangedDocument {
  readonly kind: "stored" | "updated";
  readonly document: StoredDocument;
  readonly memory?: never;
}

/**
 * A document that was removed, a record that was erased, or one that has changed and no longer satisfies the watch. The watch may never have
 * told of the latter two before.
 */
export interface GoneRecord {
  readonly kind: "removed" | "erased" | "left";
  readonly id: string;
  /** The collection of a document; absent for a memory. */
  readonly collection?: string;
}

/** A record that has changed and can't be read. */
export interface UnreadableRecord {
  readonly kind: "unreadable";
  readonly reason: string;
  /** Present only for a caller who may read every space. */
  readonly id?: string;
}

/** `reached`: everything up to here was told. `progress`: the watch has come this far, and there is more. */
export interface WatchProgress {
  readonly kind: "reached" | "progress";
}
