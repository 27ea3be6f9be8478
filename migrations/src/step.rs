//! A step of a schema.

use std::fmt;

use sha2::{Digest, Sha256};

/// A step of an engine's schema: a file that is part of the program. A version consists of one or more steps with
/// different names. `Display` shows version and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The version of the schema that the step belongs to, from 1.
    pub version: u32,
    /// What the step adds or removes, in a word or two; unique within its version.
    pub name: &'static str,
    /// The text that the engine executes at once.
    pub text: &'static str,
    /// Whether the step is applied, and when it is complete.
    pub kind: Kind,
}

/// Whether a step is applied, and when it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Always applied; complete once its text was executed.
    Quick,
    /// Always applied. Its text begins the step; the engine completes it by a backfill, in slices.
    Backfill,
    /// No longer applied. It identifies databases in which older programs applied it, completely or not.
    Retired,
}

impl Step {
    /// Makes a step that is complete once its text was executed.
    pub const fn quick(version: u32, name: &'static str, text: &'static str) -> Self {
        Self { version, name, text, kind: Kind::Quick }
    }

    /// Makes a step that a backfill completes.
    pub const fn backfill(version: u32, name: &'static str, text: &'static str) -> Self {
        Self { version, name, text, kind: Kind::Backfill }
    }

    /// Makes a step that is no longer applied.
    pub const fn retired(version: u32, name: &'static str, text: &'static str) -> Self {
        Self { version, name, text, kind: Kind::Retired }
    }

    /// Returns whether the step is applied to a database that lacks it.
    pub fn is_taken(&self) -> bool {
        self.kind != Kind::Retired
    }

    /// Returns the SHA-256 of the text, as 64 lowercase hexadecimal digits.
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
