//! `LOOK_UP`: adds dynamic providers to the prompt.

use memory_core::{Error, ErrorKind, Result};

use crate::state::{ProviderInfo, Services};
use crate::tool::{Tool, ToolContext, ToolOutput};

const NAME: &str = "LOOK_UP";

/// Shows what providers know that are named here and not shown
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Question {
    /// the names of the providers
    providers: Vec<String>,
}

/// The tool adds dynamic providers to the next prompts. It is offered to models that call tools, if there are such providers; other
/// models name providers in their answers.
pub(super) fn tool() -> Tool {
    Tool::new(NAME, look_up).repeatable().when(|_, services| async move {
        let calls_tools = services.model().is_some_and(|model| model.calls_tools());
        Ok(calls_tools && offered(&services).next().is_some())
    })
}

async fn look_up(Question { providers }: Question, context: ToolContext) -> Result<ToolOutput> {
    let is_meant = |info: &&ProviderInfo| providers.iter().any(|name| name.eq_ignore_ascii_case(&info.name));
    let names = |infos: &[&ProviderInfo]| infos.iter().map(|info| info.name.to_string()).collect::<Vec<_>>();
    let meant: Vec<_> = offered(context.services()).filter(is_meant).collect();
    if meant.is_empty() {
        let there = names(&offered(context.services()).collect::<Vec<_>>()).join(", ");
        return Err(Error::new(ErrorKind::NotFound, format!("no provider has such a name; there are {there}")));
    }
    let names = names(&meant);
    Ok(ToolOutput::new(format!("shown now: {}", names.join(", "))).with_providers(names))
}

/// The providers that a prompt lists but does not run.
fn offered(services: &Services) -> impl Iterator<Item = &ProviderInfo> {
    services.providers().iter().map(|provider| provider.info()).filter(|info| info.dynamic && !info.private)
}
