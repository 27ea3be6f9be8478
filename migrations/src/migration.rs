//! One step of a schema.

use std::fmt;

use sha2::{Digest, Sha256};

/// One step of an engine's schema: a file that is part of the program. `Display` names version and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its place in the order of the steps. The first is 1.
    pub version: u32,
    /// What it brings, in a word or two.
    pub name: &'static str,
    /// What the engine executes.
    pub text: &'static str,
}

impl Migration {
    /// The SHA-256 of the text, in 64 lowercase hexadecimal digits.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} {:?}", self.version, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_hexadecimal_sha256_of_the_text() {
        let migration = Migration { version: 1, name: "ledger", text: "abc" };
        assert_eq!(migration.checksum(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn display_names_version_and_name() {
        assert_eq!(Migration { version: 7, name: "ledger", text: "" }.to_string(), r#"version 7 "ledger""#);
    }
}
