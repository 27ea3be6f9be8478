//! Moves between engines in memory, with each way in which one may be interrupted.

use std::future::pending;

use memory_core::{
    Collection, Content, DocumentWrite, Erasure, InMemory, NewMemory, Result, SpaceId, Timestamp, Trigger,
};

use super::*;

/// A source with a memory and a document, and an empty target.
async fn places() -> Result<(InMemory, InMemory)> {
    let (source, target) = (InMemory::new(), InMemory::new());
    source.init().await?;
    target.init().await?;
    let (space, now) = (SpaceId::parse("a")?, Timestamp::from_millis(0)?);
    source.store(NewMemory::new(space.clone(), Trigger::parse("1")?, now)).await?;
    let note = DocumentWrite::new(Collection::parse("notes")?, space, Content::parse("text")?, now);
    source.documents().put(note).await?;
    Ok((source, target))
}

async fn is_finished(target: &InMemory) -> Result<bool> {
    Ok(Mark::read(&*target.documents()).await?.expect("a mark").is_finished)
}

#[tokio::test]
async fn it_ends_when_it_is_asked_to_although_the_target_takes_no_mark() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    target.set_read_only(true).await?;
    // A block panics that is polled again behind its end.
    follower.follow(async {}).await
}

#[tokio::test]
async fn what_is_erased_in_the_target_alone_is_the_cause_of_a_difference() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    let memory = NewMemory::new(SpaceId::parse("a")?, Trigger::parse("2")?, Timestamp::from_millis(0)?);
    let id = source.store(memory).await?;
    Follower::new(&source, &target, &Progress::Quiet).await?.go_on(Until::Reached, pending()).await?;
    let erasure = Erasure::records([id.into()], "why")?;
    target.erase(&erasure).await?;
    // The first run goes on behind the memory, and finds it by the comparison; the next one begins anew, and meets it.
    for _ in 0..2 {
        let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
        let copied = follower.finish(pending()).await?.expect("it is compared");
        assert_eq!((copied.is_verified(), copied.erased), (false, 1));
        assert!(!source.is_read_only().await?);
    }
    source.erase(&erasure).await?;
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    let copied = follower.finish(pending()).await?.expect("it is compared");
    assert_eq!((copied.is_verified(), copied.erased), (true, 0));
    Ok(())
}

#[tokio::test]
async fn a_fence_that_was_lifted_meanwhile_is_no_success() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    let unfence = async {
        while !source.is_read_only().await.expect("asked") {
            tokio::task::yield_now().await;
        }
        source.set_read_only(false).await.expect("lifted");
        pending().await
    };
    let error = follower.finish(unfence).await.expect_err("programs may have written to the source");
    assert!(error.to_string().contains("take writes again"), "{error}");
    assert!(!is_finished(&target).await?);
    Ok(())
}

#[tokio::test]
async fn only_the_fence_of_this_target_is_lifted() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    source.set_read_only(true).await?;
    let error = Follower::new(&source, &target, &Progress::Quiet).await?.finish(pending()).await;
    assert!(error.expect_err("it is no one's to lift").to_string().contains("not for this target"));
    assert!(source.is_read_only().await?);
    source.set_read_only(false).await?;

    // A run that is killed behind its fence leaves it to the next one.
    let mut killed = Follower::new(&source, &target, &Progress::Quiet).await?;
    killed.fence().await?;
    let mut next = Follower::new(&source, &target, &Progress::Quiet).await?;
    // And if it was not killed, it leaves it alone.
    let error = killed.finish(pending()).await.expect_err("another run goes on");
    assert!(error.to_string().contains("another run"), "{error}");
    assert!(source.is_read_only().await?);
    assert!(next.finish(async {}).await?.is_none());
    assert!(!source.is_read_only().await?);
    assert!(next.finish(pending()).await?.is_some_and(|copied| copied.is_verified()));
    assert!(source.is_read_only().await? && is_finished(&target).await?);
    Ok(())
}

#[tokio::test]
async fn the_fence_of_another_move_stays() -> anyhow::Result<()> {
    let (source, first) = places().await?;
    let (_, second) = places().await?;
    // Killed between its claim and its fence.
    let killed = Follower::new(&source, &first, &Progress::Quiet).await?;
    claim::put(&*source.documents(), &killed.mark.r#move).await?;
    let moved = Follower::new(&source, &second, &Progress::Quiet).await?.finish(pending()).await?;
    assert!(moved.is_some_and(|copied| copied.is_verified()));
    let error = Follower::new(&source, &first, &Progress::Quiet).await?.finish(async {}).await;
    assert!(error.expect_err("it has moved").to_string().contains("not for this target"));
    assert!(source.is_read_only().await?);

    // Nor does one lift it whose claim was taken before its own fence.
    source.set_read_only(false).await?;
    let mut late = Follower::new(&source, &first, &Progress::Quiet).await?;
    late.is_fencing = true;
    source.set_read_only(true).await?;
    late.lift().await?;
    assert!(source.is_read_only().await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_took_long_before_is_no_waiting() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    follower.fence().await?;
    for _ in 0..2 {
        tokio::time::advance(2 * FENCED).await;
        assert_eq!(follower.go_on(Until::Reached, pending()).await?, End::Reached);
    }
    Ok(())
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn the_source_takes_writes_again_when_the_target_takes_none() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("target.db");
    let url = format!("sqlite://{}", file.display());
    // Whoever makes the file has the time that it takes.
    crate::engine::open(&url).await?.shutdown().await?;
    let target = crate::engine::open(&format!("{url}?deadline_ms=2000")).await?;
    let (source, _) = places().await?;
    let mut follower = Follower::new(&source, &*target, &Progress::Quiet).await?;
    follower.fence().await?;
    let other = rusqlite::Connection::open(file)?;
    other.execute_batch("BEGIN IMMEDIATE")?;
    // Pauses go by at once from here on.
    tokio::time::pause();
    let error = follower.finish(pending()).await.expect_err("nothing was taken over");
    assert!(format!("{error:#}").contains("read-only for 60 s"), "{error:#}");
    assert!(!source.is_read_only().await?);
    Ok(())
}

#[tokio::test]
async fn a_target_that_may_have_taken_over_is_put_back_before_the_fence_is_lifted() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    follower.fence().await?;
    // Put, without an answer.
    follower.mark.is_finished = true;
    follower.mark.clone().put(&*target.documents()).await?;
    target.set_read_only(true).await?;
    let left = follower.lift().await.expect_err("it is not known");
    assert!(left.to_string().contains("may have taken over") && source.is_read_only().await?, "{left}");
    target.set_read_only(false).await?;
    follower.mark.is_finished = true;
    follower.lift().await?;
    assert!(!is_finished(&target).await? && !source.is_read_only().await?);
    Ok(())
}

#[tokio::test]
async fn a_source_is_known_also_where_the_feed_is_begun_anew() -> anyhow::Result<()> {
    let (source, target) = places().await?;
    let (other, _) = places().await?;
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    follower.go_on(Until::Reached, pending()).await?;
    follower.mark.begin_anew();
    follower.put_mark().await?;
    let error = Follower::new(&other, &target, &Progress::Quiet).await?.follow(pending()).await;
    assert!(error.expect_err("another source").is::<Usage>());
    let mut follower = Follower::new(&source, &target, &Progress::Quiet).await?;
    follower.go_on(Until::Reached, pending()).await?;
    assert!(!follower.mark.has_gap && follower.mark.token.is_some());
    Ok(())
}
