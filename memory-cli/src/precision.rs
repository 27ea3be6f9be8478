//! How vectors are kept, as callers name it.

use clap::ValueEnum;
use memory_core::Precision;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The format of stored vectors.
#[derive(Debug, Clone, Copy, Default, ValueEnum, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Precision)]
pub(crate) enum PrecisionName {
    /// One byte per number, with a scale
    #[default]
    Compact,
    /// Four bytes per number
    Exact,
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Self {
        match name {
            PrecisionName::Compact => Self::Compact,
            PrecisionName::Exact => Self::Exact,
        }
    }
}

impl From<Precision> for PrecisionName {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Compact => Self::Compact,
            Precision::Exact => Self::Exact,
        }
    }
}
