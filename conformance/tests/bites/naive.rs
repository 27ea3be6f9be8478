//! Queries of the ledger as engines have got them wrong.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use memory_core::filter::Field;
use memory_core::{
    CursorKey, Error, Head, InMemory, Ledger, Memory, MemoryPage, MemoryProvider, MemoryQuery, Metadata, Order,
    PageBuilder, Position, QueryBuilder, Result, SpaceSelector, Spaces, Timestamp, Trigger, Verdict, words,
};

use crate::filters;
use crate::flaw::Flaw;
use crate::harness::Shared;
use crate::values;

/// Seals the cursors of pages that are made here.
const KEY: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Answers queries from the memories of a sound provider.
#[derive(Debug)]
pub(crate) struct Naive {
    inner: InMemory,
    flaw: Flaw,
    shared: Arc<Shared>,
    /// The same for all handles.
    key: CursorKey,
    /// How many rows were given when a page ended with a cursor, for [`Flaw::CursorIsAnOffset`] and
    /// [`Flaw::CursorEndsWithItsHandle`].
    given: Mutex<HashMap<String, usize>>,
}

impl Naive {
    pub(crate) fn new(inner: InMemory, flaw: Flaw, shared: Arc<Shared>) -> Self {
        let key = CursorKey::parse(KEY).expect("a key");
        Self { inner, flaw, shared, key, given: Mutex::default() }
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
            | Flaw::KeysAreWords
            | Flaw::ExactIgnoresCase
            | Flaw::RegexIsAnchored
            | Flaw::NullNeedsTheField
            | Flaw::TextIsTheTriggerAlone
            | Flaw::LargeNumbersAreFloats
            | Flaw::OpenWorkIsSearched => self.page(query).await,
            Flaw::LongPatternsAreRefused if has_a_long_pattern(query.spaces()) => {
                Err(Error::too_large("a long pattern"))
            }
            Flaw::LikeFoldsCase | Flaw::EqualityFoldsCase | Flaw::DottedKeysArePaths | Flaw::QuotesInKeysAreSyntax
                if is_first && let Some(filter) = query.filter() =>
            {
                let misread = filters::misread(self.flaw, filter)?;
                self.inner.query(&again(query, |builder| builder.filter(misread)).build()?).await
            }
            Flaw::DamageSpendsTheLimit => {
                let mut page = self.page(query).await?;
                page.memories.truncate(query.limit().saturating_sub(page.unreadable.len()));
                Ok(page)
            }
            _ if self.shared.has_damage() => self.page(query).await,
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
            // Neither the excluded ids nor an offset are passed on.
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

    /// The page, by the core's own rules, from this engine's wrong idea of the candidates.
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
            let read = |_: &Head<'_>| {
                taken += 1;
                self.believed_memory(query, memory.clone())
            };
            let verdict = page.offer(Ok(head), read, || memory.id.to_string())?;
            let is_cut = self.flaw == Flaw::LimitBeforeFilter && query.filter().is_some() && taken == query.limit();
            if verdict == Verdict::Stop || is_cut {
                break;
            }
        }
        let mut page = page.finish()?;
        for memory in &mut page.memories {
            // The memory itself, instead of the wrong idea of it.
            *memory = self.inner.get(memory.id).await?.ok_or_else(Error::not_found)?;
        }
        Ok(page)
    }

    /// Whether this engine finds the candidate at all.
    fn offers(&self, query: &MemoryQuery, after: Option<&Position>, memory: &Memory) -> bool {
        match (self.flaw, query.filter(), after) {
            (Flaw::CursorForgetsTies, _, Some(Position { created_at, .. })) => memory.created_at != *created_at,
            (Flaw::GlobIsRegex | Flaw::RegexIsAnchored, ..) => match query.spaces() {
                Spaces::All => true,
                Spaces::Any(selectors) => {
                    let space = memory.space_id.as_str();
                    let matches = |regex: Result<SpaceSelector>| regex.is_ok_and(|regex| regex.matches(space));
                    selectors.iter().any(|selector| match (self.flaw, written(selector)) {
                        (Flaw::GlobIsRegex, Some(("glob", pattern))) => matches(SpaceSelector::regex(pattern)),
                        (Flaw::RegexIsAnchored, Some(("regex", pattern))) => {
                            matches(SpaceSelector::regex(format!("^(?:{pattern})$")))
                        }
                        _ => true,
                    })
                }
            },
            (_, Some(filter), _) => filters::offers(self.flaw, filter, memory),
            _ => true,
        }
    }

    /// A space that the core's matcher accepts, if this engine believes that the selector finds the memory.
    fn believed_space(&self, query: &MemoryQuery, memory: &Memory) -> Option<String> {
        let Spaces::Any(selectors) = query.spaces() else { return None };
        selectors.iter().find_map(|selector| {
            let (kind, pattern) = written(selector)?;
            let space = memory.space_id.as_str();
            let believes = match (self.flaw, kind) {
                (Flaw::ExactIgnoresCase, "exact") => space.to_lowercase() == pattern.to_lowercase(),
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

    /// A memory that the core's matchers accept or refuse as this engine believes.
    fn believed_memory(&self, query: &MemoryQuery, memory: Memory) -> Result<Memory> {
        if self.shared.is_damaged(memory.id) {
            return Err(Error::corrupt("it was damaged"));
        }
        match (self.flaw, query.filter()) {
            (Flaw::MissingFieldsAreEqual, Some(filter)) => {
                let mut members = memory.metadata.to_object();
                filters::fill_in(&mut members, filter);
                return Ok(Memory { metadata: Metadata::from_object(&members)?, ..memory });
            }
            (Flaw::LargeNumbersAreFloats, Some(_)) => {
                return Ok(Memory { metadata: values::with_floats(&memory.metadata), ..memory });
            }
            (Flaw::TextIsTheTriggerAlone, Some(_)) => return Ok(Memory { context: None, ..memory }),
            _ => {}
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
            // The text itself, which has each of its words, or a trigger without any.
            Some(true) => Memory { trigger: Trigger::parse(&serde_json::to_string(text).expect("a text"))?, ..memory },
            Some(false) => Memory { trigger: Trigger::parse("0")?, context: None, ..memory },
            None => memory,
        })
    }

    /// The page at a number of rows instead of after a row.
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

    /// The page after a row that this very handle returned.
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

/// The first page of the same query, with a change, and without the offset and the excluded ids.
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

fn has_a_long_pattern(spaces: &Spaces) -> bool {
    let is_long = |selector: &SpaceSelector| written(selector).is_some_and(|(_, pattern)| pattern.len() > 255);
    matches!(spaces, Spaces::Any(selectors) if selectors.iter().any(is_long))
}

fn is_union(spaces: &Spaces) -> bool {
    matches!(spaces, Spaces::Any(selectors) if selectors.len() > 1)
}

/// The kind of a selector, and its pattern if that is plain text.
fn written(selector: &SpaceSelector) -> Option<(&'static str, String)> {
    let shown = selector.to_string();
    let (kind, rest) = shown.split_once('(')?;
    let kind = ["exact", "under", "prefix", "glob", "regex"].into_iter().find(|known| *known == kind)?;
    Some((kind, serde_json::from_str(rest.strip_suffix(')')?).ok()?))
}
