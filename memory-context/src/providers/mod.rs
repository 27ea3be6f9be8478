//! The built-in context providers: what a conversation usually needs.
//!
//! | name | flags, position | what it contributes |
//! |---|---|---|
//! | `ACTIONS` | -1 | what the agent can do |
//! | `ACTION_STATE` | 150 | plan, results and notes of the actions of the turn |
//! | `ANXIETY` | | advice against verbosity |
//! | `ATTACHMENTS` | dynamic | files and links of the conversation |
//! | `CAPABILITIES` | | what the services of the host make possible |
//! | `CHARACTER` | | who the agent is |
//! | `CHOICE` | | what waits for a decision |
//! | `ENTITIES` | dynamic | who is in the room |
//! | `EVALUATORS` | private | what looks at what the agent did |
//! | `FACTS` | dynamic | what is known and has to do with the message |
//! | `PROMPT_MEMORY` | -10 | what the agent keeps about the user and the work |
//! | `PROVIDERS` | | what else can be asked for |
//! | `RECENT_MESSAGES` | 100 | the conversation |
//! | `REFLECTIONS` | dynamic | what the agent thinks of how it did here |
//! | `RELATIONSHIPS` | dynamic | whom the author knows |
//! | `ROLES` | | who may do what in the server |
//! | `SETTINGS` | | how the server is set up |
//! | `TIME` | | what time it is |
//! | `WORLD` | dynamic | the server, its channels, who is there |

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
    /// Also the built-in providers.
    #[must_use]
    pub fn built_in(self) -> Self {
        built_in_providers().into_iter().fold(self, Self::provider)
    }
}

/// All built-in providers, in the order of their names.
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
