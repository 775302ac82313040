//! A model that only repeats itself is told, then stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fluzo_agent::{
    Agent, AgentOptions, Input, Looping, NextTurn, NoHooks, Repetition, RunEnd, RunOutcome, RunSpec,
};
use fluzo_llm::{Message, ToolOutput, content};
use fluzo_testkit::{
    FakeTool, Reply, ScriptedHooks, World, assert_valid_history, poll_once, poll_to_end, reply,
    spec, tools, user,
};
use serde_json::{Value, json};

use crate::stage::{Stage, tool};

/// Responses of one call each, with these arguments.
fn one_each(name: &str, arguments: impl IntoIterator<Item = Value>) -> Vec<Reply> {
    arguments
        .into_iter()
        .enumerate()
        .map(|(turn, arguments)| reply::calls([(format!("c{turn}").as_str(), name, arguments)]))
        .collect()
}

fn then_text(mut replies: Vec<Reply>) -> Vec<Reply> {
    replies.push(reply::text(["ok"]));
    replies
}

/// Texts of all results.
fn results(outcome: &RunOutcome) -> Vec<String> {
    let results = outcome.messages.iter().filter_map(|m| m.as_tool_result());
    results.map(|r| content::joined_text(&r.content)).collect()
}

/// Which of the results carry a line of the guard.
fn told(outcome: &RunOutcome) -> Vec<usize> {
    let results = results(outcome);
    let told = |text: &String| text.contains(" times") || text.contains(" summaries");
    (0..results.len())
        .filter(|at| told(&results[*at]))
        .collect()
}

fn looping(tool: &str, repetition: Repetition) -> RunEnd {
    RunEnd::Looping(Looping {
        tool: tool.into(),
        repetition,
    })
}

#[test]
fn case_l02_identical_successful_writes_are_caught() {
    let write = tool(FakeTool::new("write"));
    // The order of keys makes no difference.
    let arguments = |turn: usize| {
        let text = [
            "{\"path\":\"f\",\"content\":\"x\"}",
            "{\"content\":\"x\",\"path\":\"f\"}",
        ];
        serde_json::from_str(text[turn % 2]).unwrap()
    };
    let stage = Stage::new(one_each("write", (0..5).map(arguments)), [write.clone()]);
    let outcome = stage.run();
    assert_eq!(outcome.end, looping("write", Repetition::InARow(5)));
    assert_eq!(write.runs().len(), 5);
    let texts = results(&outcome);
    assert_eq!(texts[1], "write");
    assert_eq!(
        texts[2],
        "write\n\n[This call gave the same result 3 times in a row. Do something else, or say what is missing; after 5 the run ends.]"
    );
    assert!(texts[4].ends_with("The run ends here until the user says something.]"));
    assert_eq!(told(&outcome), [2, 3, 4]);
    // What the model is told is in the next request.
    let request = &stage.world.model.requests()[3];
    assert!(format!("{:?}", request.transcript).contains("3 times in a row"));
    // The session can go on; what the user says begins anew.
    stage
        .world
        .model
        .push(reply::calls([("d0", "write", arguments(0))]));
    stage.world.model.push(reply::text(["ok"]));
    let mut context = spec("try otherwise", stage.tools.clone());
    context.context.messages = stage.world.journal.messages();
    let next = poll_to_end(stage.agent.start(context).unwrap());
    assert_eq!(next.end, RunEnd::Completed);
    assert!(told(&next).is_empty());
}

#[test]
fn case_e17_the_same_failing_edit_is_caught_whatever_is_done_in_between() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let edit = FakeTool::new("edit").edits().computes(move |_| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        Err(fluzo_agent::ToolError::new(format!(
            "no match in version {n}"
        )))
    });
    let replies = (0..10).map(|turn| {
        let (id, look) = (format!("e{turn}"), format!("r{turn}"));
        let edit = json!({"path": "f", "edits": [{"oldText": "a", "newText": "b"}]});
        reply::calls([
            (id.as_str(), "edit", edit),
            (look.as_str(), "read", json!({"path": "f", "offset": turn})),
        ])
    });
    let stage = Stage::new(replies, [tool(edit), tool(FakeTool::new("read"))]);
    let outcome = stage.run();
    assert_eq!(outcome.end, looping("edit", Repetition::FailingEdit(5)));
    assert_eq!(tries.load(Ordering::SeqCst), 5);
    assert_eq!(
        told(&outcome),
        [4, 6, 8],
        "the third, fourth and fifth edit"
    );
    assert!(results(&outcome)[4].contains("This edit has failed 3 times."));
}

#[test]
fn case_h06_the_same_reads_after_each_summary_are_caught() {
    let files = ["a", "b", "c"];
    let round = |n: usize| {
        files
            .map(|file| {
                let id = format!("{file}{n}");
                reply::calls([(id.as_str(), "read", json!({ "path": file }))])
            })
            .to_vec()
    };
    // After each three reads the conversation is replaced by a summary.
    let turns = AtomicUsize::new(0);
    let hooks = ScriptedHooks::new().next(move |turn| {
        let n = turns.fetch_add(1, Ordering::SeqCst) + 1;
        let summed_up = n.is_multiple_of(3);
        NextTurn {
            messages: summed_up.then(|| vec![summary(n), Arc::clone(&turn.messages[0])]),
            ..NextTurn::default()
        }
    });
    let stage = Stage::hooked(
        (0..10).flat_map(round),
        [tool(FakeTool::new("read"))],
        hooks,
    );
    let outcome = poll_to_end(stage.start());
    assert_eq!(outcome.end, looping("read", Repetition::Rounds(5)));
    assert_eq!(told(&outcome), [6, 7, 8, 9, 10, 11, 12]);
}

fn summary(n: usize) -> Arc<Message> {
    let json = json!({"role": "compactionSummary", "summary": "so far", "tokensBefore": 1, "timestamp": n});
    Arc::new(serde_json::from_value(json).unwrap())
}

#[test]
fn runs_without_a_word_of_the_user_count_together() {
    let stage = Stage::new(
        one_each("read", vec![json!({}); 10]),
        [tool(FakeTool::new("read").terminates("x"))],
    );
    let mut outcome = stage.run();
    for expected in 2..=5 {
        let mut next = spec("", stage.tools.clone());
        next.prompt.clear();
        next.context.messages = stage.world.journal.messages();
        outcome = poll_to_end(stage.agent.resume(next).unwrap());
        assert_eq!(!told(&outcome).is_empty(), expected >= 3, "{expected}");
    }
    assert_eq!(outcome.end, looping("read", Repetition::InARow(5)));
}

#[test]
fn what_is_no_loop() {
    let different = || (0..8).map(|n| json!({ "n": n })).collect::<Vec<_>>();
    let same = || vec![json!({}); 8];
    let polls = AtomicUsize::new(0);
    let changing = FakeTool::new("t").computes(move |_| {
        let n = polls.fetch_add(1, Ordering::SeqCst) / 2;
        Ok(ToolOutput::text(format!("{n} of 9")))
    });
    let rows = [
        ("other arguments", different(), FakeTool::new("t")),
        ("a poll that changes", same(), changing),
    ];
    for (what, arguments, fake) in rows {
        let stage = Stage::new(then_text(one_each("t", arguments)), [tool(fake)]);
        let outcome = stage.run();
        assert_eq!(outcome.end, RunEnd::Completed, "{what}");
        assert!(told(&outcome).is_empty(), "{what}");
    }
    let interleaved = (0..8).map(|turn| {
        let ids = [format!("a{turn}"), format!("b{turn}")];
        let calls = ids.iter().zip(["a", "b"]);
        reply::calls(calls.map(|(id, name)| (id.as_str(), name, json!({}))))
    });
    let stage = Stage::new(
        then_text(interleaved.collect()),
        ["a", "b"].map(|name| tool(FakeTool::new(name))),
    );
    let outcome = stage.run();
    assert_eq!(
        (outcome.end.clone(), told(&outcome)),
        (RunEnd::Completed, vec![])
    );
}

#[test]
fn switched_off_nothing_is_told_and_nothing_stops() {
    let options = AgentOptions {
        loop_guard: false,
        ..AgentOptions::default()
    };
    let world = World::new(then_text(one_each("t", vec![json!({}); 8])));
    let stage = Stage::with(world, NoHooks, options, [tool(FakeTool::new("t"))]);
    let outcome = stage.run();
    assert_eq!(
        (outcome.end.clone(), told(&outcome)),
        (RunEnd::Completed, vec![])
    );
}

#[test]
fn a_message_of_the_user_that_waits_is_taken_in_instead_of_the_stop() {
    let stage = Stage::new(
        then_text(one_each("t", vec![json!({}); 6])),
        [tool(FakeTool::new("t").pause())],
    );
    let mut run = stage.start();
    loop {
        let results = stage.world.journal.messages();
        if results
            .iter()
            .filter(|m| m.as_tool_result().is_some())
            .count()
            == 4
        {
            break;
        }
        assert!(poll_once(&mut run).is_pending());
    }
    stage.agent.send(Input::Steer(user("not like this")));
    let outcome = poll_to_end(run);
    assert_eq!(outcome.end, RunEnd::Completed);
    assert_valid_history(&outcome.messages);
}

#[test]
fn an_abort_in_between_ends_the_row() {
    let world = World::new(then_text(one_each("t", vec![json!({}); 8])));
    let hangs = Arc::new(FakeTool::new("t").until_abort());
    let fine = Arc::new(FakeTool::new("t"));
    let agent = world.native();
    let go = |prompt: &str, fake: &Arc<FakeTool>| {
        let mut next: RunSpec = spec(prompt, tools([fake]));
        next.context.messages = world.journal.messages();
        let failed = |m: &Arc<Message>| m.as_assistant().is_some_and(|m| m.failed());
        if next.context.messages.last().is_some_and(failed) {
            next.context.messages.pop();
        }
        if prompt.is_empty() {
            next.prompt.clear();
            agent.resume(next).unwrap()
        } else {
            agent.start(next).unwrap()
        }
    };
    for prompt in ["go", "", "", "", "", ""] {
        let mut run = go(prompt, &hangs);
        while hangs.endings().last() != Some(&fluzo_testkit::Ending::Running) {
            assert!(poll_once(&mut run).is_pending());
        }
        agent.cancel();
        let outcome = poll_to_end(run);
        assert_eq!(
            (outcome.end.clone(), told(&outcome)),
            (RunEnd::Aborted, vec![])
        );
    }
    let outcome = poll_to_end(go("", &fine));
    assert_eq!(
        (outcome.end.clone(), told(&outcome)),
        (RunEnd::Completed, vec![])
    );
}

#[test]
fn calls_behind_the_stop_are_not_executed_and_have_their_results() {
    let alone = tool(FakeTool::new("write").sequential());
    let ids: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
    let calls = ids.iter().map(|id| (id.as_str(), "write", json!({})));
    let stage = Stage::new([reply::calls(calls)], [alone.clone()]);
    let outcome = stage.run();
    assert_eq!(outcome.end, looping("write", Repetition::InARow(5)));
    assert_eq!(alone.runs().len(), 5);
    let left_out = "Not executed: the call of \"write\" before it was only a repetition.";
    assert_eq!(results(&outcome)[5..], [left_out; 3]);
}
