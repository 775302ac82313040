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

use crate::agent_folder::AgentFolder;
use crate::arguments::Typed;
use crate::choose::{self, Places};
use crate::commands::Commands;
use crate::flags::Id;
use crate::surroundings::{Surroundings, local_date, now_ms};
use crate::wiring::{self, Plan};
use crate::{help, inputs};

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
    if !models.problems().is_empty() {
        let file = folder.path.join("models.json");
        let problems = models.problems().join("\n");
        warn(
            [format!(
                "errors loading models.json:\n{problems}\n\nFile: {}",
                file.display()
            )]
            .iter(),
        );
    }
    if let Some(search) = typed.value(Id::ListModels) {
        return Ok(list_models(&models, search));
    }
    warn(typed.warnings().iter());
    let mode = Mode::of(typed, surroundings)?;
    if mode == Mode::Rpc && !typed.files.is_empty() {
        return Err(Refusal::Error(
            "@file arguments are not supported in RPC mode".to_owned(),
        ));
    }
    let session = build(surroundings, typed, &folder, &models, &workspace)?;
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
    Ok(drive(Arc::new(session.0), mode, prompts))
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
    models: &ModelRegistry,
    workspace: &Path,
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
    let resolved = model(surroundings, typed, folder, models, &stored)?;
    warn(resolved.warning.iter());
    let level = thinking(typed, folder, &resolved, &stored);
    let thinking = resolved.model.clamp(level);
    let tools = tools(typed);
    let keys = keys(surroundings, typed, models, Some(&resolved.model));
    warn(keys.warning(&resolved.model).iter());
    let plan = Plan {
        surroundings,
        settings: &folder.settings,
        agent_folder: &folder.path,
        workspace: &workspace,
        opened: stored,
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

fn model(
    surroundings: &Surroundings,
    typed: &Typed,
    folder: &AgentFolder,
    models: &ModelRegistry,
    stored: &OpenedSession,
) -> Result<Resolved, String> {
    if let Some(pattern) = typed.value(Id::Model) {
        return models.resolve(typed.value(Id::Provider), pattern);
    }
    if let Some(provider) = typed.value(Id::Provider) {
        return models.first_of(provider).map(|model| plain(&model));
    }
    if typed.has(Id::ApiKey) {
        return Err("--api-key requires a model to be specified via --model, --provider/--model, or --models".to_owned());
    }
    let Some((provider, id)) = &stored.model else {
        return configured(surroundings, typed, folder, models);
    };
    let found = models.find(provider, id);
    let keys = keys(surroundings, typed, models, None);
    let usable = |model: &&Arc<fluzo_llm::Model>| keys.has(&model.provider);
    if let Some(model) = found.as_ref().filter(usable) {
        return Ok(plain(model));
    }
    let reason = if found.is_some() {
        "no auth configured"
    } else {
        "model no longer exists"
    };
    let instead = configured(surroundings, typed, folder, models)?;
    let (now, id_now) = (&instead.model.provider, &instead.model.id);
    let warning =
        format!("Could not restore model {provider}/{id} ({reason}). Using {now}/{id_now}.");
    Ok(Resolved {
        warning: Some(warning),
        ..instead
    })
}

/// The model of new sessions: from the settings, else the first that has a key.
fn configured(
    surroundings: &Surroundings,
    typed: &Typed,
    folder: &AgentFolder,
    models: &ModelRegistry,
) -> Result<Resolved, String> {
    let settings = &folder.settings;
    let provider = settings.text(key::DEFAULT_PROVIDER);
    if let Some(model) = settings.text(key::DEFAULT_MODEL) {
        return models.resolve(provider, model);
    }
    let keys = keys(surroundings, typed, models, None);
    if let Some(provider) = provider {
        return models.first_of(provider).map(|model| plain(&model));
    }
    let all = models.models();
    let with_key = all.iter().find(|model| keys.has(&model.provider));
    with_key
        .or_else(|| all.first())
        .map(plain)
        .ok_or_else(no_model)
}

fn plain(model: &Arc<fluzo_llm::Model>) -> Resolved {
    Resolved {
        model: Arc::clone(model),
        thinking: None,
        warning: None,
    }
}

fn no_model() -> String {
    "No model selected.\nhint: give `--model PATTERN`, or set `defaultModel` in settings.json"
        .to_owned()
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

fn keys(
    surroundings: &Surroundings,
    typed: &Typed,
    models: &ModelRegistry,
    model: Option<&fluzo_llm::Model>,
) -> KeyRing {
    let environment = surroundings.environment.clone();
    let ring = KeyRing::new(
        Arc::new(move |name| environment.get(name).cloned()),
        models.keys(),
        models.headers(),
    );
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
fn drive(session: Arc<AgentSession>, mode: Mode, prompts: Vec<Prompt>) -> i32 {
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

fn list_models(models: &ModelRegistry, search: &str) -> i32 {
    let wanted = search.to_lowercase();
    let mut rows: Vec<[String; 6]> = Vec::new();
    for model in models.models() {
        let name = format!("{}/{} {}", model.provider, model.id, model.name).to_lowercase();
        if name.contains(&wanted) {
            let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
            rows.push([
                model.provider.clone(),
                model.id.clone(),
                tokens(model.context_window),
                tokens(model.max_tokens),
                yes(model.reasoning),
                yes(model.takes_images()),
            ]);
        }
    }
    if rows.is_empty() {
        return out(&format!("No models matching \"{search}\"\n"));
    }
    rows.sort();
    rows.insert(
        0,
        [
            "provider", "model", "context", "max-out", "thinking", "images",
        ]
        .map(str::to_owned),
    );
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ") + "\n"
    };
    out(&rows.iter().map(line).collect::<String>())
}

/// `128K`, `4.1K`, `1M`: whole multiples without decimals, else one.
fn tokens(count: u64) -> String {
    let (unit, sign) = match count {
        0..1_000 => return count.to_string(),
        1_000..1_000_000 => (1_000, "K"),
        _ => (1_000_000, "M"),
    };
    if count.is_multiple_of(unit) {
        return format!("{}{sign}", count / unit);
    }
    let tenths = (count * 10 + unit / 2) / unit;
    format!("{}.{}{sign}", tenths / 10, tenths % 10)
}

fn warn(texts: impl Iterator<Item = impl std::fmt::Display>) {
    texts.for_each(|text| eprintln!("Warning: {text}"));
}

fn out(text: &str) -> i32 {
    crate::output::write(text.as_bytes())
}
