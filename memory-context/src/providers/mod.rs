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

mod action_state;
mod actions;
mod anxiety;
mod attachments;
mod capabilities;
mod character;
mod choice;
mod entities;
mod evaluators;
mod facts;
mod format;
mod prompt_memory;
mod provider_list;
mod recent_messages;
mod reflections;
mod relationships;
mod roles;
mod settings;
mod time;
mod world;

use std::sync::Arc;

use crate::state::{ComposerBuilder, ContextProvider};

use action_state::ActionHistory;
use actions::Actions;
use attachments::Attachments;
use capabilities::Capabilities;
use character::Character;
use choice::Choice;
use entities::Entities;
use evaluators::Evaluators;
use facts::Facts;
use prompt_memory::Prefetch;
use provider_list::Providers;
use recent_messages::RecentMessages;
use reflections::Hindsight;
use relationships::Relationships;
use roles::Roles;
use settings::Settings;
use world::World;

pub use anxiety::{Advice, Anxiety};
pub use time::Time;

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
