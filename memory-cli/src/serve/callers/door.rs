//! What a caller must show to be let in.

use super::tokens::{Secret, Tokens};

/// The credentials that a caller must show.
#[derive(Debug)]
pub(crate) enum Door {
    /// None: everybody who can reach the server is let in.
    Open,
    /// The one secret of the server.
    Secret(Secret),
    /// One of the tokens, which defines the rights of its caller.
    Tokens(Tokens),
}

impl Door {
    /// The digests of what callers show; none where that is nothing.
    pub(crate) fn digests(&self) -> Vec<[u8; 32]> {
        match self {
            Self::Open => Vec::new(),
            Self::Secret(secret) => vec![secret.digest()],
            Self::Tokens(tokens) => tokens.digests().collect(),
        }
    }

    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        match self {
            Self::Tokens(tokens) => Some(tokens),
            Self::Open | Self::Secret(_) => None,
        }
    }
}
