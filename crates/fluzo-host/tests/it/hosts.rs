//! Sessions that take the place of another: new, opened, imported, forked, cloned, read again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fluzo_host::{AgentSession, OpenedSession, SessionFactory, SessionHost, Sinks};
use fluzo_llm::BoxFuture;
use fluzo_protocol::{Command, Endpoint, Executed, Prompt, QueueBehavior, RunReport, Submitted};
use fluzo_session::{Entry, Header, JsonlStore, Session, SessionStore};
use fluzo_stdx::ids::{CountingIds, IdSource};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::reply::{never_ending, text};
use fluzo_testkit::{Reply, Switch, World, assert_valid_history, poll_to_end};
use serde_json::{Value, json};

use crate::doubles::{FakeShell, ScriptedSessionHooks};
use crate::life::{Log, Setup, assemble};
use crate::stage::Answer;

/// Makes sessions in a folder, all in one world.
struct Factory {
    world: World,
    ids: Arc<dyn IdSource>,
    folder: PathBuf,
    hooks: Arc<ScriptedSessionHooks>,
    ready: Switch,
    fails: Mutex<bool>,
    made: Mutex<usize>,
}

impl Factory {
    fn header(&self, parent: Option<String>) -> Header {
        let mut made = self.made.lock().unwrap();
        *made += 1;
        let time = format!("2026-12-01T00:00:{:02}.000Z", *made);
        let mut header = Header::new(format!("s{made}"), time, "/w");
        header.parent_session = parent;
        header
    }
}

impl SessionFactory for Factory {
    fn create(
        &self,
        _beside: &Session,
        parent: Option<String>,
        entries: Vec<Entry>,
    ) -> Result<Arc<dyn SessionStore>, String> {
        let header = self.header(parent);
        let store = JsonlStore::create_in(&self.folder, header, entries, Arc::clone(&self.ids));
        Ok(Arc::new(store.map_err(|error| error.to_string())?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn SessionStore>, String> {
        let ids = Arc::clone(&self.ids);
        let store = if path.exists() {
            JsonlStore::open(path, ids)
        } else {
            JsonlStore::create(path, self.header(None), Vec::new(), ids)
        };
        Ok(Arc::new(store.map_err(|error| error.to_string())?))
    }

    fn import(&self, _beside: &Session, path: &Path) -> Result<PathBuf, String> {
        let to = self.folder.join("imported.jsonl");
        let copied = std::fs::copy(path, &to);
        copied.map_err(|_| format!("File not found: {}", path.display()))?;
        Ok(to)
    }

    fn list(&self, all: bool) -> Result<Value, String> {
        Ok(json!([{ "all": all }]))
    }

    fn build(&self, store: Arc<dyn SessionStore>, sinks: Sinks) -> Result<AgentSession, String> {
        if *self.fails.lock().unwrap() {
            return Err("no session".to_owned());
        }
        let opened = OpenedSession::new(store, Arc::clone(&self.ids));
        let shell = FakeShell {
            ready: self.ready.clone(),
        };
        let setup = Setup {
            hooks: Arc::clone(&self.hooks) as _,
            shell: Arc::new(shell),
            ..Setup::new([])
        };
        let opened = opened.map_err(|error| error.to_string())?;
        Ok(assemble(&self.world, opened, setup, sinks))
    }
}

/// A host with what goes on in it.
struct Hosted {
    host: Arc<SessionHost>,
    factory: Arc<Factory>,
    log: Arc<Log>,
    run: Option<BoxFuture<'static, RunReport>>,
    _folder: tempfile::TempDir,
}

type Working = BoxFuture<'static, Result<Executed, String>>;

impl Hosted {
    fn begin(replies: impl IntoIterator<Item = Reply>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let factory = Arc::new(Factory {
            world: World::new(replies),
            ids: Arc::new(CountingIds::default()),
            folder: folder.path().to_owned(),
            hooks: Arc::default(),
            ready: Switch::new(),
            fails: Mutex::default(),
            made: Mutex::default(),
        });
        let store = factory.open(&folder.path().join("first.jsonl")).unwrap();
        let host = SessionHost::new(Arc::clone(&factory) as _, store).unwrap();
        let log = Arc::new(Log::default());
        host.subscribe(Arc::clone(&log) as _);
        Self {
            host: Arc::new(host),
            factory,
            log,
            run: None,
            _folder: folder,
        }
    }

    /// Begins a prompt.
    fn prompt(&mut self, text: &str) {
        let prompt = Prompt {
            text: text.into(),
            ..Prompt::default()
        };
        let Ok(Submitted::Run(mut run)) = poll_to_end(self.host.prompt(prompt)) else {
            panic!("no run")
        };
        if poll_until_stalled(&mut run).is_pending() {
            self.run = Some(run);
        }
    }

    fn start(&self, command: Command) -> Working {
        let host = Arc::clone(&self.host);
        let mut work: Working = Box::pin(async move { host.execute(command).await });
        if let std::task::Poll::Ready(done) = poll_until_stalled(&mut work) {
            return Box::pin(std::future::ready(done));
        }
        work
    }

    /// Carries out a command; what goes on in the session is polled as well.
    fn execute(&mut self, command: Command) -> Answer {
        let mut work = self.start(command);
        for _ in 0..4 {
            if let std::task::Poll::Ready(done) = poll_until_stalled(&mut work) {
                let executed = done?;
                return match executed.data {
                    None => Ok(Value::Null),
                    Some(_) => executed.value(),
                };
            }
            if let Some(mut run) = self.run.take()
                && poll_until_stalled(&mut run).is_pending()
            {
                self.run = Some(run);
            }
        }
        panic!("the command hangs")
    }

    fn json(&mut self, json: Value) -> Answer {
        self.execute(serde_json::from_value(json).unwrap())
    }

    fn path(&self) -> PathBuf {
        self.host.current().session().path().unwrap()
    }

    /// Roles in the session of this file, as another process would read them.
    fn roles(&self, path: &Path) -> Vec<String> {
        let store = JsonlStore::open(path, Arc::clone(&self.factory.ids)).unwrap();
        let session = Session::new(Arc::new(store), Arc::clone(&self.factory.ids));
        let messages = session.context().unwrap().messages;
        assert_valid_history(&messages);
        messages.iter().map(|m| m.role().to_owned()).collect()
    }

    /// The session at hand answers.
    fn check(&mut self) {
        self.factory.world.model.push(text(["goes on"]));
        self.prompt("next");
        assert!(self.run.is_none());
        let path = self.path();
        assert_eq!(self.roles(&path).last().unwrap(), "assistant");
        for what in ["agent", "turn", "message"] {
            let names = self.log.names();
            let of = |kind: &str| {
                names
                    .iter()
                    .filter(|n| n.starts_with(&format!("{what}_{kind}")))
                    .count()
            };
            assert_eq!(of("start"), of("end"), "{what}: {names:?}");
        }
    }
}

const SWITCHES: [&str; 5] = [
    "new_session",
    "switch_session",
    "import_session",
    "fork",
    "clone",
];

/// A command that leads to another session.
fn switch(name: &str, hosted: &mut Hosted) -> Value {
    let folder = hosted.factory.folder.clone();
    let data = hosted.json(json!({"type": "get_fork_messages"})).unwrap();
    let first = data["messages"][0]["entryId"].clone();
    json!({
        "type": name, "entryId": first, "sessionPath": folder.join("other.jsonl"), "path": folder.join("first.jsonl"),
    })
}

#[test]
fn what_goes_on_is_ended_and_stored_before_another_session_takes_its_place() {
    for name in SWITCHES {
        let mut hosted = Hosted::begin([text(["one"]), never_ending(["two"])]);
        hosted.prompt("first");
        let old = hosted.path();
        let switch = switch(name, &mut hosted);
        hosted.prompt("second");
        let mut bash = hosted.start(Command::Bash {
            command: "ls".into(),
            exclude_from_context: false,
        });
        assert!(hosted.run.is_some() && poll_until_stalled(&mut bash).is_pending());
        let answer = hosted.json(switch).unwrap();
        assert_eq!(answer["cancelled"], false, "{name}");
        assert_eq!(answer.get("text").is_some(), name == "fork", "{name}");
        assert!(hosted.run.is_none(), "{name}: the run goes on");
        let shell = poll_to_end(bash).unwrap().value().unwrap();
        assert_eq!(shell["cancelled"], true, "{name}");
        assert_ne!(hosted.path(), old, "{name}");
        let roles = hosted.roles(&old);
        assert_eq!(
            roles,
            ["user", "assistant", "user", "assistant", "bashExecution"],
            "{name}"
        );
        let hook = match name {
            "new_session" => "before_switch new",
            "fork" => "before_switch fork",
            "clone" => "before_switch clone",
            _ => "before_switch file",
        };
        let called = hosted.factory.hooks.called();
        assert!(called.contains(&hook.to_owned()), "{name}: {called:?}");
        assert_eq!(called.last().unwrap(), "shutdown", "{name}");
        hosted.check();
    }
}

#[test]
fn a_move_that_is_being_summarised_is_given_up_for_another_session() {
    let mut hosted = Hosted::begin([text(["one"]), text(["two"]), never_ending(["BRANCH"])]);
    hosted.prompt("first");
    hosted.prompt("second");
    let old = hosted.path();
    let data = hosted.json(json!({"type": "get_fork_messages"})).unwrap();
    let navigate = json!({
        "type": "navigate_tree", "entryId": data["messages"][0]["entryId"], "summarize": true,
    });
    let moving = hosted.start(serde_json::from_value(navigate).unwrap());
    let mut switching = hosted.start(Command::NewSession {
        parent_session: None,
    });
    let moved = poll_to_end(moving).unwrap().value().unwrap();
    assert_eq!(moved, json!({"cancelled": true, "aborted": true}));
    assert!(poll_until_stalled(&mut switching).is_ready());
    assert_eq!(hosted.roles(&old).len(), 4);
    hosted.check();
}

#[test]
fn a_hook_may_keep_the_session_and_all_that_goes_on() {
    for name in SWITCHES {
        let answer = Switch::new();
        let mut hosted = Hosted::begin([text(["one"]), text(["two"]).wait(&answer)]);
        hosted.prompt("first");
        let old = hosted.path();
        let switch = switch(name, &mut hosted);
        hosted.prompt("second");
        *hosted.factory.hooks.keeps_session.lock().unwrap() = true;
        let kept = hosted.json(switch).unwrap();
        assert_eq!(kept["cancelled"], true, "{name}");
        assert_eq!(hosted.path(), old);
        answer.flip();
        poll_to_end(hosted.run.take().unwrap());
        assert_eq!(hosted.roles(&old).len(), 4, "{name}");
        hosted.check();
    }
}

#[test]
fn when_the_other_session_cannot_be_made_this_one_stays() {
    for name in SWITCHES {
        let mut hosted = Hosted::begin([text(["one"])]);
        hosted.prompt("first");
        let old = hosted.path();
        let switch = switch(name, &mut hosted);
        *hosted.factory.fails.lock().unwrap() = true;
        assert_eq!(hosted.json(switch), Err("no session".to_owned()), "{name}");
        assert_eq!(hosted.path(), old, "{name}");
        hosted.check();
        assert_eq!(hosted.roles(&old).len(), 4, "{name}");
    }
}

#[test]
fn a_prompt_that_comes_late_finds_the_session_ended() {
    let mut hosted = Hosted::begin([text(["one"])]);
    hosted.prompt("first");
    let old = hosted.host.current();
    hosted.json(json!({"type": "new_session"})).unwrap();
    let late = Prompt {
        text: "late".into(),
        queue: Some(QueueBehavior::Steer),
        ..Prompt::default()
    };
    let refused = poll_to_end(old.prompt(late)).err();
    assert_eq!(refused.as_deref(), Some("the session is ending"));
    hosted.check();
}

#[test]
fn a_new_session_names_its_parent_and_a_fork_its_file() {
    let mut hosted = Hosted::begin([text(["one"]), text(["two"])]);
    hosted.prompt("first");
    hosted.prompt("second");
    let old = hosted.path();
    let data = hosted.json(json!({"type": "get_fork_messages"})).unwrap();
    let (first, second) = (
        &data["messages"][0]["entryId"],
        &data["messages"][1]["entryId"],
    );
    let forked = hosted
        .json(json!({"type": "fork", "entryId": second}))
        .unwrap();
    assert_eq!(forked, json!({"text": "second", "cancelled": false}));
    assert_eq!(hosted.host.header()["parentSession"], json!(old));
    hosted.check();
    let path = hosted.path();
    assert_eq!(
        hosted.roles(&path),
        ["user", "assistant", "user", "assistant"]
    );
    assert_eq!(hosted.roles(&old).len(), 4, "nothing is lost");
    // Before the first message there is nothing to keep.
    let forked = hosted
        .json(json!({"type": "fork", "entryId": first}))
        .unwrap();
    assert_eq!(forked["text"], "first");
    hosted.check();
    let path = hosted.path();
    assert_eq!(hosted.roles(&path), ["user", "assistant"]);
    hosted
        .json(json!({"type": "new_session", "parentSession": "P"}))
        .unwrap();
    assert_eq!(hosted.host.header()["parentSession"], "P");
    let listed = hosted
        .json(json!({"type": "list_sessions", "all": true}))
        .unwrap();
    assert_eq!(listed, json!({"sessions": [{"all": true}]}));
}

#[test]
fn what_cannot_be_forked_cloned_or_imported_is_refused() {
    let mut hosted = Hosted::begin([text(["one"])]);
    let refused = hosted.json(json!({"type": "clone"}));
    assert_eq!(
        refused,
        Err("Cannot clone session: no current entry selected".to_owned())
    );
    hosted.prompt("first");
    let entries = hosted.json(json!({"type": "get_entries"})).unwrap();
    let last = entries["leafId"].clone();
    for entry in [json!("nope"), last] {
        let refused = hosted.json(json!({"type": "fork", "entryId": entry}));
        assert_eq!(refused, Err("Invalid entry ID for forking".to_owned()));
    }
    let refused = hosted.json(json!({"type": "import_session", "path": "/no/file"}));
    assert_eq!(refused, Err("File not found: /no/file".to_owned()));
    hosted.check();
}

#[test]
fn a_session_is_left_and_opened_again() {
    let mut hosted = Hosted::begin([text(["one"]), text(["two"])]);
    hosted.prompt("first");
    let old = hosted.path();
    hosted.json(json!({"type": "new_session"})).unwrap();
    hosted.prompt("other");
    for path in [&old, &old] {
        // The second time it is the session at hand itself.
        hosted
            .json(json!({"type": "switch_session", "sessionPath": path}))
            .unwrap();
        assert_eq!(hosted.path(), old);
        assert!(hosted.host.take_notices().is_empty());
        hosted.check();
        assert_eq!(hosted.path(), old, "no other file is needed");
    }
    assert_eq!(hosted.roles(&old).len(), 6);
}

#[test]
fn queues_of_a_session_that_is_left_are_emptied_before_all_eyes() {
    let mut hosted = Hosted::begin([]);
    hosted
        .json(json!({"type": "steer", "message": "S"}))
        .unwrap();
    hosted.json(json!({"type": "new_session"})).unwrap();
    let updates = hosted.log.count("queue_update");
    assert_eq!(updates, 2);
    assert_eq!(hosted.host.snapshot().pending_message_count, 0);
    hosted.check();
}

#[test]
fn reloading_keeps_the_session_its_leaf_and_its_queues() {
    let mut hosted = Hosted::begin([text(["one"]), text(["two"]), text(["three"])]);
    hosted.prompt("first");
    hosted.prompt("second");
    let old = hosted.path();
    let data = hosted.json(json!({"type": "get_fork_messages"})).unwrap();
    let (first, second) = (
        &data["messages"][0]["entryId"],
        &data["messages"][1]["entryId"],
    );
    // Before the second message, and before the first, where no entry is current.
    for (entry, expected) in [(second, 2), (first, 0)] {
        hosted
            .json(json!({"type": "navigate_tree", "entryId": entry}))
            .unwrap();
        hosted.json(json!({"type": "reload"})).unwrap();
        let state = hosted.json(json!({"type": "get_state"})).unwrap();
        assert_eq!(state["messageCount"], expected);
    }
    hosted
        .json(json!({"type": "steer", "message": "S"}))
        .unwrap();
    hosted
        .json(json!({"type": "follow_up", "message": "F"}))
        .unwrap();
    hosted.json(json!({"type": "reload"})).unwrap();
    let queued = hosted.json(json!({"type": "clear_queue"})).unwrap();
    assert_eq!(queued, json!({"steering": ["S"], "followUp": ["F"]}));
    assert_eq!(hosted.path(), old);
    hosted.prompt("instead");
    hosted.check();
    assert_eq!(hosted.roles(&old).len(), 4, "a branch of its own");
}

#[test]
fn nothing_is_reloaded_while_something_goes_on() {
    let answer = Switch::new();
    let mut hosted = Hosted::begin([text(["one"]).wait(&answer)]);
    hosted.prompt("first");
    let refused = hosted.json(json!({"type": "reload"}));
    let expected = "Wait for the current response to finish before reloading.";
    assert_eq!(refused, Err(expected.to_owned()));
    answer.flip();
    poll_to_end(hosted.run.take().unwrap());
    let bash = hosted.start(Command::Bash {
        command: "ls".into(),
        exclude_from_context: false,
    });
    let refused = hosted.json(json!({"type": "reload"}));
    let expected = "Wait for the command to finish before reloading.";
    assert_eq!(refused, Err(expected.to_owned()));
    hosted.factory.ready.flip();
    poll_to_end(bash).unwrap();
    hosted.json(json!({"type": "reload"})).unwrap();
    hosted.check();
}

/// A command that ends after its session was left is kept there.
#[test]
fn a_command_of_the_users_belongs_to_the_session_that_it_began_in() {
    let mut hosted = Hosted::begin([text(["one"])]);
    hosted.prompt("first");
    let old = hosted.path();
    let bash = hosted.start(Command::Bash {
        command: "ls".into(),
        exclude_from_context: false,
    });
    hosted.json(json!({"type": "new_session"})).unwrap();
    poll_to_end(bash).unwrap();
    assert_eq!(hosted.roles(&old), ["user", "assistant", "bashExecution"]);
    let state = hosted.json(json!({"type": "get_state"})).unwrap();
    assert_eq!(state["messageCount"], 0);
    hosted.check();
}
