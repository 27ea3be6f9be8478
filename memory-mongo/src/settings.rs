//! The settings that an operator has made for the namespace: each is a text in the bookkeeping, in a row and a field of
//! its name.

use memory_core::Result;
use mongodb::bson::doc;

use crate::connection::MongoSession;
use crate::error::native;
use crate::expiry::meet_rules;
use crate::row::text;

/// The retention rules.
pub(crate) const RETENTION: &str = "retention";
/// The embedding model.
pub(crate) const VECTOR_MODEL: &str = "vectorModel";

/// The majority-committed text, if one was set. Like every read, it doesn't rely on a new primary that doesn't yet know
/// what is majority-committed.
pub(crate) async fn get(session: &MongoSession, name: &str) -> Result<Option<String>> {
    let on = &session.on;
    loop {
        let election = on.election(session).await?;
        let kept = on.latest.bookkeeping.find_one(doc! { "_id": name }).max_time(session.left()?);
        let kept = kept.await.map_err(native)?;
        if on.is_last(election) {
            return kept.as_deref().map(|kept| text(kept, name).map(str::to_owned)).transpose();
        }
    }
}

/// Sets a text, replacing the previous one.
pub(crate) async fn set(session: &MongoSession, name: &str, value: &str) -> Result<()> {
    let kept = doc! { "q": { "_id": name }, "u": { "$set": { name: value } }, "upsert": true };
    let mut transaction = session.begin().await?;
    let write = async {
        meet_rules(session, &mut transaction).await?;
        session.update_in(session.on.primary.bookkeeping.name(), vec![kept], &mut transaction).await
    };
    let is_done = write.await.map(|_| true);
    session.end(transaction, is_done).await.map(drop)
}
