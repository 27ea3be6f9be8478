//! What an operator has set for the namespace: texts, each in a row of the bookkeeping that has its name, in the field of that name.

use memory_core::Result;
use mongodb::bson::doc;

use crate::connection::MongoSession;
use crate::error::native;
use crate::expiry::meet_rules;
use crate::row::text;

/// The rules of retention.
pub(crate) const RETENTION: &str = "retention";
/// The embedding model.
pub(crate) const VECTOR_MODEL: &str = "vectorModel";

/// The text that a majority has, if one was set. As each read, it asks no new primary that does not know yet what that is.
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

/// Sets a text in the place of another one.
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
