//! Conditions of queries. An engine gets them as predicate text; the model evaluates the tree.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::Value;

/// The keys that lead to a field in the JSON of a record. The field `text` is in no JSON.
pub(crate) type Path = &'static [&'static str];

/// A condition on a record.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Compare { field: Path, operator: &'static str, value: Value },
    Between { field: Path, low: Value, high: Value },
    OneOf { field: Path, values: Vec<Value> },
    Like { field: Path, pattern: &'static str, ignore_case: bool },
    Contains { field: Path, value: Value },
    IsNull { field: Path },
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// A random condition. Most are simple.
pub(crate) fn condition() -> BoxedStrategy<Condition> {
    let nested = simple().prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Condition::Not(Box::new(part))),
            vec(inner.clone(), 2..4).prop_map(Condition::All),
            vec(inner, 2..4).prop_map(Condition::Any),
        ]
    });
    prop_oneof![2 => simple(), 1 => nested].boxed()
}

fn simple() -> impl Strategy<Value = Condition> {
    let field = || prop_oneof![1 => select(FIELDS), 2 => select(METADATA_FIELDS)];
    prop_oneof![
        6 => (field(), select(OPERATORS), value())
            .prop_map(|(field, operator, value)| Condition::Compare { field, operator, value }),
        1 => (field(), value(), value()).prop_map(|(field, low, high)| Condition::Between { field, low, high }),
        2 => (field(), vec(value(), 1..4)).prop_map(|(field, values)| Condition::OneOf { field, values }),
        3 => (field(), select(LIKES), any::<bool>())
            .prop_map(|(field, pattern, ignore_case)| Condition::Like { field, pattern, ignore_case }),
        2 => (field(), value()).prop_map(|(field, value)| Condition::Contains { field, value }),
        2 => field().prop_map(|field| Condition::IsNull { field }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    select(VALUES).prop_map(|text| serde_json::from_str(text).expect("valid JSON"))
}

/// `status` is a field of memories only, and `content` one of documents only.
const FIELDS: &[Path] =
    &[&["id"], &["spaceId"], &["createdAt"], &["updatedAt"], &["text"], &["text"], &["status"], &["content"]];
const METADATA_FIELDS: &[Path] = &[
    &["metadata", "n"],
    &["metadata", "n"],
    &["metadata", "t"],
    &["metadata", "o"],
    &["metadata", "o", "p"],
    &["metadata", "o", "q"],
    &["metadata", "a.b"],
    &["metadata", "none"],
];
const OPERATORS: &[&str] = &["=", "=", "<>", "<", "<=", ">", ">="];
const VALUES: &[&str] = &[
    "1",
    "1.0",
    "1.5",
    "10",
    "0",
    "-1",
    "5000",
    "9007199254740993",
    "9007199254740992.0",
    "true",
    "false",
    r#""x""#,
    r#""1""#,
    r#""a""#,
    r#""a-b""#,
    r#""red apple""#,
    r#""failed""#,
    r#""it's""#,
    r#""80000000-0000-1000-8000-000000000000""#,
];
const LIKES: &[&str] = &["a%", "%RED%", "%pp_e", "_", "%", "x", "", "a-_", "%-%-%", "%\n%", "8%0"];

impl fmt::Display for Condition {
    /// The predicate as text, with parentheses around each part.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare { field, operator, value } => write!(f, "{} {operator} {}", written(field), literal(value)),
            Self::Between { field, low, high } => {
                write!(f, "{} BETWEEN {} AND {}", written(field), literal(low), literal(high))
            }
            Self::OneOf { field, values } => {
                let values: Vec<_> = values.iter().map(literal).collect();
                write!(f, "{} IN ({})", written(field), values.join(", "))
            }
            Self::Like { field, pattern, ignore_case } => {
                let operator = if *ignore_case { "ILIKE" } else { "LIKE" };
                write!(f, "{} {operator} '{pattern}'", written(field))
            }
            Self::Contains { field, value } => write!(f, "{} = ANY({})", literal(value), written(field)),
            Self::IsNull { field } => write!(f, "{} IS NULL", written(field)),
            Self::Not(part) => write!(f, "NOT ({part})"),
            Self::All(parts) => joined(f, parts, " AND "),
            Self::Any(parts) => joined(f, parts, " OR "),
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Condition], operator: &str) -> fmt::Result {
    let parts: Vec<_> = parts.iter().map(|part| format!("({part})")).collect();
    f.write_str(&parts.join(operator))
}

fn written(field: Path) -> String {
    let is_plain = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let keys: Vec<_> =
        field.iter().map(|key| if is_plain(key) { key.to_string() } else { format!("\"{key}\"") }).collect();
    keys.join(".")
}

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("'{}'", text.replace('\'', "''")),
        other => other.to_string(),
    }
}
