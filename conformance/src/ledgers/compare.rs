//! Looks up every record of a ledger by every index that leads to it.

use std::collections::BTreeSet;
use std::fmt::Debug;

use memory_core::{DocumentStore, MemoryProvider, Order, Status};
use serde::Serialize;
use serde_json::Value;

use crate::case::CaseResult;
use crate::fixture::{walk, walk_documents};
use crate::model::condition::Condition;
use crate::model::naive::{Naive, json};
use crate::model::op::{Ask, Question, Selector};

/// The page size, in rows; smaller than the busiest spaces, so that walks take several pages.
const PAGE: usize = 60;

/// Compares everything that a provider holds with the model.
pub(crate) async fn compare(provider: &dyn MemoryProvider, model: &Naive) -> CaseResult {
    for memory in model.memories() {
        assert_same(&memory.id, jsons(&provider.get(memory.id).await?), vec![json(memory)]);
    }
    for question in questions(model) {
        let found = walk(provider, |_| question.build(&[])).await?;
        assert_same(&question, jsons(&found), model.query(&question, &[]).expect("a valid query"));
    }
    compare_documents(&*provider.documents(), model).await
}

async fn compare_documents(documents: &dyn DocumentStore, model: &Naive) -> CaseResult {
    assert_eq!(documents.collections().await?, model.collections());
    for name in model.collections() {
        let few = Ask::everything(3);
        let by_word = model.words().into_iter().map(|word| Ask { text: Some(word), ..few.clone() });
        for ask in by_word.chain(in_both_orders(few.clone())) {
            let found = walk_documents(documents, name.as_str(), |builder| ask.build(builder)).await?;
            assert_same(&(&name, &ask), jsons(&found), model.query_documents(&name, &ask).expect("a query"));
            for document in &found {
                let got = documents.get(&name, &document.id).await?;
                assert_same(&document.id, jsons(&got), vec![json(document)]);
            }
        }
    }
    Ok(())
}

/// Queries for each space, each of its ancestors as a path and as a prefix, each status, each word, and some combinations that no index
/// answers alone; each in both orders.
fn questions(model: &Naive) -> Vec<Question> {
    let in_spaces = |selector| Ask { spaces: vec![selector], ..Ask::everything(PAGE) };
    let with_status = |status: &[Status]| Question { statuses: status.to_vec(), ..question(Ask::everything(PAGE)) };
    let with_filter = |filter| question(Ask { filter: Some(filter), ..Ask::everything(PAGE) });
    let equals = |field, value: &str| Condition::Compare { field, operator: "=", value: Value::from(value) };
    let below_one = || question(in_spaces(Selector::Under("discord".to_owned())));
    let mut questions = vec![
        question(Ask::everything(PAGE)),
        question(in_spaces(Selector::Under("discord-".to_owned()))),
        question(in_spaces(Selector::Prefix("discord-4".to_owned()))),
        question(in_spaces(Selector::Glob("discord-4*[:/]?*".to_owned()))),
        question(in_spaces(Selector::Glob("*[-/:]?*".to_owned()))),
        question(in_spaces(Selector::Regex("^a.b$|東".to_owned()))),
        with_status(&[Status::Pending, Status::Running]),
        with_filter(equals(&["metadata", "topic"], "plum")),
        with_filter(Condition::Contains { field: &["metadata", "tags"], value: Value::from("2") }),
        Question { after: Some(1_700_000_050_000), before: Some(1_700_000_290_000), ..below_one() },
        Question { statuses: vec![Status::Failed], ..below_one() },
    ];
    questions.extend(Status::ALL.map(|status| with_status(&[status])));
    let with_word = |word| question(Ask { text: Some(word), ..Ask::everything(PAGE) });
    questions.extend(model.words().into_iter().map(with_word));

    let spaces: BTreeSet<_> = model.memories().iter().map(|memory| memory.space_id.as_str()).collect();
    let paths: BTreeSet<_> = spaces.iter().flat_map(|space| paths_of(space)).collect();
    questions.extend(spaces.iter().map(|space| question(in_spaces(Selector::Exact((*space).to_owned())))));
    questions.extend(paths.iter().map(|path| question(in_spaces(Selector::Under((*path).to_owned())))));
    questions.extend(paths.iter().map(|path| question(in_spaces(Selector::Prefix((*path).to_owned())))));

    let both = questions
        .into_iter()
        .flat_map(|question| in_both_orders(question.ask.clone()).map(|ask| Question { ask, ..question.clone() }));
    both.collect()
}

/// A space and its ancestors: its non-empty prefixes that end before a boundary.
fn paths_of(space: &str) -> impl Iterator<Item = &str> {
    let ends = space.match_indices(['-', '/', ':']).map(|(end, _)| end);
    ends.chain([space.len()]).map(|end| &space[..end]).filter(|path| !path.is_empty())
}

fn in_both_orders(ask: Ask) -> [Ask; 2] {
    [Order::NewestFirst, Order::OldestFirst].map(|order| Ask { order, ..ask.clone() })
}

fn question(ask: Ask) -> Question {
    Question { ask, after: None, before: None, statuses: vec![], exclude: vec![] }
}

fn jsons<'r, T: Serialize + 'r>(found: impl IntoIterator<Item = &'r T>) -> Vec<String> {
    found.into_iter().map(json).collect()
}

/// Panics with the missing and the surplus records, since the whole answers would be too long.
fn assert_same(asked: &impl Debug, found: Vec<String>, due: Vec<String>) {
    let without = |some: &[String], others: &[String]| -> Vec<String> {
        some.iter().filter(|record| !others.contains(record)).cloned().collect()
    };
    let (lost, strange) = (without(&due, &found), without(&found, &due));
    assert!(
        found == due,
        "{asked:?} lacks {lost:#?} and has {strange:#?} in addition, or the order or the count differs"
    );
}
