//! One step of a schema.

use std::fmt;

use sha2::{Digest, Sha256};

/// One step of an engine's schema: a file that is part of the program. A version has one step or several, told apart by their names.
/// `Display` names version and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The version of the schema that it belongs to. The first is 1.
    pub version: u32,
    /// What it brings, in a word or two.
    pub name: &'static str,
    /// What the engine executes at once.
    pub text: &'static str,
    /// When it is taken, and when it is complete.
    pub kind: Kind,
}

/// When a step is taken, and when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Taken always, and complete when its text was executed.
    Quick,
    /// Taken always. Its text begins it, and a backfill completes it, which the engine does in slices.
    Backfill,
    /// Taken no more. Databases that older programs have taken it in are known by it, whether it came to its end or not.
    Retired,
}

impl Step {
    /// A step that is complete when its text was executed.
    pub const fn quick(version: u32, name: &'static str, text: &'static str) -> Self {
        Self { version, name, text, kind: Kind::Quick }
    }

    /// A step that a backfill completes.
    pub const fn backfill(version: u32, name: &'static str, text: &'static str) -> Self {
        Self { version, name, text, kind: Kind::Backfill }
    }

    /// A step that no database gets any more.
    pub const fn retired(version: u32, name: &'static str, text: &'static str) -> Self {
        Self { version, name, text, kind: Kind::Retired }
    }

    /// Whether a database that lacks it gets it.
    pub fn is_taken(&self) -> bool {
        self.kind != Kind::Retired
    }

    /// The SHA-256 of the text, in 64 lowercase hexadecimal digits.
    pub fn checksum(&self) -> String {
        Sha256::digest(self.text).iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} {:?}", self.version, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_hexadecimal_sha256_of_the_text() {
        let step = Step::quick(1, "ledger", "abc");
        assert_eq!(step.checksum(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn display_names_version_and_name() {
        assert_eq!(Step::quick(7, "ledger", "").to_string(), r#"version 7 "ledger""#);
    }
}
