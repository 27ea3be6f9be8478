import type { components } from "./openapi.js";
import type { Json, JsonObject } from "./json.js";
import type { CallOptions } from "./transport.js";

type Schemas = components["schemas"];

/** How far the task of a memory is; `observed` was seen and is never answered. */
export type Status = Schemas["StatusName"];

/** A memory of the ledger. Times are milliseconds since 1970 UTC. */
export type StoredMemory = Omit<Schemas["Memory"], "trigger" | "context" | "metadata"> & {
  readonly trigger: Json;
  readonly context?: Json;
  readonly metadata: JsonObject;
};

/** A text that an agent saved, in a collection. Times are milliseconds since 1970 UTC. */
export type StoredDocument = Omit<Schemas["Document"], "metadata"> & { readonly metadata: JsonObject };

/** A row that is no valid record. */
export type Unreadable = Schemas["UnreadableBody"];

/** How the engine is. */
export type Health = Schemas["HealthBody"];

/** What a text means, as a model tells it: numbers, or the base64 of a vector as the server keeps it. */
export type Vector = string | ArrayLike<number>;

/** When a record expires: from then on no answer has it, and it is erased. */
export interface Expiry {
  /** In so many milliseconds from the call on; not with `expiresAt`. */
  readonly expiresIn?: number;
  /** Then; never unless given. A number is milliseconds since 1970 UTC. */
  readonly expiresAt?: number | Date;
}

/** What is stored with a memory, beside its space and its trigger. */
export interface MemoryOptions extends Expiry {
  /** What came of it, if that is known already. */
  readonly context?: Json;
  /** What conditions can look into. */
  readonly metadata?: JsonObject;
  /** `pending` unless given. */
  readonly status?: Status;
  /** When it happened; now unless given. A number is milliseconds since 1970 UTC. */
  readonly createdAt?: number | Date;
  /** Finds the first store again; made for the call unless given. */
  readonly idempotencyKey?: string;
  /** What it means, by the model of the database. A server with a model of its own makes one unless given. */
  readonly vector?: Vector;
}

/** A memory to store. */
export interface NewMemory extends MemoryOptions {
  /** Where it happened, from broad to narrow. */
  readonly spaceId: string;
  /** What happened: any JSON. */
  readonly trigger: Json;
}

/** A change of a memory: what is not named stays. */
export interface MemoryPatch {
  /** `clear` lets it expire no more. A number is milliseconds since 1970 UTC. */
  readonly expiresAt?: "clear" | { readonly set: number | Date };
  /** Lets it expire in so many milliseconds from the call on; not with `expiresAt`. */
  readonly expiresIn?: number;
  readonly context?: "clear" | { readonly set: Json };
  /** `merge` is a merge patch (RFC 7396). */
  readonly metadata?: { readonly replace: JsonObject } | { readonly merge: JsonObject };
  readonly status?: Status;
  /** The revision that the memory must have, or else `Conflict`. Only with it is an update repeated whose outcome is unknown. */
  readonly ifRevision?: number;
}

/** What an update left behind. */
export type Updated = Schemas["UpdatedBody"];

/** Which spaces: at least one selector (several are a union), or `all`. */
export interface Spaces {
  /** The spaces with these ids. */
  readonly space?: string | readonly string[];
  /** These spaces and all below them: the safe choice to keep tenants apart. */
  readonly under?: string | readonly string[];
  /** Spaces that start with these bytes; `guild1` also finds `guild12`. */
  readonly prefix?: string | readonly string[];
  /** Spaces that match a pattern of `*`, `?` and `[a-z]` as a whole. */
  readonly glob?: string | readonly string[];
  /** Spaces in which a regular expression finds something. */
  readonly regex?: string | readonly string[];
  /** Every space. */
  readonly all?: true;
}

/** Which part of the tree of spaces. */
export interface SpacesOptions extends CallOptions {
  /** The spaces right below this one; the top-level ones without it. */
  readonly under?: string;
  /** Lists the spaces of the documents of this collection instead of those of the ledger. */
  readonly collection?: string;
  /** How many levels: 1 unless given, at most 8. */
  readonly depth?: number;
  /** How many spaces of each level at most: 50 unless given, at most 1,000. */
  readonly limit?: number;
  /** `next` of a level that was listed before; `under` is then what that lies below. */
  readonly cursor?: string;
}

/** The spaces right below one, in the order of the bytes of their ids. */
export interface SpaceLevel {
  /** What they lie below; absent for top-level spaces. */
  readonly under?: string;
  readonly spaces: readonly Schemas["SpaceBody"][];
  /** The `cursor` of the rest. A short level may have one. */
  readonly next?: string;
}

/** What the records hold. */
export interface Search {
  /** A condition, as in `metadata.topic = 'rust' AND text ILIKE '%birthday%'`. */
  readonly where?: string;
  /** Words of which a record holds at least one. */
  readonly text?: string;
}

/** When memories were created, and how far their tasks are. */
export interface LedgerConditions {
  /** Created after this, exclusively. */
  readonly after?: number | Date;
  /** Created before this, exclusively. */
  readonly before?: number | Date;
  readonly status?: Status | readonly Status[];
  /** The ids of memories to leave out. */
  readonly exclude?: string | readonly string[];
}

/** Which page of what was found. */
export interface PageOptions {
  /** `newest` first unless given. */
  readonly order?: "newest" | "oldest";
  /** How many records at most: 50 unless given, at most 1,000. */
  readonly limit?: number;
  /** Leaves out this many at the start, at most 10,000; not with a cursor. */
  readonly offset?: number;
  /** `next` of an earlier page of the same query. */
  readonly cursor?: string;
}

export interface MemoryQuery extends Spaces, Search, LedgerConditions, PageOptions {}

export interface DocumentQuery extends Spaces, Search, PageOptions {}

/** A page of memories. A short or empty page may have a next one; only a page without `next` is the last. */
export interface MemoryPage {
  readonly memories: readonly StoredMemory[];
  /** Rows that match as far as can be told, and can't be read. */
  readonly unreadable: readonly Unreadable[];
  readonly next?: string;
}

/** A page of documents. A short or empty page may have a next one; only a page without `next` is the last. */
export interface DocumentPage {
  readonly documents: readonly StoredDocument[];
  /** Rows that match as far as can be told, and can't be read. */
  readonly unreadable: readonly Unreadable[];
  readonly next?: string;
}

/** The time of which something is shown. */
export interface ThenOptions {
  /** As it was then, and not as it is. */
  readonly asOf?: number | Date;
}

/** Which versions are shown. */
export interface VersionOptions {
  /** How many at most: 50 unless given, at most 1,000. */
  readonly limit?: number;
  /** `next` of an earlier page of the same history. */
  readonly cursor?: string;
}

/** What a record was from one commit to the next. A version without a memory and without a document is the removal of a document. */
export interface Version {
  readonly revision: number;
  /** When it was committed, in milliseconds since 1970 UTC, by the server's clock. */
  readonly committedAt?: number;
  /** Who made it: the name of a token, or of an agent's program. */
  readonly actor?: string;
  readonly memory?: StoredMemory;
  readonly document?: StoredDocument;
}

/** A page of versions, newest first. A short or empty page may have a next one; only a page without `next` is the last. */
export interface HistoryPage {
  readonly versions: readonly Version[];
  readonly next?: string;
}

/** A document to put. Without an expiry it expires no more, whatever was in place. */
export interface NewDocument extends Expiry {
  /** The space it is about. */
  readonly spaceId: string;
  /** The text, of at most 1 MiB. */
  readonly content: string;
  /** What conditions can look into. */
  readonly metadata?: JsonObject;
  /** When it is made; now unless given. Later puts leave it alone. */
  readonly createdAt?: number | Date;
  /** What it means, by the model of the database. A server with a model of its own makes one unless given. */
  readonly vector?: Vector;
}

/** One of many documents to put. */
export interface NewDocumentOf extends NewDocument {
  readonly collection: string;
  /** Made for the document unless given. */
  readonly id?: string;
  /** What must be in place, or else `Conflict`: nothing, or this revision. */
  readonly expect?: "absent" | number;
}

/** What a put of many left of one of its documents. Times are milliseconds since 1970 UTC. */
export interface PutDocument {
  readonly id: string;
  readonly collection: string;
  readonly createdAt: number;
  readonly updatedAt?: number;
  readonly revision: number;
  readonly expiresAt?: number;
}

export interface PutOptions extends CallOptions {
  /** What must be in place, or else `Conflict`: nothing, or this revision. Only with it is a put repeated whose outcome is unknown. */
  readonly expect?: "absent" | number;
}

/** Which documents: those that satisfy all that is named. `id` alone looks in every space; `all` alone removes nothing. */
export interface DocumentSelection extends Spaces, Search {
  readonly id?: string | readonly string[];
}

export interface RemoveOptions extends CallOptions {
  /** If more are found, none is removed: 10 unless given, at most 10,000. */
  readonly max?: number;
  /** Tells what would be removed, and removes nothing. */
  readonly dryRun?: boolean;
}

/** What is erased, and why: either `ids` of memories, or what a query finds. */
export interface Erasure {
  /** Stays with each record, in one line: it should name nobody who is to be forgotten. */
  readonly reason: string;
  /** At most 1,000 memories. */
  readonly ids?: readonly string[];
  /** All spaces need a status, a condition or words beside them. */
  readonly query?: Spaces & Search & LedgerConditions;
  /** Also the documents that the spaces, `where` and `text` of the query find. */
  readonly documents?: boolean;
  /** Of the documents, those of these collections; all unless given. */
  readonly collections?: readonly string[];
  /** How many records of a query a call erases: 100 unless given, at most 1,000. */
  readonly limit?: number;
}

/** What one call has erased. */
export interface ErasedSlice {
  /** A document has a collection, and a memory none. */
  readonly records: readonly { readonly id: string; readonly collection?: string }[];
  /** Whether nothing is left. Otherwise the same call erases what comes next. */
  readonly isComplete: boolean;
}

/** Where a question looks, and how it is read. */
export interface RecallOptions extends Spaces, LedgerConditions, CallOptions {
  /** Asks the documents of this collection instead of the ledger. */
  readonly collection?: string;
  /** A condition that hits satisfy. */
  readonly where?: string;
  /** How many hits at most: 10 unless given, at most 1,000. */
  readonly limit?: number;
  /** How many records on each side of a hit in its container, at most 10. */
  readonly neighbours?: number;
  /** Tells the terms that matched and the divisors of the scores. */
  readonly explain?: boolean;
  /** `english`, `german` or another that the server knows, or `none`; that of the database unless given. */
  readonly language?: string;
  /** What holds records together: `parent` (the space above, the default), `depth:N` or `metadata:KEY`. */
  readonly container?: string;
  /** The key of the metadata that names who speaks: `speaker` unless given. */
  readonly speaker?: string;
  /** What the question means, by the model of the database; its words may then be empty. */
  readonly vector?: Vector;
  /** Whether the server's own model asks by what the question means; where it has one unless given. Not with a `vector`. */
  readonly meaning?: boolean;
}

/** A memory, or a document where a collection was asked. */
export interface RecalledRecord {
  readonly memory?: StoredMemory;
  readonly document?: StoredDocument;
}

/** A record that answers. */
export interface Hit extends RecalledRecord {
  /** The sum of the parts. */
  readonly score: number;
  /** What each property of the record brings to its score. */
  readonly parts: Schemas["PartsBody"];
  /** The records before it in its container, oldest first. */
  readonly before: readonly RecalledRecord[];
  /** The records behind it. */
  readonly after: readonly RecalledRecord[];
  /** The terms of the question that it holds, with `explain`. */
  readonly terms?: readonly Schemas["TermBody"][];
}

/** What a question found. */
export interface Recalled {
  /** The best comes first. */
  readonly hits: readonly Hit[];
  /** How many records of the scope were looked at. */
  readonly examined: number;
  /** Whether all of the scope was. If not, the hits are the best of its newest part. */
  readonly complete: boolean;
  /** How many of the records have no vector yet; absent where words alone have found what is here. */
  readonly unembedded?: number;
  /** By what the parts were divided, with `explain`. */
  readonly explained?: Schemas["ExplainedBody"];
}

/** The model that the database has its vectors from. */
export interface VectorModel {
  readonly name: string;
  /** How many numbers a vector has, at most 4,096. */
  readonly width: number;
  /** How they are kept: `compact` unless given, in one byte a number, or `exact`, in four. */
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
  /** The name of the model that has made the vectors, which is that of the database. */
  readonly model: string;
}

/** What is watched, and from where on. */
export interface WatchQuery extends Spaces, Search, LedgerConditions {
  /** `memories` unless given. Documents have no time, status or id among their conditions. */
  readonly of?: "memories" | "documents" | "both";
  /** The collections of the documents; all unless given. */
  readonly collection?: string | readonly string[];
  /**
   * `now` unless given; `start`, a snapshot of what is there and then what changes, without a gap; or the `token` of a change, to go on
   * behind it in a watch of the same records.
   */
  readonly from?: string;
}

/**
 * A change of a record that is watched, as it is now, or how far the watch is. Its `token` goes on behind it, also after a restart.
 *
 * A newer server may tell of kinds that are not named here: pass over them.
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
 * A document that was removed, a record that was erased, or one that has changed and is not among those that are watched now. The latter two
 * may be ones that were never told of.
 */
export interface GoneRecord {
  readonly kind: "removed" | "erased" | "left";
  readonly id: string;
  /** Of a document; a memory has none. */
  readonly collection?: string;
}

/** A record that has changed and can't be read. */
export interface UnreadableRecord {
  readonly kind: "unreadable";
  readonly reason: string;
  /** For a caller who may read every space. */
  readonly id?: string;
}

/** `reached`: everything up to here was told. `progress`: the watch has come this far, and there is more. */
export interface WatchProgress {
  readonly kind: "reached" | "progress";
}
