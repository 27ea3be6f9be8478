//! Many rooms at once.

use std::collections::BTreeSet;

use memory_context::flow::{End, Incoming};
use memory_context::records::Audience;

use crate::stage::{Stage, entity, room, said, text};

const ROOMS: usize = 100;

fn in_room(number: usize, words: &str, ago: i64) -> Incoming {
    let mut incoming = said("ana", words, ago);
    incoming.message.content.room = room(&format!("r{number}"));
    incoming
}

/// No model answers before all rooms have asked: a room that held something while it waits would keep another from
/// asking.
#[tokio::test]
async fn a_hundred_rooms_go_on_at_once_and_each_in_order() {
    let mut stage = Stage::new().await;
    let mut first = Vec::new();
    for number in 0..ROOMS {
        first.push(stage.receive(in_room(number, &format!("one {number}"), 2)));
    }
    let mut calls = Vec::new();
    for _ in 0..ROOMS {
        calls.push(stage.asked().await);
    }
    let asked: BTreeSet<_> = calls.iter().map(|call| call.received().to_owned()).collect();
    assert_eq!(asked.len(), ROOMS, "each room once");
    // Half of the rooms are answered; the others first receive a newer message.
    let mut second = Vec::new();
    for number in (0..ROOMS).filter(|number| number % 2 == 1) {
        second.push(stage.receive(in_room(number, &format!("two {number}"), 1)));
    }
    let mut newer = Vec::new();
    for _ in 0..ROOMS / 2 {
        newer.push(stage.asked().await);
    }
    for call in calls.into_iter().chain(newer).rev() {
        let said = call.received().rsplit("ana: ").next().expect("what was said").to_owned();
        call.answer(text(&format!("to {said}")));
    }
    for (number, run) in first.into_iter().enumerate() {
        let end = if number % 2 == 1 { End::Superseded } else { End::Completed };
        assert_eq!(run.await.expect("no panic"), end, "{number}");
    }
    for run in second {
        assert_eq!(run.await.expect("no panic"), End::Completed);
    }
    assert_eq!(stage.platform.texts().len(), ROOMS);
    for number in 0..ROOMS {
        let audience = Audience::new(room(&format!("r{number}")), entity("ana"));
        let stored = stage.records.messages().recent(&audience, 10).await.expect("read");
        let texts: Vec<_> = stored.iter().rev().map(|message| message.content.text.clone()).collect();
        let expected = match number % 2 {
            0 => vec![format!("one {number}"), format!("to one {number}")],
            _ => vec![format!("one {number}"), format!("two {number}"), format!("to two {number}")],
        };
        assert_eq!(texts, expected);
    }
}
