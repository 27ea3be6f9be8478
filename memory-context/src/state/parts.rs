//! The parts that can be registered: context providers, tools, evaluators, services and triggers, each with a unique name.

use std::collections::HashSet;
use std::sync::Arc;

use memory_core::{Error, Result};

use super::{ContextProvider, Evaluator, Service};
use crate::agent::MessageTrigger;
use crate::tool::{Tool, ToolAlias};

/// A set of parts, which is registered as a whole or not at all.
///
/// ```
/// use std::sync::Arc;
/// use memory_context::providers::Time;
/// use memory_context::state::ContextParts;
///
/// let parts = ContextParts::default().with_provider(Arc::new(Time));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ContextParts {
    /// Providers, which contribute to the state.
    pub providers: Vec<Arc<dyn ContextProvider>>,
    /// Tools, which the agent can call.
    pub tools: Vec<Tool>,
    /// Other names for tools. The tools may come from any source.
    pub aliases: Vec<ToolAlias>,
    /// Evaluators, which run after a turn.
    pub evaluators: Vec<Arc<dyn Evaluator>>,
    /// Services, which the other parts use.
    pub services: Vec<Arc<dyn Service>>,
    /// Triggers, which bring messages. An [`Agent`](crate::agent::Agent) runs them; a composer alone does not.
    pub triggers: Vec<Arc<dyn MessageTrigger>>,
}

/// The kind and name of a registered part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ContextPart {
    /// A context provider.
    Provider(String),
    /// A tool.
    Tool(String),
    /// An alias of a tool.
    Alias(String),
    /// An evaluator.
    Evaluator(String),
    /// A service.
    Service(String),
    /// A trigger.
    Trigger(String),
}

impl ContextParts {
    /// Adds a context provider.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn ContextProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Adds a tool.
    #[must_use]
    pub fn with_tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds another name for the tool with the name `tool`. The tool may come from any source.
    #[must_use]
    pub fn with_alias(mut self, name: impl Into<String>, tool: impl Into<String>) -> Self {
        self.aliases.push(ToolAlias { name: name.into(), tool: tool.into() });
        self
    }

    /// Adds an evaluator.
    #[must_use]
    pub fn with_evaluator(mut self, evaluator: Arc<dyn Evaluator>) -> Self {
        self.evaluators.push(evaluator);
        self
    }

    /// Adds a service.
    #[must_use]
    pub fn with_service(mut self, service: Arc<dyn Service>) -> Self {
        self.services.push(service);
        self
    }

    /// Adds a trigger.
    #[must_use]
    pub fn with_trigger(mut self, trigger: Arc<dyn MessageTrigger>) -> Self {
        self.triggers.push(trigger);
        self
    }

    /// Fails with `InvalidInput` if two parts of a kind have the same name, if a name is empty, if a tool can't be offered to a model, or
    /// if an alias names no tool.
    pub(super) fn check(&self) -> Result<()> {
        check(&self.providers)?;
        check(&self.tools)?;
        self.tools.iter().try_for_each(Tool::validate)?;
        ToolAlias::check_all(&self.aliases, &self.tools)?;
        check(&self.evaluators)?;
        check(&self.services)?;
        check(&self.triggers)
    }

    /// Appends other parts.
    pub(super) fn add(&mut self, others: Self) {
        self.providers.extend(others.providers);
        self.tools.extend(others.tools);
        self.aliases.extend(others.aliases);
        self.evaluators.extend(others.evaluators);
        self.services.extend(others.services);
        self.triggers.extend(others.triggers);
    }

    /// Replaces the parts with the same names, and appends those with new names.
    pub(super) fn replace(&mut self, others: Self) {
        replace(&mut self.providers, others.providers);
        replace(&mut self.tools, others.tools);
        replace(&mut self.aliases, others.aliases);
        replace(&mut self.evaluators, others.evaluators);
        replace(&mut self.services, others.services);
        replace(&mut self.triggers, others.triggers);
    }

    /// Removes a part. Returns whether it existed.
    pub(super) fn remove(&mut self, part: &ContextPart) -> bool {
        let was_there = match part {
            ContextPart::Provider(name) => remove(&mut self.providers, name),
            ContextPart::Tool(name) => remove(&mut self.tools, name),
            ContextPart::Alias(name) => remove(&mut self.aliases, name),
            ContextPart::Evaluator(name) => remove(&mut self.evaluators, name),
            ContextPart::Service(name) => remove(&mut self.services, name),
            ContextPart::Trigger(name) => remove(&mut self.triggers, name),
        };
        self.aliases.retain(|alias| alias.is_of(&self.tools));
        was_there
    }

    /// Removes exactly these parts, compared by identity; a part that has replaced one of them stays.
    pub(super) fn remove_all(&mut self, others: &Self) {
        self.providers.retain(|one| !holds(&others.providers, one));
        self.tools.retain(|one| !holds(&others.tools, one));
        self.aliases.retain(|one| !holds(&others.aliases, one) && one.is_of(&self.tools));
        self.evaluators.retain(|one| !holds(&others.evaluators, one));
        self.services.retain(|one| !holds(&others.services, one));
        self.triggers.retain(|one| !holds(&others.triggers, one));
    }
}

/// A part with a name.
trait Named {
    const KIND: &'static str;

    fn name(&self) -> &str;

    /// Whether both are the same part, compared by identity, not by name.
    fn is_same(&self, other: &Self) -> bool;
}

impl Named for Arc<dyn ContextProvider> {
    const KIND: &'static str = "provider";

    fn name(&self) -> &str {
        &self.info().name
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl Named for Tool {
    const KIND: &'static str = "tool";

    fn name(&self) -> &str {
        Self::name(self)
    }

    fn is_same(&self, other: &Self) -> bool {
        Self::is_same(self, other)
    }
}

impl Named for ToolAlias {
    const KIND: &'static str = "alias";

    fn name(&self) -> &str {
        &self.name
    }

    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

impl Named for Arc<dyn Evaluator> {
    const KIND: &'static str = "evaluator";

    fn name(&self) -> &str {
        &self.info().name
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl Named for Arc<dyn Service> {
    const KIND: &'static str = "service";

    fn name(&self) -> &str {
        Service::name(self.as_ref())
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

impl Named for Arc<dyn MessageTrigger> {
    const KIND: &'static str = "trigger";

    fn name(&self) -> &str {
        MessageTrigger::name(self.as_ref())
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}

fn check<T: Named>(parts: &[T]) -> Result<()> {
    let mut taken = HashSet::new();
    for name in parts.iter().map(Named::name) {
        if name.is_empty() {
            return Err(Error::invalid(format!("the name of a {} must not be empty", T::KIND)));
        }
        if !taken.insert(name) {
            return Err(Error::invalid(format!("the {} name {name} is used twice", T::KIND)));
        }
    }
    Ok(())
}

fn replace<T: Named>(parts: &mut Vec<T>, others: Vec<T>) {
    for other in others {
        match parts.iter_mut().find(|part| part.name() == other.name()) {
            Some(place) => *place = other,
            None => parts.push(other),
        }
    }
}

fn remove<T: Named>(parts: &mut Vec<T>, name: &str) -> bool {
    let before = parts.len();
    parts.retain(|part| part.name() != name);
    parts.len() < before
}

fn holds<T: Named>(parts: &[T], one: &T) -> bool {
    parts.iter().any(|part| part.is_same(one))
}
