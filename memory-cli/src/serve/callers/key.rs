//! The key that signs what browsers keep.

use std::fmt;

use sha2::{Digest, Sha256};

use super::door::Door;

/// Sets this use of the digests of tokens apart from others.
const PURPOSE: &str = "agent-memory console\n";

/// Signs passes and addresses of the console.
///
/// It is derived from all tokens of the server: servers with the same tokens accept what each other has signed, and a change of any token
/// makes all of it invalid. A server without tokens has a random key.
pub(crate) struct ConsoleKey([u8; 32]);

impl ConsoleKey {
    pub(crate) fn of(door: &Door) -> Self {
        let mut digests = door.digests();
        if digests.is_empty() {
            return Self::random();
        }
        // The order of the tokens in their file has no meaning.
        digests.sort_unstable();
        let hash = digests.iter().fold(Sha256::new_with_prefix(PURPOSE), Sha256::chain_update);
        Self(hash.finalize().into())
    }

    /// A signature of a text.
    pub(crate) fn signed(&self, text: &str) -> String {
        let digest: [u8; 32] = self.hash().chain_update("text\n").chain_update(text).finalize().into();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Hashes what follows together with the key.
    pub(crate) fn hash(&self) -> Sha256 {
        Sha256::new_with_prefix(self.0)
    }

    fn random() -> Self {
        let mut key = [0; 32];
        // Without random numbers of the system, TLS and ids would have failed before.
        getrandom::fill(&mut key).expect("the system has random numbers");
        Self(key)
    }
}

/// Hides the key.
impl fmt::Debug for ConsoleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConsoleKey")
    }
}
