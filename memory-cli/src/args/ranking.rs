//! The options for ranking the answers to a question.

use clap::Args;
use memory_core::{Container, Language, RecallOptions};

use super::values;

/// The options for ranking the answers to a question.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct RankingArgs {
    /// The language of the question: english, german or another that the README lists, or none; by default that of the database (?language=
    /// in the URL).
    #[arg(long, value_parser = values::language)]
    language: Option<Language>,
    /// What groups records into containers: parent (the space above), depth:N (the first N segments of the space) or metadata:KEY.
    #[arg(long, default_value = "parent", value_parser = values::container)]
    container: Container,
    /// The metadata key that names the speaker.
    #[arg(long, value_name = "KEY", default_value = "speaker")]
    speaker: String,
}

impl RankingArgs {
    pub(crate) fn options(&self) -> RecallOptions {
        let Self { language, container, speaker } = self;
        RecallOptions {
            language: *language,
            container: container.clone(),
            speaker: speaker.clone(),
            ..RecallOptions::default()
        }
    }
}
