//! A connection that is cut at every place of a call, one after the other: what the call tells is what became of it.

use std::time::Duration;

use futures::future::try_join_all;
use memory_core::{DEFAULT_DEADLINE, MemoryId};

use super::attempt::{Attempt, CALLS, Call};
use super::{BehindProxy, Error, in_good_time};
use crate::case::{CaseResult, Stage, chapter, variable};
use crate::fault::{Fault, Place};
use crate::random::Random;

chapter!("faults":
    requests_cut_in_the_middle_are_whole_or_none ["W1", "W2", "W4", "W8", "W11", "W12", "D1", "D4"] needs Server,
    answers_cut_in_the_middle_leave_one_write ["W1", "W2", "W3", "W4", "W8", "W11", "W12", "D1", "D4"] needs Server,
    what_may_have_been_done_is_never_called_not_done ["W1", "W11", "W12", "D1", "D4"] needs Server,
);

/// How many records a restore has: so many more than the engines of this workspace write at once that a cut comes behind these, too.
const RECORDS: usize = 1_400;
/// How many it has where each of them is sent by itself.
const FEW: usize = 20;
/// A call with more places is a long one,
const SHORT: usize = 16;
/// and is cut at so many of them.
const CUTS: usize = 4;
/// How often a call is measured, and made whose cut does not come.
const ROUNDS: usize = 3;
/// A place that no call reaches.
const FAR: usize = usize::MAX >> 1;

/// A request of which the server got the first bytes only changes nothing, or is repeated, and is then there once.
async fn requests_cut_in_the_middle_are_whole_or_none(stage: Stage) -> CaseResult {
    cut_everywhere(&stage, Fault::CutRequest).await
}

/// What the server has done and could not tell is there once, and what is told of it is true (a replayed write that was
/// doubled).
async fn answers_cut_in_the_middle_leave_one_write(stage: Stage) -> CaseResult {
    cut_everywhere(&stage, Fault::CutAnswer).await
}

/// The answer is lost and the server can't be reached any more, so that nobody knows what became of the write: however it ends, the
/// caller is not told that nothing was done (an attempt that was cut off, and hidden by the refusal of the next one).
async fn what_may_have_been_done_is_never_called_not_done(stage: Stage) -> CaseResult {
    cut_everywhere(&stage.with_deadline(Duration::from_millis(1_500)), Fault::LastAnswer).await
}

/// Cuts a call of each kind at one place after the other, until one is over before the cut comes.
///
/// The places are those between two pieces and in their midst, [`CUTS`] of them in a long call; with `MEMORY_TEST_CUTS` they are so many
/// bytes apart.
async fn cut_everywhere(stage: &Stage, fault: fn(Place) -> Fault) -> CaseResult {
    let every = variable("MEMORY_TEST_CUTS", 0)?;
    // One sets it up, for all that follow.
    stage.open().await?.shutdown().await?;
    let (mut random, mut ways) = (Random::new(stage.settings().seed), Vec::new());
    for call in CALLS {
        ways.push(cut(BehindProxy::open(stage).await?, call, fault, every, random.below(FAR)));
    }
    let mut cuts = try_join_all(ways).await?;
    // All at the same time, since a server may keep the locks of what was cut off for a minute.
    let direct = stage.clone().with_deadline(DEFAULT_DEADLINE).open().await?;
    let attempts = cuts.iter().flat_map(|cut| &cut.attempts);
    let repeated = try_join_all(attempts.map(|attempt| attempt.mistake_repeated(&*direct))).await?;
    let mistakes = cuts.iter_mut().flat_map(|cut| cut.mistakes.drain(..)).chain(repeated.into_iter().flatten());
    assert_eq!(mistakes.collect::<Vec<_>>(), [""; 0]);
    Ok(())
}

/// What became of one call that was cut at many places.
#[derive(Default)]
struct Cuts {
    /// Those that can be repeated.
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
    // Makes the call, and tells whether the cut came before it was over.
    let make = async |cuts: &mut Cuts, number: usize, records: usize, round: usize| {
        let name = format!("{call:?}-{number}-{records}-{round}").to_lowercase();
        let fault = fault(place(number));
        let mut attempt = Attempt::prepare(call, name, records, &*way.direct).await?;
        // On a connection that is there.
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
    // The shortest of some: a call on a connection that is new is longer than those to be cut.
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
        // Also of a call without records: a first one may ask for what the next ones know.
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
    // On a busy machine a call may time out before the cut comes.
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
