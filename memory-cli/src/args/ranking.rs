//! How a question is read and ranked.

use clap::Args;
use memory_core::{Container, Language, RecallOptions};

use super::values;

/// How the question is read.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct RankingArgs {
    /// english, german or another that the README lists, or none; unless given, that of the database (?language= in the URL).
    #[arg(long, value_parser = values::language)]
    language: Option<Language>,
    /// What holds records together: parent (the space above), depth:N (so many segments of the space) or metadata:KEY.
    #[arg(long, default_value = "parent", value_parser = values::container)]
    container: Container,
    /// The key of the metadata that names who speaks.
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
