//! Connections that are slow, break in the middle, or hang.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use memory_core::{DocumentQuery, DocumentSelection, ErrorKind};

use super::attempt::{CALLS, is_trouble};
use super::client::{Client, Load};
use super::{BehindProxy, works_again};
use crate::case::{CaseResult, Stage, chapter};
use crate::fault::{Fault, Place};
use crate::fixture::{collection, document_id, ledger, new_document, new_memory, query};
use crate::random::Random;

chapter!("faults":
    a_slow_server_is_waited_for ["L6", "W1"] needs Server,
    a_server_that_holds_is_a_timeout_and_works_again ["L3", "L6", "W11"] needs Server,
    a_server_that_refuses_is_unavailable_and_works_again ["L3", "L6"] needs Server,
    a_slow_removal_spares_what_was_put_in_its_place ["D4"] needs Server,
    clients_lose_nothing_while_connections_break ["W1", "W2", "W4", "W10", "W11"] needs Server,
);

/// A slow connection is no error: every call is done.
async fn a_slow_server_is_waited_for(stage: Stage) -> CaseResult {
    let trouble = BehindProxy::open(&stage).await?;
    let mut client = Client::new("slow", &*trouble.direct).await?;
    trouble.proxy.set(Fault::Delay(Duration::from_millis(5)));
    for _ in CALLS {
        client.call(&*trouble.provider).await;
    }
    assert_eq!((client.acknowledged(), client.calls()), (CALLS.len(), CALLS.len()));
    assert_eq!(client.mistakes(&*trouble.direct).await?, [""; 0]);
    Ok(())
}

/// While nothing passes, each call ends by its deadline. Afterwards the same provider works, and a request that the
/// server executes late takes effect once or not at all.
async fn a_server_that_holds_is_a_timeout_and_works_again(stage: Stage) -> CaseResult {
    let stage = stage.with_deadline(Duration::from_millis(400));
    let trouble = BehindProxy::open(&stage).await?;
    let mut clients = try_join_all(["a", "b"].map(|name| Client::new(name, &*trouble.direct))).await?;
    trouble.proxy.set(Fault::Hold);
    let everything = query(|query| query.all());
    let (_, read, health) = futures::join!(
        join_all(clients.iter_mut().map(|client| client.call(&*trouble.provider))),
        trouble.provider.query(&everything),
        trouble.provider.check_health(),
    );
    let read = read.err().ok_or("a read through a dead connection answers")?;
    assert!(is_trouble(&read), "{read:?}");
    assert_eq!(health.map_err(|error| error.kind()).err(), Some(ErrorKind::Unavailable));
    for _ in &CALLS[1..] {
        join_all(clients.iter_mut().map(|client| client.call(&*trouble.provider))).await;
    }
    assert!(clients.iter().all(|client| client.acknowledged() == 0));
    trouble.recover().await?;
    // Closes the connections whose traffic was held, before the effects are checked.
    trouble.provider.shutdown().await?;
    for client in &clients {
        assert_eq!(client.mistakes(&*trouble.direct).await?, [""; 0]);
    }
    Ok(())
}

/// While connections are refused, calls answer `Unavailable`. Afterwards the same provider works without being rebuilt (langgraph#5675: a
/// pool of dead connections).
async fn a_server_that_refuses_is_unavailable_and_works_again(stage: Stage) -> CaseResult {
    let stage = stage.with_deadline(Duration::from_secs(1));
    let trouble = BehindProxy::open(&stage).await?;
    let mut client = Client::new("refused", &*trouble.direct).await?;
    for _ in 0..2 {
        trouble.proxy.set(Fault::Refuse);
        let health = trouble.provider.check_health().await;
        assert_eq!(health.map_err(|error| error.kind()).err(), Some(ErrorKind::Unavailable));
        let read = trouble.provider.query(&query(|query| query.all())).await;
        assert!(read.as_ref().is_err_and(is_trouble), "{read:?}");
        client.call(&*trouble.provider).await;
        trouble.recover().await?;
        client.call(&*trouble.provider).await;
    }
    assert_eq!(client.acknowledged(), 2);
    assert_eq!(client.mistakes(&*trouble.direct).await?, [""; 0]);
    Ok(())
}

/// While a removal on a slow connection runs, between its search and its write, the document is removed and put again. The new document has
/// the same revision and createdAt as the one that was found, and must stay, since nobody selected it.
async fn a_slow_removal_spares_what_was_put_in_its_place(stage: Stage) -> CaseResult {
    let mut random = Random::new(stage.settings().seed);
    let trouble = BehindProxy::open(&stage).await?;
    let (slow, direct) = (trouble.provider.documents(), trouble.direct.documents());
    let in_place = |space: &str| new_document("notes", "x", space, "text");
    let both = DocumentSelection::ids(collection("notes"), [document_id("x")])?;
    let dropped = DocumentSelection::matching(DocumentQuery::builder(collection("notes")).under("drop"))?;
    trouble.proxy.set(Fault::Delay(Duration::from_millis(3)));
    for round in 0..40 {
        direct.put(in_place("drop")).await?;
        let replace = async {
            // At a time before, during or after the removal's search.
            tokio::time::sleep(Duration::from_millis(random.below(10) as u64)).await;
            direct.remove(&both, 1).await?;
            direct.put(in_place("keep")).await
        };
        let (removed, replaced) = futures::join!(slow.remove(&dropped, 1), replace);
        removed?;
        replaced?;
        assert_eq!(direct.remove(&both, 1).await?.len(), 1, "what was put is gone in round {round}");
    }
    Ok(())
}

/// Clients that continue while connections break in every way lose no acknowledged write.
async fn clients_lose_nothing_while_connections_break(stage: Stage) -> CaseResult {
    let seed = stage.settings().seed;
    let mut random = Random::new(seed);
    let stage = stage.with_deadline(Duration::from_millis(500));
    let trouble = BehindProxy::open(&stage).await?;
    let names = ["a", "b", "c", "d", "e", "f"];
    let clients = try_join_all(names.map(|name| Client::new(name, &*trouble.direct))).await?;
    let load = Load::start(clients, &trouble.provider);
    for _ in 0..60 {
        trouble.proxy.set(match random.below(8) {
            0 => Fault::Refuse,
            1 => Fault::Hold,
            2 => Fault::Delay(Duration::from_millis(2)),
            3 | 4 => Fault::CutRequest(Place::Bytes(random.below(3_000))),
            5 | 6 => Fault::CutAnswer(Place::Bytes(random.below(1_000))),
            _ => Fault::None,
        });
        tokio::time::sleep(Duration::from_millis(random.below(30) as u64)).await;
    }
    trouble.recover().await?;
    let clients = load.stop().await?;
    trouble.provider.shutdown().await?;
    let mut mistakes = Vec::new();
    for client in &clients {
        mistakes.extend(client.mistakes(&*trouble.direct).await?);
    }
    assert_eq!(mistakes, [""; 0], "seed {seed}");
    let acknowledged: usize = clients.iter().map(Client::acknowledged).sum();
    assert!(acknowledged > 0, "nothing was acknowledged: seed {seed}");
    works_again(&*trouble.direct).await?;
    let stored = trouble.direct.store(new_memory("in-the-end", i64::from(i32::MAX))).await?;
    assert!(ledger(&*trouble.direct).await?.iter().any(|memory| memory.id == stored));
    Ok(())
}
