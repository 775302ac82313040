//! Points of the compatibility checklist that a session shows, under both drives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fluzo_agent::{Agent, AgentOptions, Effects, Input, NativeAgent, NoHooks, RunSpec, StartError};
use fluzo_llm::{
    BoxFuture, CredentialError, Credentials, Model, ModelMessage, ModelRequest, Provider,
    RequestAuth, Secret,
};
use fluzo_protocol::Command;
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::model::{Dialects, ProviderModel};
use fluzo_testkit::reply::{calls, text};
use fluzo_testkit::{
    FakeTool, ScriptedProvider, World, context, poll_to_end, polling::poll_until_stalled, tools,
    user,
};
use serde_json::json;

use crate::life::{Kind, Place, Setup};
use crate::races::{TWO_MODELS, compact, entry, long};
use crate::stage::{Stage, reporting};

fn under_both(check: impl Fn(Option<ManualDrive>)) {
    check(None);
    check(Some(ManualDrive::new()));
}

/// Polls to the end, letting everything happen.
fn play<F: Future + Unpin>(mut future: F, drive: Option<&ManualDrive>) -> F::Output {
    loop {
        if let std::task::Poll::Ready(output) = poll_until_stalled(&mut future) {
            return output;
        }
        let drive = drive.expect("nothing parks by itself");
        let parked = drive.parked();
        assert!(drive.release(parked.first().expect("it hangs")));
    }
}

/// Texts of the messages of a request, by role.
fn said(request: &ModelRequest) -> Vec<String> {
    let text = |message| match message {
        ModelMessage::User(user) => format!("user: {}", user.content.text()),
        ModelMessage::Assistant(assistant) => {
            let text = fluzo_llm::content::joined_text(&assistant.content);
            format!("assistant: {text}")
        }
        ModelMessage::ToolResult(result) => format!("result: {}", result.tool_call_id),
    };
    request.transcript.iter().map(text).collect()
}

fn last_request(stage: &Stage) -> ModelRequest {
    stage.life.world.model.requests().pop().unwrap()
}

#[test]
fn checklist_06_going_on_from_a_response_needs_something_queued() {
    under_both(|drive| {
        let world = World::new([text(["ok"]), text(["more"])]);
        let layers = Layers {
            drive: drive.clone(),
            ..Layers::default()
        };
        let effects = compose(world.effects(), &layers);
        let agent = NativeAgent::new(
            effects,
            world.gate(),
            Arc::new(NoHooks),
            AgentOptions::default(),
        );
        let spec = |messages| {
            let mut context = context(tools([]));
            context.messages = messages;
            RunSpec {
                prompt: Vec::new(),
                context,
            }
        };
        let first = RunSpec {
            prompt: vec![user("hi")],
            ..spec(Vec::new())
        };
        let mut messages = play(agent.start(first).unwrap(), drive.as_ref()).messages;
        let refused = agent.resume(spec(messages.clone())).err();
        assert_eq!(refused, Some(StartError::ContinueFromAssistant));
        agent.send(Input::FollowUp(user("and?")));
        let run = agent.resume(spec(messages.clone())).unwrap();
        messages.extend(play(run, drive.as_ref()).messages);
        assert_eq!(messages.len(), 4);
    });
}

#[test]
fn checklist_07_a_branch_is_its_path_and_the_summaries_on_it() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let replies = ["A1", "A2", "BRANCH", "A3"].map(|reply| text([reply]));
        let setup = Setup {
            drive,
            ..Setup::new(replies)
        };
        let mut stage = Stage::begin(&place, setup);
        for prompt in ["first", "second"] {
            stage.prompt(prompt);
            stage.run_out();
        }
        let entry_id = entry(&mut stage, "assistant");
        stage.start(Command::NavigateTree {
            entry_id,
            summarize: true,
            custom_instructions: None,
            replace_instructions: false,
            label: None,
        });
        stage.run_out();
        stage.prompt("third");
        stage.run_out();
        let sent = said(&last_request(&stage));
        assert_eq!(sent.len(), 4, "{sent:?}");
        assert_eq!(sent[..2], ["user: first", "assistant: A1"]);
        assert!(sent[2].contains("<summary>") && sent[2].contains("BRANCH"));
        assert_eq!(sent[3], "user: third");
        stage.check(&place);
    });
}

#[test]
fn checklist_08_after_a_compaction_the_summary_comes_first_and_then_what_was_kept() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let setup = Setup {
            drive,
            ..Setup::new([])
        };
        let replies = [text(["SUMMARY"]), text(["next"])];
        let mut stage = long(&place, replies, setup);
        stage.start(compact());
        stage.run_out();
        stage.prompt("second");
        stage.run_out();
        let sent = said(&last_request(&stage));
        assert_eq!(sent.len(), 3, "{sent:?}");
        let begins = "user: The conversation history before this point was compacted into the following summary:\n\n<summary>\n";
        assert!(
            sent[0].starts_with(begins) && sent[0].ends_with("SUMMARY\n</summary>"),
            "{}",
            sent[0]
        );
        assert!(sent[1].starts_with("assistant: word word"));
        assert_eq!(sent[2], "user: second");
        let roles = Stage::roles(&place);
        assert_eq!(roles[..2], ["compactionSummary", "assistant"]);
        stage.check(&place);
    });
}

#[test]
fn checklist_09_what_was_run_with_two_exclamation_marks_is_not_sent() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let setup = Setup {
            drive,
            ..Setup::new([text(["ok"])])
        };
        let mut stage = Stage::begin(&place, setup);
        for (command, exclude_from_context) in [("shown", false), ("hidden", true)] {
            let bash = Command::Bash {
                command: command.into(),
                exclude_from_context,
            };
            stage.execute(bash).unwrap();
        }
        assert_eq!(stage.life.session.snapshot().message_count, 2, "at once");
        stage.prompt("go");
        stage.run_out();
        let sent = said(&last_request(&stage));
        let expected = ["user: Ran `shown`\n```\nout\n```", "user: go"];
        assert_eq!(sent, expected);
        let shown = stage.execute(Command::GetMessages).unwrap();
        assert_eq!(shown["messages"][1]["excludeFromContext"], true);
        stage.check(&place);
    });
}

#[test]
fn checklist_11_the_last_usage_and_estimates_of_what_followed_count() {
    // The limit is 750 of 1000: 700 as reported, and 100 for the command where there is one.
    for (with_command, compactions) in [(false, 0), (true, 1)] {
        under_both(|drive| {
            let place = Place::new(Kind::Jsonl);
            let words = "word ".repeat(100);
            let model = Model {
                context_window: 1000,
                ..fluzo_testkit::model()
            };
            let setup = Setup {
                drive,
                model,
                ..Setup::new([reporting(&words, 700)])
            };
            let mut stage = Stage::begin(&place, setup);
            stage.prompt("first");
            stage.run_out();
            assert_eq!(stage.life.log.count("compaction_start"), 0);
            if with_command {
                let bash = Command::Bash {
                    command: "x".repeat(400),
                    exclude_from_context: false,
                };
                stage.execute(bash).unwrap();
                stage.life.world.model.push(text(["SUMMARY"]));
            }
            stage.life.world.time.advance(Duration::from_secs(1));
            stage.life.world.model.push(text(["ok"]));
            stage.prompt("second");
            stage.run_out();
            assert_eq!(stage.life.log.count("compaction_start"), compactions);
            stage.check(&place);
        });
    }
}

#[test]
fn checklist_13_changes_of_model_and_thinking_are_entries_and_count_from_the_next_request() {
    under_both(|drive| {
        let place = Place::new(Kind::Jsonl);
        let setup = Setup {
            drive,
            models_json: Some(TWO_MODELS),
            ..Setup::new([text(["a"]), text(["b"])])
        };
        let mut stage = Stage::begin(&place, setup);
        stage.prompt("first");
        stage.run_out();
        let set = |json| serde_json::from_value(json).unwrap();
        let one = json!({"type": "set_model", "provider": "fake", "modelId": "one"});
        stage.execute(set(one)).unwrap();
        let high = json!({"type": "set_thinking_level", "level": "high"});
        stage.execute(set(high.clone())).unwrap();
        // What does not change is no entry.
        stage.execute(set(high)).unwrap();
        stage.prompt("second");
        stage.run_out();
        let requests = stage.life.world.model.requests();
        let asked = |r: &ModelRequest| (r.model.id.clone(), r.options.thinking.as_str());
        let asked: Vec<_> = requests.iter().map(asked).collect();
        assert_eq!(asked, [("m1".into(), "off"), ("one".into(), "high")]);
        let expected = [
            "model_change",
            "thinking_level_change",
            "user",
            "assistant",
            "model_change",
            "thinking_level_change",
            "user",
            "assistant",
        ];
        assert_eq!(place.kinds(), expected);
        let context = place.stored().context().unwrap();
        assert_eq!(context.model, Some(("fake".into(), "one".into())));
        assert_eq!(context.thinking_level, "high");
        stage.check(&place);
    });
}

/// After a move to a branch that says otherwise, the choices that count are stored with the
/// next prompt, so that the session opens again as it was left.
#[test]
fn choices_are_stored_on_the_branch_that_a_prompt_goes_on_from() {
    let place = Place::new(Kind::Jsonl);
    let setup = Setup {
        models_json: Some(TWO_MODELS),
        ..Setup::new([text(["a"]), text(["b"])])
    };
    let mut stage = Stage::begin(&place, setup);
    stage.prompt("first");
    stage.run_out();
    let set = |json| serde_json::from_value(json).unwrap();
    let target = entry(&mut stage, "assistant");
    let one = json!({"type": "set_model", "provider": "fake", "modelId": "one"});
    stage.execute(set(one)).unwrap();
    let high = json!({"type": "set_thinking_level", "level": "high"});
    stage.execute(set(high)).unwrap();
    let moved = json!({"type": "navigate_tree", "entryId": target});
    stage.execute(set(moved)).unwrap();
    let before = place.kinds().len();
    stage.prompt("second");
    stage.run_out();
    let expected = ["model_change", "thinking_level_change", "user", "assistant"];
    assert_eq!(place.kinds()[before..], expected);
    stage.check(&place);
}

#[derive(Default)]
struct CountedKeys(AtomicUsize);

impl Credentials for CountedKeys {
    fn resolve<'a>(
        &'a self,
        _model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        let number = self.0.fetch_add(1, Ordering::SeqCst);
        let auth = RequestAuth {
            api_key: Some(Secret::new(format!("key {number}"))),
            ..RequestAuth::default()
        };
        Box::pin(std::future::ready(Ok(auth)))
    }
}

struct One(Arc<ScriptedProvider>);

impl Dialects for One {
    fn provider(&self, _api: &str) -> Result<Arc<dyn Provider>, String> {
        Ok(Arc::clone(&self.0) as _)
    }
}

#[test]
fn checklist_14_a_key_is_looked_up_before_every_request_of_a_run() {
    under_both(|drive| {
        let tool = Arc::new(FakeTool::new("one"));
        let replies = [calls([("c1", "one", json!({}))]), text(["ok"])];
        let provider = Arc::new(ScriptedProvider::new(replies));
        let keys = Arc::new(CountedKeys::default());
        let world = World::new([]);
        let dialects = Arc::new(One(Arc::clone(&provider)));
        let model = ProviderModel::new(dialects, Arc::clone(&keys) as _, Arc::default());
        let base = Effects {
            model: Arc::new(model),
            ..world.effects()
        };
        let layers = Layers {
            drive: drive.clone(),
            ..Layers::default()
        };
        let effects = compose(base, &layers);
        let agent = NativeAgent::new(
            effects,
            world.gate(),
            Arc::new(NoHooks),
            AgentOptions::default(),
        );
        let spec = RunSpec {
            prompt: vec![user("go")],
            context: context(tools([&tool])),
        };
        play(agent.start(spec).unwrap(), drive.as_ref());
        let requests = provider.script().requests();
        let key = |r: &ModelRequest| r.auth.api_key.as_ref().map(|key| key.reveal().to_owned());
        let used: Vec<_> = requests.iter().map(key).collect();
        assert_eq!(used, [Some("key 0".into()), Some("key 1".into())]);
        poll_to_end(agent.idle());
    });
}
