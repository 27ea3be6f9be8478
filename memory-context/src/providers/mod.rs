//! The built-in context providers.
//!
//! | name | flags, position | what it contributes |
//! |---|---|---|
//! | `ACTIONS` | -1 | the tools that the agent can call |
//! | `ACTION_STATE` | 150 | plan, results and notes of the turn's actions |
//! | `ANXIETY` | | advice against verbosity |
//! | `ATTACHMENTS` | dynamic | the files and links of the conversation |
//! | `CAPABILITIES` | | the services of the host |
//! | `CHARACTER` | | the character of the agent |
//! | `CHOICE` | | the open choices of the room |
//! | `ENTITIES` | dynamic | the participants of the room |
//! | `EVALUATORS` | private | the evaluators that run after the turn |
//! | `FACTS` | dynamic | the facts that are related to the message |
//! | `PROMPT_MEMORY` | -10 | the prompt memory about the user and the work |
//! | `PROVIDERS` | | the dynamic providers that a model can request |
//! | `RECENT_MESSAGES` | 100 | the conversation |
//! | `REFLECTIONS` | dynamic | the agent's reflections on the room |
//! | `RELATIONSHIPS` | dynamic | the relationships of the author |
//! | `ROLES` | | the roles in the world |
//! | `SETTINGS` | | the settings of the world |
//! | `TIME` | | the time |
//! | `WORLD` | dynamic | the world, its rooms and participants |

mod agent;
mod conversation;
mod draw;
mod format;
mod people;
mod place;

use std::sync::Arc;

use crate::state::{ComposerBuilder, ContextProvider};

use agent::{ActionHistory, Actions, Capabilities, Character, Evaluators, Hindsight, Prefetch, Providers};
use conversation::{Attachments, Facts, RecentMessages};
use people::{Entities, Relationships, Roles};
use place::{Choice, Settings, World};

pub use agent::{Advice, Anxiety};
pub use place::Time;

impl ComposerBuilder {
    /// Adds the built-in providers.
    #[must_use]
    pub fn built_in(self) -> Self {
        built_in_providers().into_iter().fold(self, Self::provider)
    }
}

/// Returns all built-in providers, in the order of their names.
pub fn built_in_providers() -> Vec<Arc<dyn ContextProvider>> {
    vec![
        Arc::new(Actions),
        Arc::new(ActionHistory),
        Arc::new(Anxiety::default()),
        Arc::new(Attachments),
        Arc::new(Capabilities),
        Arc::new(Character),
        Arc::new(Choice),
        Arc::new(Entities),
        Arc::new(Evaluators),
        Arc::new(Facts),
        Arc::new(Prefetch),
        Arc::new(Providers),
        Arc::new(RecentMessages),
        Arc::new(Hindsight),
        Arc::new(Relationships),
        Arc::new(Roles),
        Arc::new(Settings),
        Arc::new(Time),
        Arc::new(World),
    ]
}
