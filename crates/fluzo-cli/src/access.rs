//! What key rings are made from: files, commands, the clock and the network as this program
//! has them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fluzo_agent::TimeEffect;
use fluzo_credentials::outside::{
    Background, Clock, CommandFailed, FormPost, PostError, SecretCommands, TokenAnswer,
    TokenRequest,
};
use fluzo_credentials::{AuthStore, KeyRing, SecretValue, SignIns, env_file};
use fluzo_exec::{
    CommandSpec, EndedBy, Environment, ExitStatus, LocalProcesses, LocalProcessesConfig,
    OutputSink, ProcessRunner,
};
use fluzo_llm::{AbortSignal, BoxFuture, Secret};
use fluzo_providers::{CallLimits, HttpClient};
use fluzo_runtime::clock::TokioTime;
use tokio::task::JoinHandle;

use crate::agent_folder::AgentFolder;
use crate::auth_file::AuthFile;
use crate::network;
use crate::surroundings::{Surroundings, now_ms};

/// Far more than any set of variables needs, in bytes.
const LARGEST_VARIABLES: u64 = 16 << 20;

/// How long a command may take to give a secret.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Longest output of such a command; what follows is dropped.
const COMMAND_OUTPUT: usize = 64 << 10;
/// How long the program waits, before it ends, for renewals that are under way.
const LAST_RENEWALS: Duration = Duration::from_secs(5);

/// Where credentials come from in this invocation.
pub(crate) struct Access {
    /// The client of all requests.
    pub(crate) http: Arc<HttpClient>,
    /// What the user should know about the files.
    pub(crate) warnings: Vec<String>,
    environment: Arc<BTreeMap<String, String>>,
    sign_ins: SignIns,
    commands: Arc<ShellCommands>,
}

impl Access {
    /// Reads the files of variables: those of `named`, else that of the user's settings. Who
    /// holds `renewals` waits for them before the program ends.
    ///
    /// # Errors
    ///
    /// The text for the user when a file that was named cannot be used.
    pub(crate) fn new(
        surroundings: &Surroundings,
        folder: &AgentFolder,
        named: &[String],
        http: Arc<HttpClient>,
        renewals: &Arc<Renewals>,
    ) -> Result<Self, String> {
        let mut variables = BTreeMap::new();
        let mut warnings = Vec::new();
        for name in named {
            variables.extend(read_variables(&surroundings.path(name))?);
        }
        if let Some(name) = folder.env_file.as_ref().filter(|_| named.is_empty()) {
            let path = if name.starts_with('~') {
                surroundings.path(name)
            } else {
                folder.path.join(name)
            };
            match read_variables(&path) {
                Ok(read) => variables.extend(read),
                Err(problem) => warnings.push(format!("setting `envFile`: {problem}")),
            }
        }
        // The real environment goes before the files, but for variables that are empty.
        let real = surroundings.environment.iter();
        let real = real.filter(|(_, value)| !value.is_empty());
        variables.extend(real.map(|(name, value)| (name.clone(), value.clone())));
        let clock: Arc<dyn Clock> = Arc::new(Time(TokioTime::new(now_ms)));
        let store = AuthStore::new(Arc::new(AuthFile::new(&folder.path)), Arc::clone(&clock));
        warnings.extend(store.warnings());
        let post = Arc::new(TokenPost {
            http: Arc::clone(&http),
            limits: network::call_limits(&folder.settings, CallLimits::sign_in()),
        });
        let cwd = surroundings.cwd.clone().unwrap_or_else(|_| "/".into());
        Ok(Self {
            http,
            sign_ins: SignIns::with_old(
                store,
                post,
                clock,
                Arc::clone(renewals) as _,
                folder.old_credentials.clone(),
            ),
            warnings,
            environment: Arc::new(variables),
            commands: Arc::new(ShellCommands { cwd }),
        })
    }

    /// A key ring with the keys and headers of `models.json`.
    pub(crate) fn key_ring(
        &self,
        keys: BTreeMap<String, SecretValue>,
        headers: BTreeMap<String, Vec<(String, SecretValue)>>,
    ) -> KeyRing {
        let environment = Arc::clone(&self.environment);
        let environment = move |name: &str| environment.get(name).cloned();
        KeyRing::new(Arc::new(environment), keys, headers)
            .with_sign_ins(self.sign_ins.clone())
            .with_commands(Arc::clone(&self.commands) as _)
    }
}

fn read_variables(path: &Path) -> Result<Vec<(String, String)>, String> {
    let shown = path.display();
    let text = read_bounded(path)
        .map_err(|error| format!("the file of variables `{shown}` cannot be read: {error}"))?;
    env_file::parse(&text).map_err(|error| format!("the file of variables `{shown}`, {error}"))
}

/// The text of a file or a pipe, which a shell makes for `--env-file <(COMMAND)`.
fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    file.take(LARGEST_VARIABLES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_VARIABLES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// The clock of the program.
struct Time(TokioTime);

impl Clock for Time {
    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        self.0.sleep(duration)
    }
}

/// Renewals of sign-ins, which go on when nobody waits for them any more.
#[derive(Default)]
pub(crate) struct Renewals(Mutex<Vec<JoinHandle<()>>>);

impl Renewals {
    /// Waits until they have ended, though not for ever.
    pub(crate) async fn settle(&self) {
        let running = std::mem::take(&mut *self.running());
        let all = async {
            for renewal in running {
                // One that panicked has ended as well.
                let _ = renewal.await;
            }
        };
        let _ = tokio::time::timeout(LAST_RENEWALS, all).await;
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Background for Renewals {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        let mut running = self.running();
        running.retain(|renewal| !renewal.is_finished());
        running.push(tokio::spawn(work));
    }
}

/// Requests to authorisation servers over the client of all requests.
struct TokenPost {
    http: Arc<HttpClient>,
    limits: CallLimits,
}

impl FormPost for TokenPost {
    fn exchange(
        &self,
        request: TokenRequest,
    ) -> BoxFuture<'static, Result<TokenAnswer, PostError>> {
        let (http, limits) = (Arc::clone(&self.http), self.limits);
        Box::pin(async move {
            let accept = ("accept", Secret::new("application/json"));
            let mut headers = vec![accept];
            headers.extend(pairs(&request.headers));
            let response = match &request.form {
                Some(fields) => http.post_form(&request.url, &headers, &pairs(fields), limits),
                None => http.get(&request.url, &headers, limits),
            };
            let response = response.await;
            let response = response.map_err(|error| PostError(error.to_string()))?;
            Ok(TokenAnswer {
                status: response.status(),
                body: response.body().to_vec(),
            })
        })
    }
}

fn pairs(fields: &[(String, Secret)]) -> Vec<(&str, Secret)> {
    let fields = fields.iter();
    fields
        .map(|(name, value)| (name.as_str(), value.clone()))
        .collect()
}

/// Runs the commands of values in `sh`, without input.
struct ShellCommands {
    cwd: PathBuf,
}

impl SecretCommands for ShellCommands {
    fn output<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<Secret, CommandFailed>> {
        Box::pin(async move {
            let spec = CommandSpec {
                program: "/bin/sh".into(),
                // Output and errors arrive in one stream; errors may hold secrets, too.
                args: vec!["-c".into(), format!("exec 2>/dev/null\n{command}").into()],
                cwd: self.cwd.clone(),
                env: Environment::Inherit {
                    set: Vec::new(),
                    path_prefix: None,
                },
                timeout: Some(COMMAND_LIMIT),
            };
            let mut output = Output(Vec::new());
            let processes = LocalProcesses::new(LocalProcessesConfig::default());
            let report = processes.run(spec, &mut output, AbortSignal::new()).await;
            let report = report.map_err(|_| CommandFailed)?;
            let done = report.ended_by == EndedBy::Itself
                && report.status == Some(ExitStatus::Code(0))
                && output.0.len() < COMMAND_OUTPUT;
            let text = String::from_utf8(output.0).ok().filter(|_| done);
            text.map(Secret::new).ok_or(CommandFailed)
        })
    }
}

struct Output(Vec<u8>);

impl OutputSink for Output {
    fn write(&mut self, chunk: &[u8]) {
        let room = COMMAND_OUTPUT - self.0.len();
        self.0.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        let commands = ShellCommands { cwd: "/".into() };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let output = runtime.block_on(commands.output(command)).ok();
        let output = output.as_ref().map(Secret::reveal);
        assert_eq!(output, expected, "{command}");
    }

    #[test]
    fn commands_run_in_sh_and_only_success_counts() {
        check("echo key; echo noise >&2", Some("key\n"));
        check("printf 'a b'", Some("a b"));
        check("echo $((1 + 1))", Some("2\n"));
        check("echo key; exit 3", None);
        check("nosuchcommand-9f3c", None);
        check("if", None);
        check("kill -9 $$", None);
        check("head -c 70000 /dev/zero", None);
        check("printf '\\377'", None);
        // Without input, nothing waits for a person.
        check("cat", Some(""));
    }

    #[test]
    fn a_file_of_variables_without_end_is_refused() {
        let refused = read_bounded(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::FileTooLarge);
    }
}
