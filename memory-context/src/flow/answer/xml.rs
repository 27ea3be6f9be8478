//! Reads the fields of an answer from XML in the text of a model.

use quick_xml::events::{BytesRef, Event};
use quick_xml::{Reader, escape};
use serde_json::{Map, Value};

use super::Mistake;
use super::shape::{RESPONSE, Shape};

/// The deepest nesting of elements that is read. An answer needs four levels, as in `response`, `memory`, `update`, `text`.
const MAX_DEPTH: usize = 8;

/// Returns the fields of the last `response` element; if there is none, the fields at the top.
pub(super) fn read(text: &str, shape: &Shape) -> Result<Map<String, Value>, Mistake> {
    let mut root = tree(&shape.escaped(response(text)), shape)?;
    let last = root.children.iter().rposition(|(name, _)| name == RESPONSE);
    let fields = match last.map(|at| root.children.swap_remove(at).1) {
        Some(Value::Object(fields)) => fields,
        Some(_) => Map::new(),
        None => root.fields(),
    };
    if fields.is_empty() { Err(Mistake::NoAnswer) } else { Ok(fields) }
}

/// Returns the text from the first `<response>` to the last `</response>`; the whole text if it has no `<response>`.
fn response(text: &str) -> &str {
    let Some(begin) = text.find("<response>") else { return text };
    let end = text.rfind("</response>").map_or(text.len(), |at| at + "</response>".len());
    // If the last end tag comes before the first begin tag, the element is not closed, which `tree` reports.
    text.get(begin..end).unwrap_or(&text[begin..])
}

/// An element that is being read.
#[derive(Default)]
struct Node {
    name: String,
    text: String,
    children: Vec<(String, Value)>,
    /// How many elements of the same name are open in the text of a leaf.
    inner: usize,
}

impl Node {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Returns the children by name; several of one name become a list.
    fn fields(self) -> Map<String, Value> {
        let mut fields = Map::new();
        for (name, value) in self.children {
            match fields.get_mut(&name) {
                None => drop(fields.insert(name, value)),
                Some(Value::Array(values)) => values.push(value),
                Some(first) => *first = Value::Array(vec![first.take(), value]),
            }
        }
        fields
    }

    fn value(self) -> Value {
        match self.children.is_empty() {
            true => Value::from(self.text.trim()),
            false => Value::Object(self.fields()),
        }
    }
}

/// Parses the elements of a text, as the children of a root without a name. Everything in a leaf is its text, including other tags.
fn tree(markup: &str, shape: &Shape) -> Result<Node, Mistake> {
    let mut reader = Reader::from_str(markup);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    config.expand_empty_elements = true;
    let mut open = Vec::new();
    let mut top = Node::default();
    loop {
        match reader.read_event().map_err(|_| Mistake::NotXml)? {
            Event::Start(tag) => {
                let name = decoded(tag.name().as_ref())?.to_owned();
                if shape.is_leaf(&top.name) {
                    top.inner += usize::from(name == top.name);
                    top.text.push_str(&format!("<{}>", decoded(&tag)?));
                } else if open.len() == MAX_DEPTH {
                    return Err(Mistake::NotXml);
                } else {
                    open.push(std::mem::replace(&mut top, Node::named(&name)));
                }
            }
            Event::End(tag) => {
                let name = decoded(tag.name().as_ref())?.to_owned();
                if shape.is_leaf(&top.name) && (name != top.name || top.inner > 0) {
                    top.inner -= usize::from(name == top.name);
                    top.text.push_str(&format!("</{name}>"));
                } else if name == top.name {
                    let Some(parent) = open.pop() else { continue };
                    let node = std::mem::replace(&mut top, parent);
                    top.children.push((name, node.value()));
                } else if open.iter().any(|node| node.name == name) {
                    return Err(Mistake::Unclosed { tag: top.name });
                }
            }
            Event::Text(text) => top.text.push_str(decoded(&text)?),
            Event::CData(text) => top.text.push_str(decoded(&text)?),
            Event::GeneralRef(reference) => top.text.push_str(&resolved(&reference)?),
            Event::Eof if open.is_empty() => return Ok(top),
            Event::Eof => return Err(Mistake::Unclosed { tag: top.name }),
            // No other markup is left, since every other `<` was escaped.
            _ => {}
        }
    }
}

/// Resolves a reference such as `&lt;`. An unknown one stays as it is.
fn resolved(reference: &BytesRef<'_>) -> Result<String, Mistake> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Ok(character.into());
    }
    let name = decoded(reference)?;
    Ok(escape::resolve_predefined_entity(name).map_or_else(|| format!("&{name};"), str::to_owned))
}

fn decoded(bytes: &[u8]) -> Result<&str, Mistake> {
    std::str::from_utf8(bytes).map_err(|_| Mistake::NotXml)
}
