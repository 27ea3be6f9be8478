//! A connection that is cut at every place of a call, one place after the other: the answer of the call must match its effect.

use std::time::Duration;

use futures::future::try_join_all;
use memory_core::{DEFAULT_DEADLINE, MemoryId};

use super::attempt::{Attempt, CALLS, Call};
use super::{BehindProxy, Error, in_good_time};
use crate::case::{CaseResult, Stage, chapter, variable};
use crate::fault::{Fault, Place};
use crate::random::Random;

chapter!("faults":
    what_may_have_been_done_is_never_called_not_done ["W1", "W11", "W12", "D1", "D4"] needs Server,
    requests_cut_in_the_middle_are_whole_or_none ["W1", "W2", "W4", "W8", "W11", "W12", "D1", "D4"] needs Server,
    answers_cut_in_the_middle_leave_one_write ["W1", "W2", "W3", "W4", "W8", "W11", "W12", "D1", "D4"] needs Server,
);

/// The size of a restore, in records: more than the engines of this workspace write in one step, so that cuts also come between steps.
const RECORDS: usize = 1_400;
/// The size of a restore whose records are sent one by one.
const FEW: usize = 20;
/// A call with at most this many places is cut at each of them.
const SHORT: usize = 16;
/// Number of places at which a longer call is cut.
const CUTS: usize = 4;
/// How often a call is measured, and made again if it ended before its cut.
const ROUNDS: usize = 3;
/// A place that no call reaches.
const FAR: usize = usize::MAX >> 1;

/// The answer is lost and the server can't be reached any more, so nobody knows the outcome of the write. The caller
/// must not be told `NotDone`, however the call ends (a bug that this finds: an attempt that was cut off is hidden by
/// the refusal of the next one).
async fn what_may_have_been_done_is_never_called_not_done(stage: Stage) -> CaseResult {
    cut_everywhere(&stage.with_deadline(Duration::from_millis(1_500)), Fault::LastAnswer).await
}

/// A request of which the server got only the first bytes changes nothing, or is repeated and then takes effect once.
async fn requests_cut_in_the_middle_are_whole_or_none(stage: Stage) -> CaseResult {
    cut_everywhere(&stage, Fault::CutRequest).await
}

/// A write whose answer was lost is there once, and its answer to the caller is true (a replayed write that was doubled).
async fn answers_cut_in_the_middle_leave_one_write(stage: Stage) -> CaseResult {
    cut_everywhere(&stage, Fault::CutAnswer).await
}

/// Cuts a call of each kind at one place after the other, until one ends before its cut.
///
/// The places lie between two chunks and in the middle of a chunk; a long call is cut at [`CUTS`] of them. `MEMORY_TEST_CUTS` sets the
/// distance of the places in bytes instead.
async fn cut_everywhere(stage: &Stage, fault: fn(Place) -> Fault) -> CaseResult {
    let every = variable("MEMORY_TEST_CUTS", 0)?;
    // The first handle creates the schema for the later ones.
    stage.open().await?.shutdown().await?;
    let (mut random, mut ways) = (Random::new(stage.settings().seed), Vec::new());
    for call in CALLS {
        ways.push(cut(BehindProxy::open(stage).await?, call, fault, every, random.below(FAR)));
    }
    let mut cuts = try_join_all(ways).await?;
    // All kinds run concurrently, and so do the repeated stores, since a server may keep the locks of a cut transaction for a minute.
    let direct = stage.clone().with_deadline(DEFAULT_DEADLINE).open().await?;
    let attempts = cuts.iter().flat_map(|cut| &cut.attempts);
    let repeated = try_join_all(attempts.map(|attempt| attempt.mistake_repeated(&*direct))).await?;
    let mistakes = cuts.iter_mut().flat_map(|cut| cut.mistakes.drain(..)).chain(repeated.into_iter().flatten());
    assert_eq!(mistakes.collect::<Vec<_>>(), [""; 0]);
    Ok(())
}

/// The results of one kind of call, cut at many places.
#[derive(Default)]
struct Cuts {
    /// The attempts that can be repeated.
    attempts: Vec<Attempt>,
    mistakes: Vec<String>,
}

async fn cut(
    way: BehindProxy,
    call: Call,
    fault: fn(Place) -> Fault,
    every: usize,
    random: usize,
) -> Result<Cuts, Error> {
    let place = if every == 0 { Place::Halves } else { Place::Bytes };
    let mut cuts = Cuts::default();
    // Makes the call, and returns whether the cut came before it ended.
    let make = async |cuts: &mut Cuts, number: usize, records: usize, round: usize| {
        let name = format!("{call:?}-{number}-{records}-{round}").to_lowercase();
        let fault = fault(place(number));
        let mut attempt = Attempt::prepare(call, name, records, &*way.direct).await?;
        // On an established connection.
        in_good_time(|| async { way.provider.get(MemoryId::generate()).await.map(drop) }).await?;
        way.proxy.set(fault);
        attempt.make(&*way.provider).await;
        let is_cut = way.proxy.fault() != fault;
        way.proxy.set(Fault::None);
        let mistake = attempt.mistake(&*way.direct).await?;
        cuts.mistakes.extend(mistake.map(|mistake| format!("{mistake}, {fault:?}")));
        cuts.attempts.extend(Some(attempt).filter(Attempt::can_be_repeated));
        Ok::<_, Error>(is_cut)
    };
    // The shortest of several measurements: the first call on a new connection is longer than those that are cut.
    let measure = async |cuts: &mut Cuts, records: usize| {
        let mut length = FAR;
        for round in 1..=ROUNDS {
            make(cuts, FAR, records, round).await?;
            length = length.min(FAR - way.proxy.left());
        }
        Ok::<_, Error>(length)
    };
    let mut records = FEW;
    let mut length = measure(&mut cuts, records).await?;
    if every > 0 || length < 2 * FEW {
        // With places in bytes, or if records are not sent one by one, a restore gets more records, and is measured again.
        records = RECORDS;
        length = measure(&mut cuts, records).await?;
    }
    assert!(length > 0, "{call:?} does not go through the proxy");
    let step = match length {
        _ if every > 0 => every,
        ..=SHORT => 1,
        _ => length.div_ceil(CUTS),
    };
    let first = if every > 0 { 0 } else { random % step };
    let (planned, mut came) = ((length - first).div_ceil(step), 0);
    // On a busy machine a call may time out before its cut.
    for number in 0.. {
        let is_planned = number + 1 < planned;
        let mut is_cut = false;
        for round in 1..=if is_planned { ROUNDS } else { 1 } {
            is_cut = make(&mut cuts, first + number * step, records, round).await?;
            if is_cut {
                break;
            }
        }
        came += usize::from(is_cut);
        if !is_cut && !is_planned {
            break;
        }
    }
    assert!(2 * came >= planned, "{call:?} was cut {came} times, and not {planned}");
    Ok(cuts)
}
