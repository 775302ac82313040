//! `fluzo pi`: the open profile.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluzo_agent::NoHooks;
use fluzo_credentials::KeyRing;
use fluzo_host::{
    AgentSession, ModelRegistry, OpenedSession, Resolved, SystemPrompt, system_prompt,
};
use fluzo_llm::ThinkingLevel;
use fluzo_modes::PrintOutput;
use fluzo_protocol::{Endpoint, Prompt};
use fluzo_session::SessionStore;
use fluzo_settings::key;
use fluzo_stdx::error::with_causes;
use fluzo_stdx::ids::{IdSource, RandomIds};
use fluzo_tools::registry;

use crate::access::{Access, Renewals};
use crate::agent_folder::AgentFolder;
use crate::arguments::Typed;
use crate::choose::{self, Places};
use crate::choose_model::Choice;
use crate::commands::Commands;
use crate::flags::Id;
use crate::surroundings::{Surroundings, local_date, now_ms};
use crate::wiring::{self, Plan};
use crate::{help, inputs, list_models, network};

const FAILURE: i32 = 1;
/// How long the reader has for what is left to write once a signal has ended the run.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Runs `fluzo pi` with `arguments` and returns the exit code.
pub(crate) fn run(surroundings: &Surroundings, arguments: &[String]) -> i32 {
    let refusal = match Typed::parse(arguments) {
        Ok(typed) => match start(surroundings, &typed) {
            Ok(code) => return code,
            Err(refusal) => refusal,
        },
        Err(text) => Refusal::Error(text),
    };
    match refusal {
        Refusal::Error(text) => eprintln!("Error: {text}"),
        Refusal::Plain(text) => eprintln!("{text}"),
    }
    FAILURE
}

/// Why nothing is run, for the user.
pub(crate) enum Refusal {
    /// Shown after `Error: `.
    Error(String),
    /// Shown as it is, where the reference does so.
    Plain(String),
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Self::Error(text)
    }
}

fn start(surroundings: &Surroundings, typed: &Typed) -> Result<i32, Refusal> {
    if typed.has(Id::Version) {
        return Ok(out(&format!("{}\n", env!("CARGO_PKG_VERSION"))));
    }
    if typed.has(Id::Help) {
        return Ok(out(&help::pi()));
    }
    let workspace = workspace(surroundings, typed)?;
    let folder = AgentFolder::read_for(surroundings, &workspace, typed.has(Id::Approve));
    let models = ModelRegistry::new(folder.models_json.as_deref());
    warn(folder.warnings.iter());
    let models_json = folder.path.join("models.json");
    report_problems(&models, &models_json);
    let http = network::client(surroundings, &folder.settings);
    let access = Access::new(surroundings, &folder, typed.values(Id::EnvFile), http)?;
    warn(access.warnings.iter());
    if let Some(search) = typed.value(Id::ListModels) {
        let keys = keys(&access, typed, &models, None);
        let available = keys.available();
        let usable = |provider: &str| available.has(provider);
        return Ok(out(&list_models::text(
            &models,
            &usable,
            search,
            &models_json,
        )));
    }
    warn(typed.warnings().iter());
    let mode = Mode::of(typed, surroundings)?;
    if mode == Mode::Rpc && !typed.files.is_empty() {
        return Err(Refusal::Error(
            "@file arguments are not supported in RPC mode".to_owned(),
        ));
    }
    let answers = mode != Mode::Rpc && !typed.has(Id::PrintSystemPrompt);
    let session = build(
        surroundings,
        typed,
        &folder,
        &access,
        &models,
        &workspace,
        answers,
    )?;
    if typed.has(Id::PrintSystemPrompt) {
        return Ok(out(&format!("{}\n", session.1)));
    }
    let prompts = if mode == Mode::Rpc {
        Vec::new()
    } else {
        inputs::prompts(typed, surroundings, &workspace)?
    };
    if mode != Mode::Rpc && prompts.is_empty() {
        return Err(Refusal::Error(
            "nothing to do: no message was given\nhint: fluzo pi -p \"MESSAGE\"".to_owned(),
        ));
    }
    Ok(drive(Arc::new(session.0), mode, prompts, &access.renewals))
}

/// What standard output carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Text,
    Json,
    Rpc,
}

impl Mode {
    fn of(typed: &Typed, surroundings: &Surroundings) -> Result<Self, String> {
        match typed.value(Id::Mode) {
            Some("json") => Ok(Self::Json),
            Some("rpc") => Ok(Self::Rpc),
            _ if typed.has(Id::Print)
                || !surroundings.stdin_is_terminal
                || typed.has(Id::PrintSystemPrompt) =>
            {
                Ok(Self::Text)
            }
            _ => Err(
                "the terminal interface is not part of this version\nhint: fluzo pi -p \"MESSAGE\""
                    .to_owned(),
            ),
        }
    }
}

fn workspace(surroundings: &Surroundings, typed: &Typed) -> Result<PathBuf, String> {
    let Some(text) = typed.value(Id::Workspace) else {
        return surroundings.cwd.clone().map_err(|reason| {
            format!("the working folder cannot be used: {reason}\nhint: run in a folder that exists, or give `--workspace FOLDER`")
        });
    };
    let path = surroundings.path(text);
    path.canonicalize()
        .ok()
        .filter(|path| path.is_dir())
        .ok_or_else(|| format!("no such folder: `{}`", path.display()))
}

fn build(
    surroundings: &Surroundings,
    typed: &Typed,
    folder: &AgentFolder,
    access: &Access,
    models: &ModelRegistry,
    workspace: &Path,
    answers: bool,
) -> Result<(AgentSession, String), Refusal> {
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let (sessions, root) = folder.sessions(surroundings, typed.value(Id::SessionDir), workspace);
    let places = Places {
        folder: sessions,
        root,
        workspace,
    };
    // Asking for the prompt leaves no session behind.
    let store = choose::session(typed, &places, &ids, now_ms())?;
    let workspace = stored_folder(&*store, workspace)?;
    let stored = OpenedSession::new(store, ids).map_err(|error| with_causes(&error))?;
    let any_keys = keys(access, typed, models, None);
    let available = any_keys.available();
    let choice = Choice {
        typed,
        settings: &folder.settings,
        models,
        usable: &|provider| available.has(provider),
        stored: stored
            .model
            .as_ref()
            .map(|(p, id)| (p.as_str(), id.as_str())),
        any_will_do: !answers,
        models_json: &folder.path.join("models.json"),
    };
    let resolved = choice.model()?;
    warn(resolved.warning.iter());
    let level = thinking(typed, folder, &resolved, &stored);
    let thinking = resolved.model.clamp(level);
    let tools = tools(typed);
    let keys = keys(access, typed, models, Some(&resolved.model));
    warn(keys.warning(&resolved.model).iter());
    let plan = Plan {
        surroundings,
        settings: &folder.settings,
        agent_folder: &folder.path,
        workspace: &workspace,
        opened: stored,
        http: Arc::clone(&access.http),
        keys,
        model: resolved.model,
        thinking,
        tools: &tools,
        variables: Vec::new(),
        forms: Arc::default(),
        hooks: Arc::new(NoHooks),
    };
    let toolbox = wiring::toolbox(&plan)?;
    let (custom, append) = (
        prompt_text(typed, Id::SystemPrompt, &workspace),
        prompt_text(typed, Id::AppendSystemPrompt, &workspace),
    );
    let date = local_date();
    let parts = SystemPrompt {
        custom: custom.as_deref(),
        append: append.as_deref(),
        date: &date,
        cwd: &workspace.to_string_lossy(),
    };
    let prompt = system_prompt(&parts, &toolbox.tools);
    Ok((wiring::session(plan, toolbox, &prompt), prompt))
}

pub(crate) fn report_problems(models: &ModelRegistry, file: &Path) {
    let problems = models.problems().iter();
    let texts: Vec<String> = problems.map(|problem| problem.report(file)).collect();
    if !texts.is_empty() {
        let texts = texts.join("\n");
        warn([format!("errors loading models.json:\n{texts}")].iter());
    }
}

/// A session goes on in the folder it was made for.
fn stored_folder(store: &dyn SessionStore, workspace: &Path) -> Result<PathBuf, Refusal> {
    let stored = PathBuf::from(store.header().cwd);
    if stored.is_dir() {
        if stored != workspace {
            warn(
                [format!(
                    "the session goes on in its own folder: {}",
                    stored.display()
                )]
                .iter(),
            );
        }
        return Ok(stored);
    }
    let file = store
        .path()
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    Err(Refusal::Plain(format!(
        "Stored session working directory does not exist: {}\nSession file: {file}\nCurrent working directory: {}",
        stored.display(),
        workspace.display()
    )))
}

fn thinking(
    typed: &Typed,
    folder: &AgentFolder,
    resolved: &Resolved,
    stored: &OpenedSession,
) -> ThinkingLevel {
    if let Some(name) = typed.value(Id::Thinking) {
        match ThinkingLevel::parse(name) {
            Some(level) => return level,
            None => {
                let names = ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", ");
                warn(
                    [format!(
                        "Invalid thinking level \"{name}\". Valid values: {names}"
                    )]
                    .iter(),
                );
            }
        }
    }
    let setting = folder
        .settings
        .text(key::DEFAULT_THINKING_LEVEL)
        .and_then(ThinkingLevel::parse);
    resolved
        .thinking
        .or(stored.thinking)
        .or(setting)
        .unwrap_or(ThinkingLevel::Medium)
}

fn tools(typed: &Typed) -> Vec<String> {
    let allow = typed.list(Id::Tools);
    let initial: &[&str] = if typed.has(Id::NoTools) {
        &[]
    } else {
        &registry::DEFAULT
    };
    let deny = typed.list(Id::ExcludeTools).unwrap_or_default();
    let selection = registry::select(initial, allow.as_deref(), &deny, &[]);
    warn(
        selection
            .unknown
            .iter()
            .map(|name| format!("unknown tool \"{name}\"")),
    );
    selection.active
}

pub(crate) fn keys(
    access: &Access,
    typed: &Typed,
    models: &ModelRegistry,
    model: Option<&fluzo_llm::Model>,
) -> KeyRing {
    let ring = access
        .key_ring(models.keys(), models.headers())
        .with_bearers(models.bearers().iter().cloned());
    match (typed.value(Id::ApiKey), model) {
        (Some(key), Some(model)) => ring.with_key(&model.provider, key),
        _ => ring,
    }
}

/// Text, or the content of the file of that name.
fn prompt_text(typed: &Typed, id: Id, workspace: &Path) -> Option<String> {
    let values = typed.values(id);
    let values = if id == Id::SystemPrompt {
        values.last().into_iter().collect::<Vec<_>>()
    } else {
        values.iter().collect()
    };
    let texts = values.into_iter().map(|value| {
        let path = workspace.join(value);
        if !path.is_file() {
            return value.clone();
        }
        std::fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_else(|error| {
                warn(
                    [format!(
                        "Could not read system prompt file {}: {error}",
                        path.display()
                    )]
                    .iter(),
                );
                value.clone()
            })
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Runs the mode and returns its exit code. Signals abort the run first.
fn drive(session: Arc<AgentSession>, mode: Mode, prompts: Vec<Prompt>, renewals: &Renewals) -> i32 {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("Error: no runtime: {error}");
            return FAILURE;
        }
    };
    let code = runtime.block_on(with_signals(Arc::clone(&session), mode, prompts));
    for pid in session.snapshot().background_processes {
        eprintln!("Process {pid} is still running");
    }
    runtime.block_on(renewals.settle());
    // Threads that wait for input must not hold the exit.
    runtime.shutdown_background();
    code
}

async fn with_signals(session: Arc<AgentSession>, mode: Mode, prompts: Vec<Prompt>) -> i32 {
    use tokio::signal::unix::{SignalKind, signal};
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut work = std::pin::pin!(run_mode(Arc::clone(&session), mode, prompts, stopped));
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) else {
        return work.await;
    };
    let code = tokio::select! {
        code = &mut work => return code,
        _ = interrupt.recv() => 130,
        _ = terminate.recv() => 143,
        _ = hangup.recv() => 129,
    };
    session.shut_down();
    // A mode that takes no input has no use for it.
    let _ = stop.send(());
    // The run settles as long as it takes; a reader that stands still is not waited for.
    let unread = async {
        session.idle().await;
        tokio::time::sleep(LAST_OUTPUT).await;
    };
    // A second signal ends the wait for the run to settle.
    tokio::select! {
        _ = &mut work => {}
        () = unread => {}
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    code
}

async fn run_mode(
    session: Arc<AgentSession>,
    mode: Mode,
    prompts: Vec<Prompt>,
    stopped: tokio::sync::oneshot::Receiver<()>,
) -> i32 {
    let endpoint: Arc<dyn Endpoint> = session;
    let mut err = std::io::stderr();
    match mode {
        Mode::Text => {
            let out = std::io::stdout();
            let is_terminal = out.is_terminal();
            fluzo_modes::print(
                endpoint,
                prompts,
                PrintOutput { out, is_terminal },
                &mut err,
            )
            .await
        }
        Mode::Json => fluzo_modes::json(endpoint, prompts, std::io::stdout(), &mut err).await,
        Mode::Rpc => {
            let input = Commands {
                input: tokio::io::BufReader::new(tokio::io::stdin()),
                stopped: Some(stopped),
            };
            fluzo_modes::rpc(endpoint, input, std::io::stdout(), &mut err).await
        }
    }
}

fn warn(texts: impl Iterator<Item = impl std::fmt::Display>) {
    texts.for_each(|text| eprintln!("Warning: {text}"));
}

fn out(text: &str) -> i32 {
    crate::output::write(text.as_bytes())
}
