//! The registered plugins of a runtime, and the argument schemas of their executors.

use std::collections::HashMap;
use std::sync::Arc;

use memory_core::plugin::{Arguments, Executor, Plugin};
use memory_core::{Error, ErrorKind, Result};
use memory_model::Schema;

use crate::Step;

/// The actions that steps can name: the executors of all registered plugins.
#[derive(Debug, Default)]
pub struct Actions {
    plugins: Vec<Arc<dyn Plugin>>,
    /// Keyed by the id of the plugin and the name of the executor.
    actions: HashMap<(String, String), Action>,
}

#[derive(Debug)]
struct Action {
    executor: Arc<dyn Executor>,
    arguments: Schema,
}

impl Actions {
    /// The plugins in the order of their registration. The plugin of the provider is the first.
    pub fn plugins(&self) -> &[Arc<dyn Plugin>] {
        &self.plugins
    }

    /// Checks that a step names a registered executor. Fails with `NotFound`, which lists those that exist.
    pub fn check_name(&self, step: &Step) -> Result<()> {
        self.find(step).map(drop)
    }

    /// Checks a step: that its executor exists (`NotFound`), and that its arguments satisfy the schema of the executor (`InvalidInput`
    /// with the JSON Pointers of the faults). The arguments must not hold unresolved references (`$task`).
    pub fn check(&self, step: &Step) -> Result<()> {
        check_arguments(self.find(step)?, &step.arguments)
    }

    /// Returns the executor of a step after checking these arguments.
    pub(crate) fn executor(&self, step: &Step, arguments: &Arguments) -> Result<Arc<dyn Executor>> {
        let action = self.find(step)?;
        check_arguments(action, arguments)?;
        Ok(Arc::clone(&action.executor))
    }

    /// Checks a plugin before its registration (R2). Fails with `InvalidInput` if its id is empty or taken, if two of its executors have
    /// the same name, or if a schema is not a JSON Schema.
    pub(crate) fn check_plugin(&self, plugin: &dyn Plugin) -> Result<()> {
        let id = plugin.id();
        if id.is_empty() {
            return Err(Error::invalid("the id of a plugin must not be empty"));
        }
        if self.plugins.iter().any(|other| other.id() == id) {
            return Err(Error::invalid(format!("the plugin id {id} is taken")));
        }
        actions_of(plugin).map(drop)
    }

    /// Registers a plugin that was checked.
    pub(crate) fn register(&mut self, plugin: Arc<dyn Plugin>) -> Result<()> {
        self.actions.extend(actions_of(plugin.as_ref())?);
        self.plugins.push(plugin);
        Ok(())
    }

    fn find(&self, step: &Step) -> Result<&Action> {
        self.actions.get(&(step.plugin_id.clone(), step.action.clone())).ok_or_else(|| {
            let executors = |plugin: &Arc<dyn Plugin>| {
                let names = plugin.executors().iter().map(|executor| executor.name()).collect::<Vec<_>>().join(", ");
                format!("{} ({names})", plugin.id())
            };
            let plugins: Vec<_> = self.plugins.iter().map(executors).collect();
            let message = format!("no such action; the plugins are {}", plugins.join("; "));
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

fn check_arguments(action: &Action, arguments: &Arguments) -> Result<()> {
    action.arguments.check(&arguments.to_value()?)
}

fn actions_of(plugin: &dyn Plugin) -> Result<HashMap<(String, String), Action>> {
    let id = plugin.id();
    let mut actions = HashMap::new();
    for executor in plugin.executors() {
        let name = executor.name();
        let arguments = Schema::new(format!("the schema of {id} {name}"), executor.arguments().clone())?;
        let action = Action { executor: Arc::clone(executor), arguments };
        if actions.insert((id.to_owned(), name.to_owned()), action).is_some() {
            return Err(Error::invalid(format!("the plugin {id} has two executors of the name {name}")));
        }
    }
    Ok(actions)
}
