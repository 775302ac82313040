//! Runs the agent on the copy, put together as `fluzo pi` puts it together, with the throw-away folders in place of
//! the user's.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::Poll;

use fluzo_agent::{BeforeToolCall, Hooks, ToolCallInfo};
use fluzo_credentials::KeyRing;
use fluzo_exec::LocalFileSystem;
use fluzo_host::{AgentSession, ModelRegistry, OpenedSession, Sinks, SystemPrompt, system_prompt};
use fluzo_llm::{BoxFuture, Message, StopReason, ThinkingLevel};
use fluzo_protocol::{Endpoint, Event, EventSink, Prompt, RunReport, Submitted};
use fluzo_resources::{Discover, Resources, Sources};
use fluzo_session::{Header, JsonlStore};
use fluzo_stdx::ids::{IdSource, RandomIds};
use fluzo_stdx::time::iso_utc;
use serde_json::json;

use super::fixture;
use super::programs::Programs;
use super::show::Show;
use super::spec::TestSpec;
use super::timeline::{Exceeded, Timeline};
use super::tree::Tree;
use super::workspace::Workspace;
use crate::agent_folder::AgentFolder;
use crate::network;
use crate::surroundings::{Surroundings, local_date, now_ms};
use crate::wiring::{self, Plan};

const PROVIDER: &str = "demo";

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// How it ended.
    pub end: End,
    /// What happened in it.
    pub timeline: Timeline,
    /// Commands that were refused.
    pub refused: Vec<String>,
    /// Processes that finished commands left running.
    pub background: Vec<u32>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The agent was done.
    Completed,
    /// The provider failed, with its words.
    Provider(String),
    /// It could not go on, or not even start.
    Stopped(String),
    /// A budget was used up.
    Budget(Exceeded),
    /// It was aborted, by none of these.
    Aborted,
}

/// What a run is made from.
pub(crate) struct Setup<'a> {
    /// The specification.
    pub spec: &'a TestSpec,
    /// The folders.
    pub workspace: &'a Workspace,
    /// The programs.
    pub programs: &'a Programs,
    /// Where the provider is.
    pub base_url: &'a str,
    /// The model to ask for.
    pub model: &'a str,
    /// The environment of the process, of which commands get nothing.
    pub inherited: &'a [(OsString, OsString)],
}

/// Runs the agent to its end and calls `show` with what there is to see. Dropping the future ends the run.
pub(crate) async fn run(setup: &Setup<'_>, show: &mut dyn FnMut(&str)) -> Outcome {
    let refusals = Arc::new(Refusals {
        words: setup.spec.permissions.refused_commands.clone(),
        refused: Mutex::default(),
    });
    let session = match session(setup, &refusals) {
        Ok(session) => Arc::new(session),
        Err(problem) => return Outcome::stopped(problem),
    };
    let shown = Arc::new(Show::default());
    let watch = Arc::new(Watch::new(setup));
    let endpoint: Arc<dyn Endpoint> = Arc::clone(&session) as _;
    // Set once, before anything runs.
    let _ = watch.endpoint.set(Arc::downgrade(&endpoint));
    session.subscribe(Arc::clone(&watch) as _);
    session.subscribe(Arc::clone(&shown) as _);
    let prompt = Prompt {
        text: setup.spec.prompt.clone(),
        ..Prompt::default()
    };
    let work = match session.prompt(prompt).await {
        Ok(Submitted::Run(work)) => work,
        Ok(Submitted::Queued | Submitted::Handled) => {
            return Outcome::stopped("the agent is busy".to_owned());
        }
        Err(problem) => return Outcome::stopped(problem),
    };
    let ended = within(setup, work, &session, &shown, show).await;
    let timeline = watch.taken();
    let end = match (timeline.exceeded, ended) {
        (Some(budget), _) => End::Budget(budget),
        (None, Ended::Report(report)) => judge(&report),
        (None, Ended::Time) => End::Budget(Exceeded::Seconds),
    };
    Outcome {
        end,
        timeline,
        refused: refusals.taken(),
        background: session.snapshot().background_processes,
    }
}

enum Ended {
    Report(RunReport),
    Time,
}

/// Polls the run and shows what each poll brought. When time is up it aborts the run and waits for it.
async fn within(
    setup: &Setup<'_>,
    mut work: BoxFuture<'static, RunReport>,
    session: &AgentSession,
    shown: &Show,
    show: &mut dyn FnMut(&str),
) -> Ended {
    let mut work = poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        let text = shown.take();
        if !text.is_empty() {
            show(&text);
        }
        match polled {
            Poll::Ready(report) => Poll::Ready(report),
            Poll::Pending => Poll::Pending,
        }
    });
    let limited = tokio::time::timeout(setup.spec.budgets.time(), &mut work);
    if let Ok(report) = limited.await {
        return Ended::Report(report);
    }
    session.abort();
    work.await;
    Ended::Time
}

fn judge(report: &RunReport) -> End {
    if let Some(why) = &report.halted {
        return End::Stopped(why.clone());
    }
    let Some(last) = report.last.as_deref().and_then(Message::as_assistant) else {
        return End::Stopped("there was no response".to_owned());
    };
    match &last.stop_reason {
        StopReason::Error => End::Provider(last.error_message.clone().unwrap_or_default()),
        StopReason::Aborted => End::Aborted,
        _ => End::Completed,
    }
}

impl Outcome {
    fn stopped(problem: String) -> Self {
        Self {
            end: End::Stopped(problem),
            timeline: Timeline::default(),
            refused: Vec::new(),
            background: Vec::new(),
        }
    }
}

fn session(setup: &Setup<'_>, hooks: &Arc<Refusals>) -> Result<AgentSession, String> {
    configure(setup).map_err(|error| format!("the agent folder could not be written: {error}"))?;
    let project = setup.workspace.project();
    let surroundings = surroundings(setup, &project);
    let folder = AgentFolder::read(&surroundings, &project);
    let registry = ModelRegistry::new(folder.models_json.as_deref());
    let problems: Vec<String> = folder
        .warnings
        .iter()
        .cloned()
        .chain(
            registry
                .problems()
                .iter()
                .map(|problem| problem.text.clone()),
        )
        .collect();
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    let model = registry
        .find(PROVIDER, setup.model)
        .ok_or_else(|| format!("the model `{}` is not configured", setup.model))?;
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let now = now_ms();
    let cwd = project.to_string_lossy().into_owned();
    let header = Header::new(ids.session_id(now), iso_utc(now), cwd.clone());
    let (sessions, _) = folder.sessions(&surroundings, &project);
    let store = JsonlStore::create_in(&sessions, header, Vec::new(), Arc::clone(&ids));
    let store = store.map_err(|error| error.to_string())?;
    let keys = KeyRing::new(Arc::new(|_| None), registry.keys(), registry.headers());
    let plan = Plan {
        surroundings: &surroundings,
        settings: &folder.settings,
        agent_folder: &folder.path,
        workspace: &project,
        opened: OpenedSession::new(Arc::new(store), ids).map_err(|error| error.to_string())?,
        http: network::client(&surroundings, &folder.settings),
        keys,
        models: Arc::new(registry),
        usable: BTreeSet::from([PROVIDER.to_owned()]),
        scope: Default::default(),
        summary_model: None,
        model,
        on_model: Arc::new(|_| ()),
        thinking: ThinkingLevel::Off,
        preferred_thinking: ThinkingLevel::Off,
        all_tools: &setup.spec.permissions.tools,
        tools: &setup.spec.permissions.tools,
        variables: variables(setup),
        forms: Arc::default(),
        hooks: Arc::clone(hooks) as _,
        resources: Arc::new(Resources::load(&no_resources(&project))),
        sinks: Sinks::default(),
    };
    let date = local_date();
    wiring::session(
        plan,
        Arc::new(move |tools| {
            let parts = SystemPrompt {
                date: &date,
                cwd: &cwd,
                ..SystemPrompt::default()
            };
            system_prompt(&parts, tools)
        }),
    )
}

/// The demo is the same whatever instructions and skills its user has.
fn no_resources(project: &Path) -> Sources {
    let files = Arc::new(LocalFileSystem);
    let mut sources = Sources::new(files, project, None, project);
    sources.discover = Discover {
        context_files: false,
        skills: false,
        prompts: false,
        themes: false,
    };
    sources
}

/// Writes what a user would write: the provider, and settings.
fn configure(setup: &Setup<'_>) -> io::Result<()> {
    let models = json!({"providers": {PROVIDER: {
        "baseUrl": setup.base_url,
        "api": "openai-completions",
        "apiKey": "demo-key",
        "models": [{"id": setup.model}],
    }}});
    // A further attempt would answer another step of the script.
    let settings = json!({
        "retry": {"enabled": false},
        "shellCommandPrefix": forget(setup),
    });
    let files = [
        ("models.json", models.to_string()),
        ("settings.json", settings.to_string()),
    ];
    let files = files.iter().map(|(path, text)| (*path, text.as_bytes()));
    fixture::write_files(&setup.workspace.agent(), files)
}

/// A shell command that removes every inherited variable that is not one of ours.
fn forget(setup: &Setup<'_>) -> String {
    let ours = variables(setup);
    let is_name = |name: &&str| {
        let ok = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.chars().all(ok) && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    let names: Vec<&str> = setup
        .inherited
        .iter()
        .filter(|(name, _)| !ours.iter().any(|(known, _)| known == name))
        .filter_map(|(name, _)| name.to_str())
        .filter(is_name)
        .collect();
    // Some names are read-only in bash; those stay.
    format!("unset {} 2>/dev/null || true", names.join(" "))
}

fn variables(setup: &Setup<'_>) -> Vec<(OsString, OsString)> {
    let mut variables = setup.programs.environment().to_vec();
    variables.push(("CARGO_TARGET_DIR".into(), setup.workspace.target().into()));
    // Files that a shell would read before the first command.
    variables.extend(["BASH_ENV", "ENV"].map(|name| (name.into(), OsString::new())));
    variables
}

/// What the session sees in place of the real surroundings.
fn surroundings(setup: &Setup<'_>, project: &Path) -> Surroundings {
    let mut raw_environment = variables(setup);
    raw_environment.push(("PI_CODING_AGENT_DIR".into(), setup.workspace.agent().into()));
    let text = |(name, value): &(OsString, OsString)| {
        Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
    };
    let environment: BTreeMap<String, String> = raw_environment.iter().filter_map(text).collect();
    Surroundings {
        program: "fluzo".to_owned(),
        arguments: Vec::new(),
        environment,
        raw_environment,
        cwd: Ok(project.to_owned()),
        home: Some(setup.workspace.home()),
        stdin_is_terminal: false,
    }
}

/// Keeps the timeline, and aborts the run when a budget is used up.
struct Watch {
    timeline: Mutex<Timeline>,
    spec: TestSpec,
    project: std::path::PathBuf,
    before: Tree,
    endpoint: OnceLock<Weak<dyn Endpoint>>,
}

impl Watch {
    fn new(setup: &Setup<'_>) -> Self {
        Self {
            timeline: Mutex::default(),
            spec: setup.spec.clone(),
            project: setup.workspace.project(),
            before: fixture::tree(),
            endpoint: OnceLock::new(),
        }
    }

    fn taken(&self) -> Timeline {
        std::mem::take(&mut *self.timeline.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl EventSink for Watch {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        // A folder that cannot be read is not the fixture, which is all that is asked here.
        let look = || Tree::read(&self.project, &[".git"]).unwrap_or_default();
        let over = self
            .timeline
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(event, &self.spec.budgets, &self.before, &look);
        if over && let Some(endpoint) = self.endpoint.get().and_then(Weak::upgrade) {
            endpoint.abort();
        }
        Box::pin(std::future::ready(()))
    }
}

/// Refuses commands that the specification names. The open profile itself refuses nothing.
struct Refusals {
    words: Vec<String>,
    refused: Mutex<Vec<String>>,
}

impl Refusals {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Hooks for Refusals {
    fn before_tool_call<'a>(&'a self, call: ToolCallInfo<'a>) -> BoxFuture<'a, BeforeToolCall> {
        let command = call
            .arguments
            .get("command")
            .and_then(|command| command.as_str());
        let word = self
            .words
            .iter()
            .find(|word| command.is_some_and(|command| command.contains(*word)));
        let verdict = match word {
            None => BeforeToolCall::Proceed,
            Some(word) => {
                self.refused
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(word.clone());
                BeforeToolCall::Block {
                    reason: Some(format!("`{word}` may not be run here")),
                }
            }
        };
        Box::pin(std::future::ready(verdict))
    }
}
