//! Everything that an agent keeps about an entity, for its erasure.

use std::collections::BTreeSet;
use std::fmt;

use futures::{StreamExt, TryStreamExt, future, stream};
use memory_core::filter::Field;
use memory_core::{
    Collection, Document, DocumentId, DocumentQuery, Documents, Error, ErrorKind, Filter, Ledger, MemoryQuery,
    QueryBuilder, RecordId, Result,
};
use serde::Deserialize;

use super::component::Component;
use super::layout::{
    document_id, fact_collection, facts_beside, is_fact_collection, messages_space, pending_collection, room_space,
    rooms_space,
};
use super::link::Kind;
use super::messages::AUTHOR;
use super::participant::Members;
use super::room::DIRECT;
use super::table::{AT_ONCE, Record};
use super::{AgentId, Audience, Entity, EntityId, Fact, Records, Relationship, Room, RoomId, World, WorldId};
use crate::{documents, prompt};

/// Finds everything that an agent keeps about an entity; see [`Records::person`].
#[derive(Debug, Clone)]
pub struct Person<'a> {
    records: &'a Records,
    entity: EntityId,
}

/// Everything that exists about an entity. Erase it in this order, field by field, and `records` from first to last: the last records are
/// those by which the others are found, so an erasure that was cut off finds the rest when it is repeated.
#[derive(Clone)]
#[non_exhaustive]
pub struct Traces {
    /// The memories: the entity's messages, and everything in its own rooms, which it shares only with the agent.
    pub memories: Vec<QueryBuilder<Ledger>>,
    /// The documents in its own rooms.
    pub documents: Vec<QueryBuilder<Documents>>,
    /// Single records: facts about the entity or by it, its choices, its profile in the prompt memory, the entity itself with its
    /// components and relationships, and its own rooms.
    pub records: Vec<RecordId>,
    /// Records of others that list the entity, such as the participants of a group. They stay; [`Person::leave_lists`] removes the entity
    /// from them.
    pub lists: Vec<RecordId>,
    /// The part of `records` that other agents read, too: prompt memory that was stored without an agent.
    pub shared: Vec<RecordId>,
}

/// A record of others that lists the entity.
enum List {
    /// The participants of a room.
    Room(RoomId),
    /// The owner and the roles of a world.
    World(WorldId),
    /// A link from one id to another.
    Link(Kind, String, String),
}

/// The rooms that the entity has joined.
struct Rooms {
    /// The rooms that it shares only with the agent.
    own: Vec<RoomId>,
    /// The other rooms.
    shared: Vec<RoomId>,
    /// The worlds to which these rooms belong.
    worlds: BTreeSet<WorldId>,
}

/// The entity's records in the prompt memory.
struct Prompts {
    all: Vec<RecordId>,
    /// Those that belong to no agent.
    shared: Vec<RecordId>,
}

/// The most rooms in one query.
const ROOMS_AT_ONCE: usize = 100;

impl Records {
    /// Returns a finder for everything about an entity.
    pub fn person(&self, entity: EntityId) -> Person<'_> {
        Person { records: self, entity }
    }
}

impl Person<'_> {
    /// Finds the entity's traces in the prompt memory, the records and the messages of this agent, as of now. It reads all facts and
    /// messages of the agent.
    ///
    /// It finds what the entity wrote and what is kept under its id. It does not search by name: what others wrote about the entity
    /// stays, and so does what the agent wrote about it in rooms with others, and what a host keeps elsewhere, such as prompt memory in
    /// files. Fails with `InvalidInput` for the agent itself.
    pub async fn traces(&self) -> Result<Traces> {
        let rooms = self.rooms().await?;
        let collections = self.records.documents().collections().await?;
        let (before, mut facts) = self.facts(&rooms.own, &collections).await?;
        let mut records = before;
        records.append(&mut facts);
        records.extend(self.choices().await?);
        let Prompts { all, shared } = self.prompts(&rooms.own).await?;
        records.extend(all);
        records.extend(self.parts().await?);
        records.extend(self.own_rooms(&rooms.own).await?);
        records.extend(self.own_links().await?);
        let lists = self.lists(&rooms).await?;
        let lists = lists.iter().map(|list| self.record_of(list)).collect::<Result<_>>()?;
        let (memories, documents) = (self.memories(&rooms.own)?, self.documents(&rooms.own, &collections)?);
        Ok(Traces { memories, documents, records, lists, shared })
    }

    /// Removes the entity from the [lists](Traces::lists) of others by compare-and-set, and returns how many lists there were. Call it
    /// before the entity's own records are erased, which tell where to look. Earlier versions of the lists stay in their history.
    pub async fn leave_lists(&self) -> Result<usize> {
        let lists = self.lists(&self.rooms().await?).await?;
        for list in &lists {
            match list {
                List::Room(room) => self.records.participants().leave(room, &self.entity).await?,
                List::World(world) => {
                    let leave = |world: &mut World| {
                        world.owner.take_if(|owner| *owner == self.entity);
                        world.roles.remove(&self.entity);
                    };
                    self.records.worlds().update(world, leave).await.map(drop)?;
                }
                List::Link(kind, from, to) => self.records.unlink(*kind, from, to).await?,
            }
        }
        Ok(lists.len())
    }

    /// The entity's messages, and all memories in its own rooms.
    fn memories(&self, own: &[RoomId]) -> Result<Vec<QueryBuilder<Ledger>>> {
        let written = MemoryQuery::builder().under(rooms_space(self.agent())?);
        let mut queries = vec![written.filter(Field::metadata([AUTHOR]).eq(self.entity.as_str()))];
        for some in own.chunks(ROOMS_AT_ONCE) {
            queries.push(self.under(MemoryQuery::builder(), some)?);
        }
        Ok(queries)
    }

    /// The documents in its own rooms, except those by which these rooms are found.
    fn documents(&self, own: &[RoomId], collections: &[Collection]) -> Result<Vec<QueryBuilder<Documents>>> {
        let of_rooms = own.iter().map(|room| fact_collection(self.agent(), room)).collect::<Result<BTreeSet<_>>>()?;
        let mut queries = Vec::new();
        for collection in collections {
            let is_last = [Room::COLLECTION, Members::COLLECTION].contains(&collection.as_str());
            // Each room has collections of facts and of vectors; only few of them concern these rooms.
            let of_facts = facts_beside(collection);
            if is_last || of_facts.is_some_and(|facts| !of_rooms.iter().any(|own| own.as_str() == facts)) {
                continue;
            }
            for some in own.chunks(ROOMS_AT_ONCE) {
                queries.push(self.under(DocumentQuery::builder(collection.clone()), some)?);
            }
        }
        Ok(queries)
    }

    /// Adds selectors for these rooms and everything under them.
    fn under<K: memory_core::Kind>(&self, query: QueryBuilder<K>, rooms: &[RoomId]) -> Result<QueryBuilder<K>> {
        rooms.iter().try_fold(query, |query, room| Ok(query.under(room_space(self.agent(), room)?)))
    }

    /// Finds the facts about or by the entity in shared rooms. Returns first the records of older versions that belong to these facts or to
    /// its own rooms, and then the facts.
    async fn facts(&self, own: &[RoomId], collections: &[Collection]) -> Result<(Vec<RecordId>, Vec<RecordId>)> {
        let of_own = own.iter().map(|room| fact_collection(self.agent(), room)).collect::<Result<BTreeSet<_>>>()?;
        let named = |name: &str| Field::metadata([name]).eq(self.entity.as_str());
        let elsewhere: Vec<_> =
            collections.iter().filter(|one| is_fact_collection(one) && !of_own.contains(*one)).cloned().collect();
        let found = stream::iter(elsewhere).map(|collection| async move {
            let query = DocumentQuery::builder(collection.clone()).all().filter(named("subject").or(named("author")));
            let facts = documents::find(self.records.documents().as_ref(), query, usize::MAX, Fact::read).await?;
            // Facts of other agents are in other collections.
            let is_of_agent =
                |fact: &Fact| matches!(fact_collection(self.agent(), &fact.room), Ok(one) if one == collection);
            let ids = facts.iter().filter(|fact| is_of_agent(fact)).map(|fact| fact.id.clone()).collect::<Vec<_>>();
            Ok::<_, Error>((collection, ids))
        });
        let found: Vec<_> = found.buffered(AT_ONCE).try_collect().await?;
        let pending = pending_collection(self.agent())?;
        let (mut before, mut facts) = (Vec::new(), Vec::new());
        for some in own.chunks(ROOMS_AT_ONCE) {
            let of_rooms = Field::Content.one_of(some.iter().map(RoomId::as_str));
            before.extend(self.ids(DocumentQuery::builder(pending.clone()).all().filter(of_rooms)).await?);
        }
        for (collection, ids) in found {
            let vectors = Collection::parse(format!("{collection}-vectors"))?;
            let beside = ids.iter().flat_map(|id| [(pending.clone(), id.clone()), (vectors.clone(), id.clone())]);
            before.extend(self.present(beside).await?);
            facts.extend(ids.into_iter().map(|id| RecordId::from((collection.clone(), id))));
        }
        Ok((before, facts))
    }

    /// The choices that the entity made.
    async fn choices(&self) -> Result<Vec<RecordId>> {
        #[derive(Deserialize)]
        struct Chosen {
            by: EntityId,
        }
        let has_options = Field::metadata(["options"]).is_not_null();
        let query = MemoryQuery::builder().under(rooms_space(self.agent())?).filter(has_options);
        self.records
            .find_all(query, |memory| {
                let chosen: Chosen = memory.context.as_ref()?.to_value().ok()?;
                (chosen.by == self.entity).then(|| memory.id.into())
            })
            .await
    }

    /// The prompt memory of the entity's profile and of its own rooms: the texts of this agent, and the texts that all agents share.
    async fn prompts(&self, own: &[RoomId]) -> Result<Prompts> {
        let part = |name: &str| Field::metadata([name]);
        let is_shared = part("agent").is_null().and(part("personality").is_null());
        let is_of_agent = |name: &str| part(name).is_null().or(part(name).eq(self.agent().as_str()));
        let of_agent = is_of_agent("agent").and(is_of_agent("personality"));
        let mut whose: Vec<Filter> = vec![part("user").eq(self.entity.as_str())];
        for some in own.chunks(ROOMS_AT_ONCE) {
            whose.push(part("session").one_of(some.iter().map(RoomId::as_str)));
        }
        let (mut all, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for filter in whose {
            let query = DocumentQuery::builder(Collection::parse(prompt::COLLECTION)?).all();
            let of_all = filter.clone().and(is_shared.clone());
            shared.extend(self.ids(query.clone().filter(of_all)).await?);
            all.extend(self.ids(query.filter(filter.and(of_agent.clone()))).await?);
        }
        Ok(Prompts { all: all.into_iter().collect(), shared: shared.into_iter().collect() })
    }

    /// The components and relationships of the entity, and the entity itself.
    async fn parts(&self) -> Result<Vec<RecordId>> {
        let named = |name: &str| Field::metadata([name]).eq(self.entity.as_str());
        let space = self.agent().space()?;
        let of =
            |collection: &str| Ok::<_, Error>(DocumentQuery::builder(Collection::parse(collection)?).exact(&space));
        let mut found = self.ids(of(Component::COLLECTION)?.filter(named("entity"))).await?;
        let related = named("source").or(named("target"));
        found.extend(self.ids(of(Relationship::COLLECTION)?.filter(related)).await?);
        found.extend(self.present([self.record::<Entity>(self.entity.as_str())?]).await?);
        Ok(found)
    }

    /// The participants of its own rooms, and these rooms.
    async fn own_rooms(&self, own: &[RoomId]) -> Result<Vec<RecordId>> {
        let mut found = Vec::new();
        for room in own {
            let (members, room) = (self.record::<Members>(room.as_str())?, self.record::<Room>(room.as_str())?);
            found.extend(self.present([members, room]).await?);
        }
        Ok(found)
    }

    /// The links from the entity, which are erased last.
    async fn own_links(&self) -> Result<Vec<RecordId>> {
        let kinds = [Kind::Acquaintances, Kind::OwnedWorlds, Kind::EntityRooms];
        let links = kinds.map(|kind| self.records.link_record(kind, self.entity.as_str()));
        self.present(links.into_iter().collect::<Result<Vec<_>>>()?).await
    }

    async fn rooms(&self) -> Result<Rooms> {
        let agent = self.agent().entity();
        if self.entity == agent {
            return Err(Error::invalid("the agent itself can't be searched for as a person"));
        }
        let direct = RoomId::parse(format!("{DIRECT}{}", self.entity)).ok();
        let came_to = self.records.participants().rooms_of(&self.entity).await?;
        let direct = direct.filter(|direct| !came_to.contains(direct));
        let mut rooms = Rooms { own: Vec::new(), shared: Vec::new(), worlds: BTreeSet::new() };
        for id in came_to.into_iter().chain(direct) {
            let audience = Audience::new(id.clone(), agent.clone());
            let room = self.records.rooms().get(&audience).await?;
            rooms.worlds.extend(room.as_ref().and_then(|room| room.world.clone()));
            match self.is_own(&audience, room.as_ref()).await? {
                true => rooms.own.push(id),
                false => rooms.shared.push(id),
            }
        }
        let owned = self.records.linked(Kind::OwnedWorlds, self.entity.as_str()).await?;
        rooms.worlds.extend(owned.iter().map(WorldId::parse).collect::<Result<Vec<_>>>()?);
        Ok(rooms)
    }

    /// Whether only the entity and the agent take part in a room, and nobody else ever wrote there.
    async fn is_own(&self, audience: &Audience, room: Option<&Room>) -> Result<bool> {
        // A room that no program has stored is the direct room if it has this id.
        let is_named = || audience.room.as_str().strip_prefix(DIRECT) == Some(self.entity.as_str());
        if !room.map_or_else(is_named, |room| room.channel_type.is_direct()) {
            return Ok(false);
        }
        let (own, agent) = (&self.entity, &audience.entity);
        let Some(members) = self.records.participants().all_of_room(audience).await? else { return Ok(false) };
        if members.iter().any(|one| ![own, agent].contains(&&one.entity)) {
            return Ok(false);
        }
        let is_known = Field::metadata([AUTHOR]).one_of([own.as_str(), agent.as_str()]);
        let of_others = Field::metadata([AUTHOR]).is_not_null().and(is_known.negate());
        let space = messages_space(self.agent(), &audience.room)?;
        let query = MemoryQuery::builder().exact(space).filter(of_others).limit(1);
        Ok(self.records.find(query, |_| Some(())).await?.is_empty())
    }

    /// The records of others that list the entity.
    async fn lists(&self, rooms: &Rooms) -> Result<Vec<List>> {
        let (entity, agent) = (&self.entity, self.agent().entity());
        let mut lists = Vec::new();
        for room in &rooms.shared {
            let audience = Audience::new(room.clone(), agent.clone());
            if self.records.participants().get(&audience, entity).await?.is_some() {
                lists.push(List::Room(room.clone()));
            }
        }
        for world in &rooms.worlds {
            let found: Option<World> = self.records.table().get(&document_id(self.agent(), [world.as_str()])?).await?;
            if found.is_some_and(|found| found.owner.as_ref() == Some(entity) || found.roles.contains_key(entity)) {
                lists.push(List::World(world.clone()));
            }
            let linked: BTreeSet<_> =
                self.records.linked(Kind::WorldRooms, world.as_str()).await?.into_iter().collect();
            let own = rooms.own.iter().filter(|room| linked.contains(room.as_str()));
            lists.extend(own.map(|room| List::Link(Kind::WorldRooms, world.to_string(), room.to_string())));
        }
        for other in self.records.linked(Kind::Acquaintances, entity.as_str()).await? {
            let back = self.records.linked(Kind::Acquaintances, &other).await?;
            if other != entity.as_str() && back.iter().any(|one| one == entity.as_str()) {
                lists.push(List::Link(Kind::Acquaintances, other, entity.to_string()));
            }
        }
        Ok(lists)
    }

    fn record_of(&self, list: &List) -> Result<RecordId> {
        match list {
            List::Room(room) => Ok(self.record::<Members>(room.as_str())?.into()),
            List::World(world) => Ok(self.record::<World>(world.as_str())?.into()),
            List::Link(kind, from, _) => Ok(self.records.link_record(*kind, from)?.into()),
        }
    }

    /// The collection and document id of this kind of record for an id.
    fn record<R: Record>(&self, id: &str) -> Result<(Collection, DocumentId)> {
        Ok((Collection::parse(R::COLLECTION)?, document_id(self.agent(), [id])?))
    }

    /// Those of these documents that exist, including damaged ones.
    async fn present(&self, ids: impl IntoIterator<Item = (Collection, DocumentId)>) -> Result<Vec<RecordId>> {
        let ids: Vec<_> = ids.into_iter().collect();
        let found = stream::iter(ids).map(|(collection, id)| async move {
            let is_there = match self.records.documents().get(&collection, &id).await {
                Ok(found) => found.is_some(),
                Err(error) if error.kind() == ErrorKind::Corrupt => true,
                Err(error) => return Err(error),
            };
            Ok(is_there.then(|| RecordId::from((collection, id))))
        });
        found.buffered(AT_ONCE).try_filter_map(future::ok).try_collect().await
    }

    /// The ids of the documents that a query finds.
    async fn ids(&self, query: QueryBuilder<Documents>) -> Result<Vec<RecordId>> {
        let id = |document: Document| Ok(RecordId::from((document.collection, document.id)));
        documents::find(self.records.documents().as_ref(), query, usize::MAX, id).await
    }

    fn agent(&self) -> &AgentId {
        self.records.agent()
    }
}

impl fmt::Debug for Traces {
    /// Shows only sizes, since the filters name the person.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memories, documents, records, lists, shared } = self;
        let (memories, documents) = (memories.len(), documents.len());
        let (records, lists, shared) = (records.len(), lists.len(), shared.len());
        write!(f, "Traces({memories} and {documents} queries, {records} records, {lists} lists, {shared} shared)")
    }
}
