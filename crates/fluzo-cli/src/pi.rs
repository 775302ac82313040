//! `fluzo pi`: the open profile.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluzo_host::{ModelRegistry, SessionFactory, SessionHost};
use fluzo_modes::PrintOutput;
use fluzo_protocol::{Endpoint, Prompt};
use fluzo_session::SessionStore;
use fluzo_settings::key;
use fluzo_stdx::ids::{IdSource, RandomIds};

use crate::access::Renewals;
use crate::agent_folder::Asked;
use crate::arguments::Typed;
use crate::choose::{self, Places};
use crate::commands::Commands;
use crate::flags::Id;
use crate::open_profile::{Loaded, OpenProfile};
use crate::session_folder::{self, Place};
use crate::surroundings::{Surroundings, now_ms};
use crate::{export, help, inputs, list_models};

const FAILURE: i32 = 1;
/// How long the reader has for what is left to write once a signal has ended the run.
const LAST_OUTPUT: Duration = Duration::from_secs(1);

/// Runs `fluzo pi` with `arguments` and returns the exit code.
pub(crate) fn run(surroundings: Surroundings, arguments: &[String]) -> i32 {
    let refusal = match Typed::parse(arguments) {
        Ok(typed) => match start(surroundings, typed) {
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

fn start(surroundings: Surroundings, typed: Typed) -> Result<i32, Refusal> {
    if typed.has(Id::Version) {
        return Ok(out(&format!("{}\n", env!("CARGO_PKG_VERSION"))));
    }
    if typed.has(Id::Help) {
        return Ok(out(&help::pi()));
    }
    if let Some(source) = typed.value(Id::Export) {
        let target = typed
            .messages
            .first()
            .map(|target| surroundings.path(target));
        let target = export::session_file(&surroundings.path(source), target.as_deref())?;
        // What was typed is what is said.
        let shown = typed.messages.first().cloned();
        let shown = shown.unwrap_or_else(|| target.display().to_string());
        return Ok(out(&format!("Exported to: {shown}\n")));
    }
    let workspace = workspace(&surroundings, &typed)?;
    let renewals = Arc::default();
    let loaded = Loaded::read(&surroundings, &workspace, &Asked::of(&typed)?, &renewals)?;
    warn(loaded.warnings().iter());
    let models_json = loaded.models_json();
    if let Some(search) = typed.value(Id::ListModels) {
        let keys = loaded.keys(&typed, None);
        let available = keys.available();
        let usable = |provider: &str| available.has(provider);
        return Ok(out(&list_models::text(
            &loaded.models,
            &usable,
            search,
            &models_json,
        )));
    }
    warn(typed.warnings().iter());
    let mode = Mode::of(&typed, &surroundings)?;
    if mode == Mode::Rpc && !typed.files.is_empty() {
        return Err(Refusal::Error(
            "@file arguments are not supported in RPC mode".to_owned(),
        ));
    }
    let store = store(&surroundings, &typed, &loaded, &workspace)?;
    let Some((store, workspace)) = placed(store, workspace, &surroundings, &loaded)? else {
        return Ok(0);
    };
    if let Some(name) = typed.value(Id::Name) {
        choose::name(&store, name, now_ms())?;
    }
    let only_prompt = typed.has(Id::PrintSystemPrompt);
    let prompts = if mode == Mode::Rpc || only_prompt {
        Vec::new()
    } else {
        let resize = loaded.folder.settings.bool(key::IMAGES_AUTO_RESIZE);
        inputs::prompts(&typed, &surroundings, &workspace, resize)?
    };
    let answers = mode != Mode::Rpc && !only_prompt;
    let profile = OpenProfile::new(surroundings, typed, loaded, Arc::clone(&renewals), answers);
    let profile = profile.at(&*store, &workspace);
    let profile = Arc::new(profile);
    let host = SessionHost::new(Arc::clone(&profile) as _, store);
    warn(profile.take_notices().iter());
    let host = host?;
    if only_prompt {
        return Ok(out(&format!("{}\n", host.current().system_prompt())));
    }
    if mode != Mode::Rpc && prompts.is_empty() {
        return Err(Refusal::Error(
            "nothing to do: no message was given\nhint: fluzo pi -p \"MESSAGE\"".to_owned(),
        ));
    }
    Ok(drive(Arc::new(host), mode, prompts, &renewals))
}

/// The store of the session that the flags ask for.
fn store(
    surroundings: &Surroundings,
    typed: &Typed,
    loaded: &Loaded,
    workspace: &Path,
) -> Result<Arc<dyn SessionStore>, Refusal> {
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let (folder, root) = loaded.folder.sessions(surroundings, workspace);
    let places = Places {
        folder,
        root,
        workspace,
        agent_folder: &loaded.folder.path,
    };
    choose::session(typed, &places, &ids, now_ms())
}

/// A session and the folder it goes on in.
type Placed = (Arc<dyn SessionStore>, PathBuf);

/// The session and its folder; `None` when the user wants neither.
fn placed(
    store: Arc<dyn SessionStore>,
    workspace: PathBuf,
    surroundings: &Surroundings,
    loaded: &Loaded,
) -> Result<Option<Placed>, Refusal> {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stderr();
    let terminal: Option<(&mut dyn BufRead, &mut dyn Write)> = surroundings
        .stdin_is_terminal
        .then_some((&mut input, &mut output));
    let place = session_folder::place(&*store, &workspace, terminal).map_err(Refusal::Plain)?;
    Ok(match place {
        Place::Own(own) => {
            if own != workspace {
                let own = own.display();
                warn([format!("the session goes on in its own folder: {own}")].iter());
            }
            Some((store, own))
        }
        Place::Here => Some((store, workspace)),
        Place::ForkHere => {
            let (folder, _) = loaded.folder.sessions(surroundings, &workspace);
            let fork = choose::fork_of(&*store, &folder, &workspace, now_ms())?;
            Some((fork, workspace))
        }
        Place::Cancelled => None,
    })
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

/// What is wrong with the `models.json` in `file`, for the user.
pub(crate) fn problems(models: &ModelRegistry, file: &Path) -> Option<String> {
    let problems = models.problems().iter();
    let texts: Vec<String> = problems.map(|problem| problem.report(file)).collect();
    let texts = (!texts.is_empty()).then(|| texts.join("\n"))?;
    Some(format!("errors loading models.json:\n{texts}"))
}

/// Runs the mode and returns its exit code. Signals abort the run first.
fn drive(session: Arc<SessionHost>, mode: Mode, prompts: Vec<Prompt>, renewals: &Renewals) -> i32 {
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

async fn with_signals(session: Arc<SessionHost>, mode: Mode, prompts: Vec<Prompt>) -> i32 {
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
    session.current().shut_down();
    // A mode that takes no input has no use for it.
    let _ = stop.send(());
    // The run settles as long as it takes; a reader that stands still is not waited for.
    let unread = async {
        session.current().idle().await;
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
    session: Arc<SessionHost>,
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

pub(crate) fn warn(texts: impl Iterator<Item = impl std::fmt::Display>) {
    texts.for_each(|text| eprintln!("Warning: {text}"));
}

fn out(text: &str) -> i32 {
    crate::output::write(text.as_bytes())
}
