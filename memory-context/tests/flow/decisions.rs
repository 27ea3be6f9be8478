//! The three decisions of the way, each as a table.

use memory_context::flow::{End, Why};
use memory_context::records::{ChannelType, FactQuery, RoomState};

use crate::stage::{Stage, Task, actions, audience, entity, said, text};

#[tokio::test]
async fn whether_to_answer() {
    use ChannelType::{Api, Dm, Feed, Group, Own, VoiceDm, VoiceGroup};
    use Task::{Answer, Decide};
    let ignored = |why| (End::Ignored(why), vec![]);
    let answered = || (End::Completed, vec![Answer]);
    let asked_and_answered = || (End::Completed, vec![Decide, Answer]);
    let asked_and_ignored = || (End::Ignored(Why::Model), vec![Decide]);
    for (author, channel_type, source, is_muted, words, is_addressed, action, expected) in [
        // Is it the agent's own?
        ("eliza", Dm, "", false, "hello", false, "", ignored(Why::Own)),
        ("eliza", Group, "client_chat", true, "Eliza", true, "", ignored(Why::Own)),
        // Is it a direct message, a voice, a program that calls?
        ("ana", Dm, "", false, "hello", false, "", answered()),
        ("ana", VoiceDm, "", false, "hello", false, "", answered()),
        ("ana", Api, "", false, "hello", false, "", answered()),
        ("ana", Own, "", false, "hello", false, "", answered()),
        ("ana", Group, "client_chat", false, "hello", false, "", answered()),
        ("ana", Group, "discord", false, "hello", true, "", answered()),
        // Is the room muted, and was the agent named?
        ("ana", Group, "", true, "hello Eliza", false, "", answered()),
        ("ana", Dm, "", true, "eliza?", false, "", answered()),
        ("ana", Group, "", true, "hello", true, "", answered()),
        ("ana", Group, "", true, "hello", false, "", ignored(Why::Muted)),
        ("ana", Dm, "", true, "Elizabeth", false, "", ignored(Why::Muted)),
        // Otherwise a model is asked.
        ("ana", Group, "", false, "hello", false, "RESPOND", asked_and_answered()),
        ("ana", Group, "", false, "hello", false, "REPLY", asked_and_answered()),
        ("ana", VoiceGroup, "", false, "hello", false, "FOLLOW_ROOM", asked_and_answered()),
        ("ana", Feed, "", false, "hello", false, "IGNORE", asked_and_ignored()),
        ("ana", Group, "", false, "hello Eliza", false, "none", asked_and_ignored()),
        ("ana", Group, "", false, "hello", false, "STOP", asked_and_ignored()),
    ] {
        let mut stage = Stage::new().await;
        if is_muted {
            let participants = stage.records.participants();
            participants.join(&audience().room, &entity("eliza")).await.expect("joins");
            let muted = Some(RoomState::Muted);
            participants.set_state(&audience().room, &entity("eliza"), muted).await.expect("muted");
        }
        let mut incoming = said(author, words, 1);
        incoming.message.content.channel_type = channel_type;
        incoming.message.content.source = source.into();
        incoming.is_addressed = is_addressed;
        let played = stage.play(incoming, |call| match call.task {
            Decide => format!("<response><action>{action}</action></response>"),
            _ => text("Hi"),
        });
        let played = played.await;
        assert_eq!(played, expected, "{author} {channel_type} {source} {is_muted} {words} {is_addressed} {action}");
        assert_eq!(stage.platform.texts().len(), usize::from(played.0 == End::Completed));
        assert_eq!(stage.stored().await.is_empty(), author == "eliza", "it is stored but for the agent's own");
    }
}

#[tokio::test]
async fn what_kind_of_answer_it_is() {
    for (chosen, providers, words, end, results, says) in [
        // Simple: only the text.
        ("REPLY", "", "Hi", End::Completed, 0, 1),
        ("reply", "", "Hi", End::Completed, 0, 1),
        ("REPLY", "NO_SUCH_PROVIDER", "Hi", End::Completed, 0, 1),
        ("REPLY,IGNORE", "", "Hi", End::Completed, 0, 1),
        // Complex: actions, or providers.
        ("REPLY", "FACTS", "Hi", End::Completed, 0, 1),
        ("REPLY,LOOK", "", "Hi", End::Completed, 1, 1),
        ("LOOK", "", "", End::Completed, 1, 0),
        ("LOOK", "", "Hi", End::Completed, 1, 1),
        // Nothing.
        ("IGNORE", "", "", End::Ignored(Why::Model), 0, 0),
        ("IGNORE", "", "Hi", End::Ignored(Why::Model), 0, 0),
        ("LOOK,IGNORE", "", "", End::Ignored(Why::Model), 0, 0),
    ] {
        let mut stage = Stage::new().await;
        let answer = actions(chosen, words).replace("<text>", &format!("<providers>{providers}</providers><text>"));
        let played = stage.play(said("ana", "hello", 1), |call| match call.prompt.contains("# Results of Actions") {
            true => actions("IGNORE", ""),
            false => answer.clone(),
        });
        let (ended, _) = played.await;
        let told = (ended, stage.results().await.len(), stage.platform.texts().len());
        assert_eq!(told, (end, results, says), "{chosen} {providers} {words}");
    }
}

#[tokio::test]
async fn what_is_learned_and_when() {
    let nothing = r#"{"thought":"t"}"#;
    let fact = r#"{"thought":"t","facts":[{"claim":"Ana likes tea","subject":"ana"}]}"#;
    let both = r#"{"thought":"t","facts":[{"claim":"Ana likes tea","subject":"ana"}],
        "relationships":[{"sourceEntityId":"ana","targetEntityId":"eliza","tags":"friends"}]}"#;
    // A conversation of 16 messages: a reflection after more than four; each answered turn has two. Each answer is an
    // interaction, too.
    for (turns, reflection, asked, facts, relationships) in
        [(2, both, 0, 0, 2), (3, nothing, 1, 0, 3), (3, fact, 1, 1, 3), (3, both, 1, 1, 4), (6, both, 2, 1, 8)]
    {
        let mut stage = Stage::reflecting(16).await;
        let mut reflections = 0;
        for turn in 0..turns {
            let played = stage.play(said("ana", "I like tea", 100 - turn), |call| match call.task {
                Task::Reflect => reflection.to_owned(),
                _ => text("Good"),
            });
            let (end, tasks) = played.await;
            assert_eq!(end, End::Completed);
            reflections += tasks.iter().filter(|task| **task == Task::Reflect).count();
        }
        let known = stage.records.facts().recall(&audience(), &FactQuery::new("tea")).await.expect("read").facts;
        let between = stage.records.relationships().of(&audience()).await.expect("read");
        let interactions: u64 = between.iter().map(|relationship| relationship.interactions).sum();
        assert_eq!((reflections, known.len(), interactions), (asked, facts, relationships), "{turns} {reflection}");
        assert!(known.iter().all(|found| found.fact.subject == entity("ana") && found.fact.author == entity("eliza")));
    }
}
