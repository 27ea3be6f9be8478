//! What is registered: context providers, actions, evaluators and services, each under a name of its own.

use std::collections::HashSet;
use std::ptr;
use std::sync::Arc;

use memory_core::{Error, Result};

use super::{Action, ContextProvider, Evaluator, Service};

/// What one source brings along: registered as a whole or not at all.
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
    /// What contributes to the state.
    pub providers: Vec<Arc<dyn ContextProvider>>,
    /// What the agent can do.
    pub actions: Vec<Arc<dyn Action>>,
    /// What looks at what it did.
    pub evaluators: Vec<Arc<dyn Evaluator>>,
    /// What the others use.
    pub services: Vec<Arc<dyn Service>>,
}

/// The name of something that is registered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ContextPart {
    /// A context provider.
    Provider(String),
    /// An action.
    Action(String),
    /// An evaluator.
    Evaluator(String),
    /// A service.
    Service(String),
}

impl ContextParts {
    /// Also a context provider.
    #[must_use]
    pub fn with_provider(mut self, provider: Arc<dyn ContextProvider>) -> Self {
        self.providers.push(provider);
        self
    }

    /// Also an action.
    #[must_use]
    pub fn with_action(mut self, action: Arc<dyn Action>) -> Self {
        self.actions.push(action);
        self
    }

    /// Also an evaluator.
    #[must_use]
    pub fn with_evaluator(mut self, evaluator: Arc<dyn Evaluator>) -> Self {
        self.evaluators.push(evaluator);
        self
    }

    /// Also a service.
    #[must_use]
    pub fn with_service(mut self, service: Arc<dyn Service>) -> Self {
        self.services.push(service);
        self
    }

    /// `InvalidInput` when two of a kind share a name, and when a name is empty.
    pub(super) fn check(&self) -> Result<()> {
        check(&self.providers)?;
        check(&self.actions)?;
        check(&self.evaluators)?;
        check(&self.services)
    }

    /// Puts others behind these.
    pub(super) fn add(&mut self, others: Self) {
        self.providers.extend(others.providers);
        self.actions.extend(others.actions);
        self.evaluators.extend(others.evaluators);
        self.services.extend(others.services);
    }

    /// Puts others in the places of those with their names, and behind the rest where there is none.
    pub(super) fn replace(&mut self, others: Self) {
        replace(&mut self.providers, others.providers);
        replace(&mut self.actions, others.actions);
        replace(&mut self.evaluators, others.evaluators);
        replace(&mut self.services, others.services);
    }

    /// Takes one away; tells whether it was there.
    pub(super) fn remove(&mut self, part: &ContextPart) -> bool {
        match part {
            ContextPart::Provider(name) => remove(&mut self.providers, name),
            ContextPart::Action(name) => remove(&mut self.actions, name),
            ContextPart::Evaluator(name) => remove(&mut self.evaluators, name),
            ContextPart::Service(name) => remove(&mut self.services, name),
        }
    }

    /// Takes these very ones away; what took the place of one of them stays.
    pub(super) fn remove_all(&mut self, others: &Self) {
        self.providers.retain(|one| !holds(&others.providers, one));
        self.actions.retain(|one| !holds(&others.actions, one));
        self.evaluators.retain(|one| !holds(&others.evaluators, one));
        self.services.retain(|one| !holds(&others.services, one));
    }
}

/// Something that is registered under a name.
trait Named {
    const KIND: &'static str;

    fn name(&self) -> &str;
}

impl Named for dyn ContextProvider {
    const KIND: &'static str = "provider";

    fn name(&self) -> &str {
        &self.info().name
    }
}

impl Named for dyn Action {
    const KIND: &'static str = "action";

    fn name(&self) -> &str {
        &self.info().name
    }
}

impl Named for dyn Evaluator {
    const KIND: &'static str = "evaluator";

    fn name(&self) -> &str {
        &self.info().name
    }
}

impl Named for dyn Service {
    const KIND: &'static str = "service";

    fn name(&self) -> &str {
        Service::name(self)
    }
}

fn check<T: Named + ?Sized>(parts: &[Arc<T>]) -> Result<()> {
    let mut taken = HashSet::new();
    for name in parts.iter().map(|part| part.name()) {
        if name.is_empty() {
            return Err(Error::invalid(format!("the name of a {} must not be empty", T::KIND)));
        }
        if !taken.insert(name) {
            return Err(Error::invalid(format!("two have the {} name {name}", T::KIND)));
        }
    }
    Ok(())
}

fn replace<T: Named + ?Sized>(parts: &mut Vec<Arc<T>>, others: Vec<Arc<T>>) {
    for other in others {
        match parts.iter_mut().find(|part| part.name() == other.name()) {
            Some(place) => *place = other,
            None => parts.push(other),
        }
    }
}

fn remove<T: Named + ?Sized>(parts: &mut Vec<Arc<T>>, name: &str) -> bool {
    let before = parts.len();
    parts.retain(|part| part.name() != name);
    parts.len() < before
}

fn holds<T: ?Sized>(parts: &[Arc<T>], one: &Arc<T>) -> bool {
    parts.iter().any(|part| ptr::addr_eq(Arc::as_ptr(part), Arc::as_ptr(one)))
}
