//! Doubles of what credentials ask of the world.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fluzo_credentials::outside::{
    Background, Clock, CommandFailed, CredentialFile, FormPost, PostError, ReservedFile,
    SecretCommands, StoredText, TokenAnswer, TokenRequest,
};
use fluzo_credentials::{AuthStore, Environment, KeyRing, SecretValue, SignIns};
use fluzo_llm::{BoxFuture, CredentialError, Credentials, Model, RequestAuth, Secret};
use serde_json::json;

/// Runs `work` and what it spawns on one thread.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(work)
}

/// A file in memory with a lock, both shared by clones.
#[derive(Clone, Default)]
pub struct MemoryFile(Arc<File>);

#[derive(Default)]
struct File {
    bytes: Mutex<Option<Vec<u8>>>,
    locked: Arc<AtomicBool>,
    wide: AtomicBool,
    no_room: AtomicBool,
    no_commit: AtomicBool,
}

impl MemoryFile {
    pub fn new(text: &str) -> Self {
        let file = Self::default();
        file.set(text);
        file
    }

    pub fn set(&self, text: &str) {
        *self.0.bytes.lock().unwrap() = Some(text.as_bytes().to_vec());
    }

    pub fn text(&self) -> String {
        let bytes = self.0.bytes.lock().unwrap().clone();
        String::from_utf8(bytes.unwrap_or_default()).unwrap()
    }

    pub fn widen(&self) {
        self.0.wide.store(true, Ordering::SeqCst);
    }

    pub fn lock(&self, locked: bool) {
        self.0.locked.store(locked, Ordering::SeqCst);
    }

    pub fn is_locked(&self) -> bool {
        self.0.locked.load(Ordering::SeqCst)
    }

    /// Whether there is room, and whether what was given room can be written.
    pub fn disk(&self, room: bool, commit: bool) {
        self.0.no_room.store(!room, Ordering::SeqCst);
        self.0.no_commit.store(!commit, Ordering::SeqCst);
    }
}

struct Unlock(Arc<AtomicBool>);

impl Drop for Unlock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

struct Room(MemoryFile, usize);

impl ReservedFile for Room {
    fn commit(self: Box<Self>, text: &str) -> io::Result<()> {
        assert!(self.0.is_locked(), "written without the lock");
        assert!(text.len() <= self.1, "more than was reserved");
        if self.0.0.no_commit.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.set(text);
        Ok(())
    }
}

impl CredentialFile for MemoryFile {
    fn path(&self) -> String {
        "auth.json".into()
    }

    fn read(&self) -> io::Result<Option<StoredText>> {
        let wide = self.0.wide.load(Ordering::SeqCst);
        let bytes = self.0.bytes.lock().unwrap().clone();
        Ok(bytes.map(|bytes| StoredText {
            bytes,
            mode: if wide { 0o644 } else { 0o600 },
        }))
    }

    fn try_lock(&self) -> io::Result<Option<Box<dyn Send>>> {
        let was = self.0.locked.swap(true, Ordering::SeqCst);
        let lock = || Box::new(Unlock(Arc::clone(&self.0.locked))) as Box<dyn Send>;
        Ok((!was).then(lock))
    }

    fn reserve(&self, bytes: usize) -> io::Result<Box<dyn ReservedFile>> {
        assert!(self.is_locked(), "reserved without the lock");
        if self.0.no_room.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(Room(self.clone(), bytes)))
    }
}

/// A clock that moves only when somebody waits.
#[derive(Clone, Default)]
pub struct TestClock(Arc<AtomicI64>);

impl TestClock {
    pub fn at(now: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now)))
    }

    pub fn set(&self, now: i64) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let ms = i64::try_from(duration.as_millis()).unwrap();
            self.0.fetch_add(ms, Ordering::SeqCst);
        })
    }
}

/// Work beside the test, on its thread.
pub struct Spawned;

impl Background for Spawned {
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        tokio::spawn(work);
    }
}

type Reply = Result<TokenAnswer, PostError>;

/// A server that is a function; keeps what it was asked.
pub struct FnServer<F> {
    reply: F,
    pub asked: Arc<Mutex<Vec<TokenRequest>>>,
}

pub fn server<F, R>(reply: F) -> FnServer<F>
where
    F: Fn(&TokenRequest, usize) -> R + Send + Sync,
    R: Future<Output = Reply> + Send + 'static,
{
    FnServer {
        reply,
        asked: Arc::default(),
    }
}

impl<F, R> FormPost for FnServer<F>
where
    F: Fn(&TokenRequest, usize) -> R + Send + Sync,
    R: Future<Output = Reply> + Send + 'static,
{
    fn exchange(&self, request: TokenRequest) -> BoxFuture<'static, Reply> {
        let mut asked = self.asked.lock().unwrap();
        let reply = (self.reply)(&request, asked.len());
        asked.push(request);
        Box::pin(reply)
    }
}

pub fn answer(status: u16, body: &serde_json::Value) -> Reply {
    Ok(TokenAnswer {
        status,
        body: body.to_string().into_bytes(),
    })
}

/// Commands with known outputs; counts what runs.
#[derive(Default)]
pub struct Outputs {
    pub known: BTreeMap<&'static str, &'static str>,
    pub ran: Mutex<Vec<String>>,
}

impl SecretCommands for Outputs {
    fn output<'a>(&'a self, command: &'a str) -> BoxFuture<'a, Result<Secret, CommandFailed>> {
        self.ran.lock().unwrap().push(command.to_owned());
        let output = self.known.get(command).map(|text| Secret::new(*text));
        Box::pin(std::future::ready(output.ok_or(CommandFailed)))
    }
}

pub type Variables = &'static [(&'static str, &'static str)];

pub fn environment(variables: Variables) -> Environment {
    Arc::new(move |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

pub fn keys(configured: &[(&str, &str)]) -> BTreeMap<String, SecretValue> {
    let pair = |(provider, value): &(&str, &str)| ((*provider).into(), SecretValue::parse(value));
    configured.iter().map(pair).collect()
}

pub fn store(file: &MemoryFile, clock: &TestClock) -> AuthStore {
    AuthStore::new(Arc::new(file.clone()), Arc::new(clock.clone()))
}

pub fn sign_ins(file: &MemoryFile, clock: &TestClock, http: Arc<dyn FormPost>) -> SignIns {
    let store = store(file, clock);
    SignIns::new(store, http, Arc::new(clock.clone()), Arc::new(Spawned))
}

/// Sign-ins of a file that are never renewed.
pub fn still(file: &MemoryFile) -> SignIns {
    let http = server(|_, _| async { Err(PostError("not to be asked".into())) });
    sign_ins(file, &TestClock::at(1000), Arc::new(http))
}

pub fn model(provider: &str, api: &str, base_url: &str) -> Model {
    serde_json::from_value(json!({
        "id": "m", "name": "m", "api": api, "provider": provider, "baseUrl": base_url,
        "reasoning": false, "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }))
    .unwrap()
}

/// A model of a known host at its usual address.
pub fn known(provider: &str) -> Model {
    match fluzo_catalogue::host(provider) {
        Some(host) => model(provider, host.api(), host.base_url()),
        None => model(provider, "openai-completions", "http://h.example/v1"),
    }
}

pub fn resolve(ring: &KeyRing, model: &Model) -> Result<RequestAuth, CredentialError> {
    run(ring.resolve(model))
}

/// The key, whichever way it is sent.
pub fn key(auth: &RequestAuth) -> Option<String> {
    let bearer = || {
        let found = auth
            .headers
            .iter()
            .find(|(_, value)| value.reveal().starts_with("Bearer "));
        found.map(|(_, value)| value.reveal()["Bearer ".len()..].to_owned())
    };
    let key = auth.api_key.as_ref().map(|key| key.reveal().to_owned());
    key.or_else(bearer)
}

/// Asks servers on loopback; blocks the thread of the test meanwhile.
pub struct LoopbackClient;

impl FormPost for LoopbackClient {
    fn exchange(&self, request: TokenRequest) -> BoxFuture<'static, Reply> {
        Box::pin(async move {
            let form = request.form.as_ref().map(|fields| {
                let pairs = fields.iter().map(|(name, value)| (&**name, value.reveal()));
                fluzo_credentials::oauth::form_text(pairs)
            });
            let method = if form.is_some() { "POST" } else { "GET" };
            let answer = crate::authority::ask(method, &request.url, form.as_deref());
            let (status, _, body) = answer.map_err(PostError)?;
            Ok(TokenAnswer { status, body })
        })
    }
}
