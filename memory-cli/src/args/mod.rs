//! Options that several commands share.

mod embedder;
mod expiry;
pub(crate) mod heading;
mod ledger;
mod page;
mod query;
mod ranking;
mod spaces;
pub(crate) mod values;

pub(crate) use embedder::EmbedderArgs;
pub(crate) use expiry::ExpiryArgs;
pub(crate) use ledger::LedgerArgs;
pub(crate) use page::PageArgs;
pub(crate) use query::{build, refused, with_filter};
pub(crate) use ranking::RankingArgs;
pub(crate) use spaces::SpaceArgs;
