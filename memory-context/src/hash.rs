//! Collision-free names by hashing.

use sha2::{Digest, Sha256};

/// Hashes these parts, in hexadecimal digits. Each part is hashed with its length, so different lists of parts never have the same input.
pub(crate) fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let hashes = [of_parts(["a", "bc"]), of_parts(["ab", "c"]), of_parts(["abc"]), of_parts(["a", "bc", ""])];
        for (at, hash) in hashes.iter().enumerate() {
            assert_eq!(hash.len(), 64);
            assert!(!hashes[..at].contains(hash));
        }
    }
}
