//! XML in what a model wrote.

use quick_xml::events::{BytesRef, Event};
use quick_xml::{Reader, escape};
use serde_json::{Map, Value};

use super::Mistake;
use super::shape::{RESPONSE, Shape};

/// How deep elements may lie in each other; those of an answer lie in three at most.
const MAX_DEPTH: usize = 8;

/// The fields of the last response, or those outside of any.
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

/// From the first tag of a response to the end of the last one; everything where there is none.
fn response(text: &str) -> &str {
    let Some(begin) = text.find("<response>") else { return text };
    let end = text.rfind("</response>").map_or(text.len(), |at| at + "</response>".len());
    // One that ends before it begins is not closed, which shows when it is read.
    text.get(begin..end).unwrap_or(&text[begin..])
}

/// An element that is being read.
#[derive(Default)]
struct Node {
    name: String,
    text: String,
    children: Vec<(String, Value)>,
    /// How many tags of its own name are open in its text.
    inner: usize,
}

impl Node {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Its children; those of the same name as a list.
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

/// All elements of a text, in one that has no name. What stands in a leaf is its text, other tags included.
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
            // There is no other markup: its `<` was escaped.
            _ => {}
        }
    }
}

/// What a reference stands for; itself when that is not known.
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
