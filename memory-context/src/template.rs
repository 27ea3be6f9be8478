//! Templates, in which `{{name}}` is replaced by a value of the state.

use std::collections::BTreeSet;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::{Error, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, ObjectRepr, Serde, ValueKind};
use minijinja::{Environment, ErrorKind, Value, escape_formatter};

use crate::state::{Character, Values};

/// A text with placeholders: `{{name}}` for a value, and `{% if name %}…{% endif %}` for a part that depends on one.
///
/// Values are inserted unchanged: braces inside a value are not expanded again. There are no functions and no filters, loops run only
/// over values, and a template that takes more than 1,000,000 instructions fails.
///
/// ```
/// use memory_context::template::Template;
///
/// let template = Template::parse("{{agentName}} answers {{userName}}.")?;
/// let values = serde_json::json!({ "agentName": "Alice {{userName}}" });
/// let rendered = template.render(values.as_object().expect("an object"))?;
/// assert_eq!(rendered.text, "Alice {{userName}} answers {{userName}}.");
/// assert_eq!(rendered.missing, ["userName"]);
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Template {
    environment: Arc<Environment<'static>>,
}

/// The prompt templates of the flow. Each can be replaced. Their values are those of the composed state; `{{providers}}` is its text.
///
/// ```
/// use memory_context::template::{Template, Templates};
///
/// let mut templates = Templates::default();
/// templates.should_respond = Template::parse("{{providers}}\nIs {{agentName}} meant? <action>RESPOND or IGNORE</action>")?;
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Templates {
    /// Asks whether to answer, over the default providers and [`RESPOND_PROVIDERS`](crate::flow::RESPOND_PROVIDERS). The answer is parsed
    /// as [`RespondAnswer`](crate::flow::answer::RespondAnswer).
    pub should_respond: Template,
    /// Asks what to answer, over the default providers. It has one more value, `callsTools`: whether the model calls tools by itself
    /// ([`Model::calls_tools`](crate::model::Model::calls_tools)). If the template uses that value and the model calls tools, the text of
    /// the answer is said unchanged. Otherwise it is parsed as [`MessageAnswer`](crate::flow::answer::MessageAnswer).
    pub message_handler: Template,
    /// Asks what was learned, over the default providers and [`REFLECTION_PROVIDERS`](crate::flow::REFLECTION_PROVIDERS). The answer is
    /// parsed as [`ReflectionAnswer`](crate::flow::answer::ReflectionAnswer).
    pub reflection: Template,
    /// Asks for a post, over [`POST_PROVIDERS`](crate::flow::POST_PROVIDERS). The answer is parsed as
    /// [`PostAnswer`](crate::flow::answer::PostAnswer).
    pub post_creation: Template,
}

impl Templates {
    /// Returns the default templates, replaced by those that a character has under the names `shouldRespondTemplate`,
    /// `messageHandlerTemplate`, `reflectionTemplate` and `postCreationTemplate`. Other names are ignored. Fails with `InvalidInput`, which
    /// names the template, if one can't be parsed.
    pub fn of(character: &Character) -> Result<Self> {
        let mut templates = Self::default();
        for (name, text) in &character.templates {
            let place = match name.as_str() {
                "shouldRespondTemplate" => &mut templates.should_respond,
                "messageHandlerTemplate" => &mut templates.message_handler,
                "reflectionTemplate" => &mut templates.reflection,
                "postCreationTemplate" => &mut templates.post_creation,
                _ => continue,
            };
            *place = Template::parse(text.as_str())
                .map_err(|error| Error::invalid(format!("{name}: {}", error.message())))?;
        }
        Ok(templates)
    }
}

impl Default for Templates {
    fn default() -> Self {
        // Cannot fail: the texts are part of this crate, and the tests parse them.
        let built_in = |text| Template::parse(text).expect("a template of this crate");
        Self {
            should_respond: built_in(include_str!("flow/templates/should_respond.txt")),
            message_handler: built_in(include_str!("flow/templates/message_handler.txt")),
            reflection: built_in(include_str!("flow/templates/reflection.txt")),
            post_creation: built_in(include_str!("flow/templates/post_creation.txt")),
        }
    }
}

/// The result of rendering a template.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rendered {
    /// The text. A name without a value stays as it is, in its braces.
    pub text: String,
    /// The names without a value.
    pub missing: Vec<String>,
    /// All names that the template used.
    names: BTreeSet<String>,
}

/// The name of the only template in each environment of the library.
const NAME: &str = "template";
/// The most instructions of a rendering.
const FUEL: u64 = 1_000_000;

impl Template {
    /// Parses a template. Fails with `InvalidInput`, which names the line of the mistake.
    pub fn parse(text: impl Into<String>) -> Result<Self> {
        let mut environment = Environment::empty();
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.map_err(|error| mistake(&error))?);
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(|out, state, value| match value.kind() {
            // These are written as JSON; the library would write them in the notation of Python.
            ValueKind::Bool | ValueKind::None | ValueKind::Seq | ValueKind::Map => {
                let json = serde_json::to_string(value).map_err(|_| ErrorKind::BadSerialization)?;
                Ok(out.write_str(&json)?)
            }
            _ => escape_formatter(out, state, value),
        });
        environment.add_template_owned(NAME, text.into()).map_err(|error| mistake(&error))?;
        Ok(Self { environment: Arc::new(environment) })
    }

    /// Renders the template with these values. Fails with `InvalidInput` if the template uses a value in a way that its type does not
    /// allow.
    pub fn render(&self, values: &Values) -> Result<Rendered> {
        let names = Arc::new(Names { values: values.clone(), asked: Mutex::default() });
        let template = self.environment.get_template(NAME).map_err(|error| mistake(&error))?;
        let text = template.render(Value::from_dyn_object(Arc::clone(&names))).map_err(|error| mistake(&error))?;
        let names = mem::take(&mut *names.asked.lock().unwrap_or_else(PoisonError::into_inner));
        let missing = names.iter().filter(|name| !values.contains_key(*name)).cloned().collect();
        Ok(Rendered { text, missing, names })
    }
}

impl Rendered {
    /// Whether the template used this name.
    pub(crate) fn asked_for(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// The values by name, and the names that were used.
#[derive(Debug)]
struct Names {
    values: Values,
    asked: Mutex<BTreeSet<String>>,
}

impl Object for Names {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Some(match self.values.get(name) {
            Some(value) => Value::from(Serde(value)),
            None => Value::from_object(Missing(name.to_owned())),
        })
    }
}

/// A name without a value. In a condition it is false; in the text it stays as it is, in its braces.
#[derive(Debug)]
struct Missing(String);

impl Object for Missing {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        false
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{{}}}}}", self.0)
    }
}

/// Converts an error of the library. Its message says what is wrong and on which line, without the text that the library quotes.
fn mistake(error: &minijinja::Error) -> Error {
    let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    Error::invalid(format!("the template has a mistake{line}: {}", error.kind()))
}

impl fmt::Debug for Template {
    /// Shows no text, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(..)")
    }
}

impl fmt::Debug for Rendered {
    /// Shows only the size and the names, so that payloads stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rendered({} bytes, missing {:?})", self.text.len(), self.missing)
    }
}

#[cfg(test)]
mod tests {
    use memory_core::ErrorKind;
    use serde_json::json;

    use super::*;

    fn rendered(template: &str, values: serde_json::Value) -> String {
        let template = Template::parse(template).expect(template);
        template.render(values.as_object().expect("an object")).expect("renders").text
    }

    #[test]
    fn a_character_has_templates_of_its_own() {
        let json = r#"{"name":"Ada","templates":{"reflectionTemplate":"Hm, {{a}}","futureTemplate":"{{"}}"#;
        let mut character: Character = serde_json::from_str(json).expect("a character");
        let templates = Templates::of(&character).expect("templates");
        let values = json!({ "a": "b" });
        let text = |template: &Template| template.render(values.as_object().expect("an object")).expect("renders").text;
        assert_eq!(text(&templates.reflection), "Hm, b");
        assert_eq!(text(&templates.post_creation), text(&Templates::default().post_creation));
        character.templates.insert("shouldRespondTemplate".into(), "{{".into());
        let refused = Templates::of(&character).expect_err("no template");
        assert!(refused.message().starts_with("shouldRespondTemplate: "), "{refused}");
    }

    #[test]
    fn names_stand_for_values() {
        let values = json!({ "name": "Ana", "n": 3, "flag": true, "list": ["a", "b"], "o": { "p": "q" } });
        for (template, text) in [
            ("{{name}} {{ name }}\n", "Ana Ana\n"),
            ("{{n}} {{flag}} {{o.p}} {{list}} {{o}}", r#"3 true q ["a","b"] {"p":"q"}"#),
            ("{% if name %}yes{% else %}no{% endif %}", "yes"),
            ("{% for item in list %}{{item}},{% endfor %}", "a,b,"),
            ("no braces { } }}", "no braces { } }}"),
        ] {
            assert_eq!(rendered(template, values.clone()), text, "{template}");
        }
    }

    #[test]
    fn missing_names_show() {
        let template = Template::parse("{{a}} {{b}} {% if c %}x{% else %}y{% endif %}").expect("valid");
        let rendered = template.render(json!({ "a": 1 }).as_object().expect("an object")).expect("renders");
        assert_eq!(rendered.text, "1 {{b}} y");
        assert_eq!(rendered.missing, ["b", "c"]);
    }

    #[test]
    fn values_are_not_expanded_again_and_not_escaped() {
        let value = "{{secret}} {% for x in y %} <b> & \"";
        assert_eq!(rendered("{{text}}", json!({ "text": value, "secret": "xyzzy" })), value);
    }

    #[test]
    fn there_is_nothing_to_call() {
        let values = json!({ "text": "a" });
        for template in
            ["{{ text | upper }}", "{{ range(9) }}", "{{ text.upper() }}", "{% include 'x' %}", "{{ debug() }}"]
        {
            let refused = Template::parse(template)
                .and_then(|template| template.render(values.as_object().expect("an object")))
                .expect_err(template);
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{template}");
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_without_the_text() {
        let error = Template::parse("xyzzy\n{{ a").expect_err("no end");
        assert!(error.message().contains("line 2") && !error.message().contains("xyzzy"), "{error}");
    }
}
