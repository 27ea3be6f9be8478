//! Queries of the ledger as engines have got them wrong.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use memory_core::filter::{Comparison, Field, Value};
use memory_core::{
    CursorKey, Error, Filter, Head, InMemory, Json, JsonObject, Ledger, Memory, MemoryPage, MemoryProvider,
    MemoryQuery, Metadata, Number, Order, PageBuilder, Position, QueryBuilder, Result, SpaceSelector, Spaces,
    Timestamp, Trigger, Verdict, words,
};

use crate::flaw::Flaw;

/// Seals the cursors of pages that are made here.
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Answers queries from the memories of a sound provider.
#[derive(Debug)]
pub(crate) struct Naive {
    inner: InMemory,
    flaw: Flaw,
    /// The same for all handles.
    key: CursorKey,
    /// How many rows were given when a page ended with a cursor, for [`Flaw::CursorIsAnOffset`] and
    /// [`Flaw::CursorEndsWithItsHandle`].
    given: Mutex<HashMap<String, usize>>,
}

impl Naive {
    pub(crate) fn new(inner: InMemory, flaw: Flaw) -> Self {
        let key = CursorKey::parse(KEY).expect("a key");
        Self { inner, flaw, key, given: Mutex::default() }
    }

    pub(crate) fn inner(&self) -> &InMemory {
        &self.inner
    }

    pub(crate) async fn query(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let is_first = query.cursor().is_none();
        match self.flaw {
            Flaw::UnderIsRawPrefix
            | Flaw::PrefixIsLike
            | Flaw::PrefixIgnoresCase
            | Flaw::GlobIsRegex
            | Flaw::BeforeIsInclusive
            | Flaw::LimitBeforeFilter
            | Flaw::NumbersCompareAsText
            | Flaw::NotEqualNeedsTheField
            | Flaw::CursorForgetsTies
            | Flaw::StatusIgnoredInUnion
            | Flaw::UnderTakesDots
            | Flaw::MissingFieldsAreEqual
            | Flaw::TextNeedsEveryWord
            | Flaw::TextForgottenBehindACursor
            | Flaw::TextMatchesWithinWords
            | Flaw::KeysAreWords => self.page(query).await,
            Flaw::WithinIgnored if is_first && query.within().is_some() => {
                // One page for all, since its cursor would belong to another query.
                let widened = again(query, |builder| builder.within(Spaces::All).limit(1_000));
                Ok(MemoryPage { next: None, ..self.inner.query(&widened.build()?).await? })
            }
            Flaw::LimitZeroIsNotSet if is_first && query.limit() == 0 => {
                self.inner.query(&again(query, |builder| builder.limit(50)).build()?).await
            }
            Flaw::LimitTakesTheOldest if is_first && query.order() == Order::NewestFirst => {
                let oldest = again(query, |builder| builder.order(Order::OldestFirst)).build()?;
                let mut page = MemoryPage { next: None, ..self.inner.query(&oldest).await? };
                page.memories.reverse();
                Ok(page)
            }
            Flaw::TimesForgottenUnderAPath if is_first && is_under(query.spaces()) => {
                let always = |builder: QueryBuilder<Ledger>| {
                    builder.created_after(Timestamp::MIN).created_before(Timestamp::MAX)
                };
                Ok(MemoryPage { next: None, ..self.inner.query(&again(query, always).build()?).await? })
            }
            Flaw::FilterWithoutHitsFindsEverything if is_first && query.filter().is_some() => {
                let page = self.inner.query(query).await?;
                if !page.memories.is_empty() {
                    return Ok(page);
                }
                self.inner.query(&MemoryQuery::builder().all().limit(query.limit()).build()?).await
            }
            Flaw::CursorEndsWithItsHandle => self.page_behind_own(query).await,
            Flaw::ExaminesWithoutEnd => {
                let mut page = self.inner.query(query).await?;
                while let (true, Some(next)) = (page.memories.is_empty(), &page.next) {
                    page = self.inner.query(&again(query, |builder| builder.cursor(next)).build()?).await?;
                }
                Ok(page)
            }
            // Neither what is excluded nor an offset is carried over.
            Flaw::ExcludeIgnored if is_first => self.inner.query(&again(query, |builder| builder).build()?).await,
            Flaw::CursorIsAnOffset => self.page_by_offset(query).await,
            Flaw::PagesEndAtTen => {
                let mut page = self.inner.query(query).await?;
                if page.memories.len() > 10 {
                    page.memories.truncate(10);
                    page.next = None;
                }
                Ok(page)
            }
            Flaw::TiesInReverse => {
                let mut page = self.inner.query(query).await?;
                page.memories.reverse();
                match query.order() {
                    Order::NewestFirst => page.memories.sort_by_key(|memory| std::cmp::Reverse(memory.created_at)),
                    Order::OldestFirst => page.memories.sort_by_key(|memory| memory.created_at),
                }
                Ok(page)
            }
            _ => self.inner.query(query).await,
        }
    }

    /// Every memory, the oldest first.
    pub(crate) async fn everything(&self) -> Result<Vec<Memory>> {
        let query = || MemoryQuery::builder().all().order(Order::OldestFirst).limit(1_000);
        let (mut memories, mut page) = (Vec::new(), self.inner.query(&query().build()?).await?);
        loop {
            memories.append(&mut page.memories);
            let Some(cursor) = page.next else { return Ok(memories) };
            page = self.inner.query(&query().cursor(&cursor).build()?).await?;
        }
    }

    /// The page, by core's own rules from what this engine wrongly believes of the candidates.
    async fn page(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let mut memories = self.everything().await?;
        if query.order() == Order::NewestFirst {
            memories.reverse();
        }
        let (mut page, mut taken) = (PageBuilder::<Ledger>::new(query, &self.key)?, 0);
        let after = page.after().cloned();
        for memory in memories.into_iter().filter(|memory| self.offers(query, after.as_ref(), memory)) {
            let believed = self.believed_space(query, &memory);
            let mut head = Head { space: believed.as_deref().unwrap_or(memory.space_id.as_str()), ..memory.head() };
            if self.flaw == Flaw::BeforeIsInclusive && query.created_before() == Some(head.created_at) {
                head.created_at = Timestamp::from_millis(head.created_at.as_millis() - 1).unwrap_or(head.created_at);
            }
            if self.flaw == Flaw::StatusIgnoredInUnion && is_union(query.spaces()) {
                head.status = query.statuses().first().copied();
            }
            let verdict = match page.examine(&head) {
                Verdict::Take => {
                    taken += 1;
                    page.push(self.believed_memory(query, memory)?)
                }
                other => other,
            };
            let is_cut = self.flaw == Flaw::LimitBeforeFilter && query.filter().is_some() && taken == query.limit();
            if verdict == Verdict::Stop || is_cut {
                break;
            }
        }
        let mut page = page.finish()?;
        for memory in &mut page.memories {
            // As it is, and not as it was believed to be.
            *memory = self.inner.get(memory.id).await?.ok_or_else(Error::not_found)?;
        }
        Ok(page)
    }

    /// Whether this engine finds the candidate at all.
    fn offers(&self, query: &MemoryQuery, after: Option<&Position>, memory: &Memory) -> bool {
        match (self.flaw, query.filter(), after) {
            (Flaw::NumbersCompareAsText, Some(filter), _) => compares_as_text(filter, memory),
            // The opposite of a negated comparison is the comparison.
            (Flaw::NotEqualNeedsTheField, Some(filter), _) => match filter.clone().negate() {
                Filter::Compare { field: Field::Metadata(path), .. } => {
                    path.first().is_some_and(|key| memory.metadata.to_object().contains_key(key))
                }
                _ => true,
            },
            (Flaw::CursorForgetsTies, _, Some(Position { created_at, .. })) => memory.created_at != *created_at,
            (Flaw::GlobIsRegex, ..) => match query.spaces() {
                Spaces::All => true,
                Spaces::Any(selectors) => selectors.iter().any(|selector| match written(selector) {
                    Some(("glob", pattern)) => {
                        SpaceSelector::regex(pattern).is_ok_and(|regex| regex.matches(memory.space_id.as_str()))
                    }
                    _ => true,
                }),
            },
            _ => true,
        }
    }

    /// A space that core's matcher takes, where this engine believes that the selector finds the memory.
    fn believed_space(&self, query: &MemoryQuery, memory: &Memory) -> Option<String> {
        let Spaces::Any(selectors) = query.spaces() else { return None };
        selectors.iter().find_map(|selector| {
            let (kind, pattern) = written(selector)?;
            let space = memory.space_id.as_str();
            let believes = match (self.flaw, kind) {
                (Flaw::UnderIsRawPrefix, "under") => space.starts_with(&pattern),
                (Flaw::UnderTakesDots, "under") => space.starts_with(&format!("{pattern}.")),
                (Flaw::PrefixIgnoresCase, "prefix") => space.to_lowercase().starts_with(&pattern.to_lowercase()),
                (Flaw::PrefixIsLike, "prefix") => {
                    let like = Field::SpaceId.like(&format!("{pattern}%"));
                    like.is_ok_and(|like| like.matches(&memory.into()))
                }
                _ => false,
            };
            believes.then_some(pattern)
        })
    }

    /// A memory that core's matchers take or leave, where this engine believes that it matches or that it does not.
    fn believed_memory(&self, query: &MemoryQuery, memory: Memory) -> Result<Memory> {
        if let (Flaw::MissingFieldsAreEqual, Some(filter)) = (self.flaw, query.filter()) {
            let mut members = memory.metadata.to_object();
            fill_in(&mut members, filter);
            return Ok(Memory { metadata: Metadata::from_object(&members)?, ..memory });
        }
        let Some(text) = query.text() else { return Ok(memory) };
        let (wanted, held) = (words::distinct(text), words::text_of(&memory.trigger, memory.context.as_ref()));
        let believes = match self.flaw {
            Flaw::TextNeedsEveryWord => Some(wanted.is_subset(&words::distinct(&held))),
            Flaw::TextForgottenBehindACursor if query.cursor().is_some() => Some(true),
            Flaw::TextMatchesWithinWords => {
                let held = held.to_lowercase();
                Some(wanted.iter().any(|word| held.contains(word)))
            }
            // The keys and the numbers of a JSON text are among its words as a text.
            Flaw::KeysAreWords => {
                Some(!wanted.is_disjoint(&words::distinct(&format!("{held} {}", memory.trigger.as_str()))))
            }
            _ => None,
        };
        Ok(match believes {
            // The text itself, which holds each of its words, or a trigger that holds none.
            Some(true) => Memory { trigger: Trigger::parse(&serde_json::to_string(text).expect("a text"))?, ..memory },
            Some(false) => Memory { trigger: Trigger::parse("0")?, context: None, ..memory },
            None => memory,
        })
    }

    /// The page at a number of rows instead of behind a row.
    async fn page_by_offset(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        let mut given = 0;
        let page = match query.cursor() {
            None => self.inner.query(query).await?,
            Some(cursor) => {
                given = self.given().get(cursor).copied().unwrap_or(0);
                self.inner.query(&again(query, |builder| builder.offset(given)).build()?).await?
            }
        };
        self.remember(&page, given + page.memories.len());
        Ok(page)
    }

    /// The page behind a row that this very handle gave.
    async fn page_behind_own(&self, query: &MemoryQuery) -> Result<MemoryPage> {
        if query.cursor().is_some_and(|cursor| !self.given().contains_key(cursor)) {
            return Err(Error::invalid("no cursor of this handle"));
        }
        let page = self.inner.query(query).await?;
        self.remember(&page, page.memories.len());
        Ok(page)
    }

    fn remember(&self, page: &MemoryPage, given: usize) {
        if let Some(next) = &page.next {
            self.given().insert(next.to_string(), given);
        }
    }

    fn given(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first page of the same query, with a change; without offset and what is excluded.
pub(crate) fn again(
    query: &MemoryQuery,
    change: impl FnOnce(QueryBuilder<Ledger>) -> QueryBuilder<Ledger>,
) -> QueryBuilder<Ledger> {
    let mut builder = MemoryQuery::builder().order(query.order()).limit(query.limit());
    builder = match query.spaces() {
        Spaces::All => builder.all(),
        Spaces::Any(selectors) => selectors.iter().cloned().fold(builder, QueryBuilder::selector),
    };
    if let Some(within) = query.within() {
        builder = builder.within(within.clone());
    }
    if let Some(filter) = query.filter() {
        builder = builder.filter(filter.clone());
    }
    if let Some(text) = query.text() {
        builder = builder.text(text);
    }
    if let Some(after) = query.created_after() {
        builder = builder.created_after(after);
    }
    if let Some(before) = query.created_before() {
        builder = builder.created_before(before);
    }
    change(query.statuses().iter().fold(builder, |builder, status| builder.status(*status)))
}

fn is_under(spaces: &Spaces) -> bool {
    matches!(spaces, Spaces::Any(selectors) if selectors.iter().any(|one| one.to_string().starts_with("under(")))
}

fn is_union(spaces: &Spaces) -> bool {
    matches!(spaces, Spaces::Any(selectors) if selectors.len() > 1)
}

/// The kind of a selector, and its pattern where that is plain text.
fn written(selector: &SpaceSelector) -> Option<(&'static str, String)> {
    let shown = selector.to_string();
    let (kind, rest) = shown.split_once('(')?;
    let kind = ["under", "prefix", "glob"].into_iter().find(|known| *known == kind)?;
    Some((kind, serde_json::from_str(rest.strip_suffix(')')?).ok()?))
}

/// Gives each missing member the value that a filter compares it with.
fn fill_in(members: &mut JsonObject, filter: &Filter) {
    match filter {
        Filter::And { 0: parts, .. } | Filter::Or { 0: parts, .. } => {
            parts.iter().for_each(|part| fill_in(members, part));
        }
        Filter::Not { 0: part, .. } => fill_in(members, part),
        Filter::Compare { field: Field::Metadata(path), comparison: Comparison::Equal, value, .. } => {
            if let [key] = path.as_slice() {
                members.entry(key.clone()).or_insert_with(|| match value {
                    Value::Bool(value) => Json::Bool(*value),
                    Value::Number(value) => Json::Number(*value),
                    Value::String(value) => Json::String(value.clone()),
                });
            }
        }
        _ => {}
    }
}

/// Compares numbers in the metadata as text, so that 9 is more than 10.
fn compares_as_text(filter: &Filter, memory: &Memory) -> bool {
    let Filter::Compare { field: Field::Metadata(path), comparison, value: Value::Number(Number::Int(wanted)), .. } =
        filter
    else {
        return true;
    };
    let members = memory.metadata.to_object();
    let Some(Json::Number(Number::Int(found))) = path.first().and_then(|key| members.get(key)) else { return true };
    let (found, wanted) = (found.to_string(), wanted.to_string());
    match comparison {
        Comparison::Equal => found == wanted,
        Comparison::Less => found < wanted,
        Comparison::LessOrEqual => found <= wanted,
        Comparison::Greater => found > wanted,
        Comparison::GreaterOrEqual => found >= wanted,
    }
}
