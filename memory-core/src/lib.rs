#![doc = include_str!("../README.md")]

mod address;
mod cursor;
mod document;
mod embedder;
pub mod engine;
mod erasure;
mod error;
mod expiry;
pub mod filter;
mod health;
mod history;
mod id;
mod in_memory;
mod json;
mod keeper;
mod memory;
mod metadata;
mod page;
mod pattern;
pub mod plugin;
mod provider;
mod query;
mod recall;
mod selection;
mod space;
mod spaces;
mod time;
mod vector;
mod watch;
pub mod words;

pub use address::{Address, Host, Password};
pub use cursor::{Cursor, CursorKey, Position};
pub use document::{Content, Document, DocumentWrite, Expect};
pub use embedder::Embedder;
pub use engine::{DEFAULT_DEADLINE, Gate, record_rows};
pub use erasure::{ErasedSlice, Erasure, HashKey, KeyedHash, MAX_ERASED, Reason, Tombstone, TombstonePage};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use expiry::{MAX_RETENTION, Retention, Sweep, Swept};
pub use filter::Filter;
pub use health::{Backfill, Blocks, Durability, Health, HeldBack, Inspection};
pub use history::{Actor, History, HistoryPage, HistorySettings, TransientKeys, Version};
pub use id::{Collection, DocumentId, IdempotencyKey, MemoryId};
pub use in_memory::InMemory;
pub use json::{Context, JsonText, Trigger};
pub use keeper::{Kept, VectorKeeper};
pub use memory::{
    ContextPatch, ExpiryPatch, Memory, MemoryPatch, MetadataPatch, NewMemory, Revision, Status, Updated,
    check_repetition,
};
pub use metadata::{Json, JsonObject, Metadata, Number};
pub use page::{
    DocumentPage, Head, MAX_EXAMINED, MAX_LOOK_AHEAD, MemoryPage, PageBuilder, Selects, Unreadable, Verdict,
    compare_heads,
};
pub use provider::{
    DocumentStore, IntoDynProvider, MAX_BATCH, MAX_BATCH_BYTES, MemoryProvider, RestoreReport, check_batch,
    check_writes,
};
pub use query::{
    DEFAULT_LIMIT, DocumentQuery, Documents, Kind, Ledger, MAX_EXCLUDED, MAX_LIMIT, MAX_OFFSET, MAX_PAGE_BYTES,
    MAX_PATTERNS, MAX_SELECTORS, MAX_TEXT, MAX_WORDS, MemoryQuery, Order, Query, QueryBuilder,
};
pub use recall::{
    Container, DocumentRecall, Explained, Hit, Language, MAX_NEIGHBOURS, MemoryRecall, Parts, Recall, RecallOptions,
    Recalled, Term, Weights,
};
pub use selection::{DocumentSelection, MAX_REMOVED, MAX_REMOVED_BYTES};
pub use space::{BOUNDARIES, SpaceId, SpaceRange, SpaceSelector, Spaces, path_hash};
pub use spaces::{Count, MAX_SPACE_COUNT, MAX_SPACE_DEPTH, SpaceLevel, SpaceQuery, SpaceQueryBuilder, SpaceSummary};
pub use time::{Clock, ManualClock, SystemClock, Timestamp};
pub use vector::{Embedding, MAX_VECTORS, MAX_WIDTH, Precision, TextHash, Vector, VectorModel};
pub use watch::{
    Change, ChangeKind, Changes, Collections, MAX_COLLECTIONS, MAX_WATCHES, Record, RecordId, Watch, WatchFrom,
    WatchToken, Watched,
};
