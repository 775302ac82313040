//! A session's life in a test: from opening to a crash, and again.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use fluzo_agent::{AgentOptions, DirectTools, Effects, NativeAgent, NoHooks, TimeEffect};
use fluzo_host::{
    AgentSession, CompactionParts, ImagesAsGiven, Live, ModelRegistry, NoSessionHooks,
    OpenedSession, PromptMaker, SessionHooks, SessionParts, SettingsStore, Sinks, UserImages,
    UserShell,
};
use fluzo_llm::{
    BoxFuture, CredentialError, Credentials, Message, Model, RequestAuth, Secret, ThinkingLevel,
};
use fluzo_protocol::{Endpoint, Event, EventSink, Prompt, RunReport, Submitted};
use fluzo_resources::Resources;
use fluzo_runtime::compact::{CompactionSettings, Compactor};
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::drive::ManualDrive;
use fluzo_runtime::journal::SessionJournal;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_session::{Header, JsonlStore, MemoryStore, Session, SessionStore};
use fluzo_stdx::ids::{CountingIds, IdSource};
use fluzo_testkit::polling::poll_until_stalled;
use fluzo_testkit::{FakeTool, Reply, World, model, poll_to_end, tools};

use crate::doubles::{FakeShell, NoExporter, PlainPreview, Remembers, no_resources};

/// Which store keeps the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In memory.
    Memory,
    /// In a file.
    Jsonl,
}

/// A session that can be opened again.
pub struct Place {
    kind: Kind,
    pub ids: Arc<dyn IdSource>,
    memory: Arc<dyn SessionStore>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    pub fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            kind,
            ids: Arc::new(CountingIds::default()),
            memory: Arc::new(MemoryStore::new(header())),
            path: folder.path().join("s.jsonl"),
            _folder: folder,
        }
    }

    /// Opens the session as a new process would.
    pub fn open(&self) -> Arc<dyn SessionStore> {
        let ids = Arc::clone(&self.ids);
        match self.kind {
            Kind::Memory => Arc::clone(&self.memory),
            Kind::Jsonl if self.path.exists() => {
                Arc::new(JsonlStore::open(&self.path, ids).unwrap())
            }
            Kind::Jsonl => Arc::new(JsonlStore::create(&self.path, header(), vec![], ids).unwrap()),
        }
    }

    /// The session as a new process would open it.
    pub fn stored(&self) -> Session {
        Session::new(self.open(), Arc::clone(&self.ids))
    }

    /// What kinds of entries are stored, in the order of the file.
    pub fn kinds(&self) -> Vec<String> {
        let session = self.stored();
        let ids = session.store().look(|index| {
            let ids = index.iter().map(|node| node.id.to_string());
            ids.collect::<Vec<_>>()
        });
        let entries = ids.unwrap_or_default().into_iter();
        let entries = entries.map(|id| session.entry(&id).unwrap());
        entries
            .map(|entry| match entry.message() {
                Some(message) => message.role().to_owned(),
                None => entry.kind.type_name().to_owned(),
            })
            .collect()
    }

    /// The messages that are stored, as a new process would read them.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        Session::new(self.open(), Arc::clone(&self.ids))
            .context()
            .unwrap()
            .messages
    }
}

fn header() -> Header {
    Header::new("s", "2026-12-01T00:00:00.000Z", "/w")
}

/// One process over a place.
pub struct Life {
    pub session: Arc<AgentSession>,
    pub world: World,
    pub drive: Option<ManualDrive>,
    pub log: Arc<Log>,
    run: Option<BoxFuture<'static, RunReport>>,
}

/// What a life is made with.
pub struct Setup<'a> {
    pub replies: Vec<Reply>,
    pub tools: Vec<&'a Arc<FakeTool>>,
    pub drive: Option<ManualDrive>,
    pub record: bool,
    pub retry: RetryPolicy,
    pub credentials: Arc<dyn Credentials>,
    pub model: Model,
    /// Models beside the one in use, of a provider that can be used.
    pub models_json: Option<&'a str>,
    pub compaction: CompactionSettings,
    pub hooks: Arc<dyn SessionHooks>,
    pub shell: Arc<dyn UserShell>,
    pub images: Arc<dyn UserImages>,
    pub settings: Arc<dyn SettingsStore>,
    pub resources: Arc<Resources>,
    pub thinking: ThinkingLevel,
    /// Patterns of the models to cycle through.
    pub scope: Vec<String>,
    pub system_prompt: PromptMaker,
}

impl Setup<'_> {
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            replies: replies.into_iter().collect(),
            tools: Vec::new(),
            drive: None,
            record: false,
            retry: RetryPolicy {
                enabled: false,
                ..RetryPolicy::default()
            },
            credentials: Arc::new(AlwaysKey),
            model: model(),
            models_json: None,
            compaction: CompactionSettings::default(),
            hooks: Arc::new(NoSessionHooks),
            shell: Arc::new(FakeShell::default()),
            images: Arc::new(ImagesAsGiven),
            settings: Arc::new(Remembers::default()),
            resources: no_resources(),
            thinking: ThinkingLevel::Off,
            scope: Vec::new(),
            system_prompt: Arc::new(|_| "system".to_owned()),
        }
    }
}

/// A session over `opened` in `world`, made as `setup` says. Its replies are the world's.
pub fn assemble(
    world: &World,
    opened: OpenedSession,
    setup: Setup<'_>,
    sinks: Sinks,
) -> AgentSession {
    let session = Arc::clone(&opened.session);
    let time: Arc<dyn TimeEffect> = Arc::clone(&world.time) as _;
    let base = Effects {
        tools: Arc::new(DirectTools::new(world.gate())),
        journal: Arc::new(SessionJournal::new(session, Arc::clone(&time))),
        ..world.effects()
    };
    let layers = Layers {
        record: setup.record,
        drive: setup.drive,
        ..Layers::default()
    };
    let effects = compose(base, &layers);
    let live = Arc::new(Live::default());
    let hooks = live.hooks(Arc::new(NoHooks));
    let options = AgentOptions::default();
    let agent = NativeAgent::new(effects.clone(), world.gate(), hooks, options);
    let tools = tools(setup.tools);
    let models = ModelRegistry::new(setup.models_json);
    let usable = |provider: &str| provider == "fake";
    let scope = models.scope(&setup.scope, &usable).0;
    AgentSession::new(SessionParts {
        agent: Arc::new(agent),
        live,
        opened,
        compaction: CompactionParts {
            settings: setup.compaction,
            by_model: std::collections::BTreeMap::new(),
            compactor: Compactor::new(effects.model, Arc::clone(&effects.time)),
            summary_model: None,
            branch_reserve_tokens: 16_384,
        },
        time: effects.time,
        credentials: setup.credentials,
        models: Arc::new(models),
        usable: Arc::new(usable),
        model: Arc::new(setup.model),
        on_model: Arc::new(|_| ()),
        thinking: setup.thinking,
        preferred_thinking: ThinkingLevel::Medium,
        scope: (setup.scope, scope),
        active_tools: tools.iter().map(|t| t.spec().name.clone()).collect(),
        tools,
        system_prompt: setup.system_prompt,
        resources: setup.resources,
        skill_commands: true,
        retry: setup.retry,
        forms: Arc::default(),
        queue_modes: Default::default(),
        settings: setup.settings,
        shell: setup.shell,
        images: setup.images,
        exporter: Arc::new(NoExporter),
        preview: Arc::new(PlainPreview),
        hooks: setup.hooks,
        background: Arc::new(Vec::new),
        sinks,
    })
}

impl Life {
    pub fn begin(place: &Place, mut setup: Setup<'_>) -> Self {
        let world = World::new(std::mem::take(&mut setup.replies));
        let opened = OpenedSession::new(place.open(), Arc::clone(&place.ids)).unwrap();
        let drive = setup.drive.clone();
        let session = assemble(&world, opened, setup, Sinks::default());
        let session = Arc::new(session);
        let log = Arc::new(Log::default());
        session.subscribe(Arc::clone(&log) as _);
        Self {
            session,
            world,
            drive,
            log,
            run: None,
        }
    }

    /// Takes a run over from a command.
    pub fn attend(&mut self, run: BoxFuture<'static, RunReport>) {
        self.run = Some(run);
    }

    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Submits a prompt; its run waits to be polled.
    pub fn prompt(&mut self, text: &str) {
        let prompt = Prompt {
            text: text.into(),
            ..Prompt::default()
        };
        self.submit(prompt).unwrap();
    }

    /// Submits a prompt that is not queued; its run waits to be polled.
    pub fn submit(&mut self, prompt: Prompt) -> Result<(), String> {
        match poll_to_end(self.session.prompt(prompt))? {
            Submitted::Run(run) => self.run = Some(run),
            Submitted::Queued => panic!("queued"),
            Submitted::Handled => panic!("handled by a hook"),
        }
        Ok(())
    }

    /// Polls the run for as long as something wakes it.
    pub fn poll(&mut self) -> Poll<RunReport> {
        let polled = poll_until_stalled(self.run.as_mut().unwrap());
        if polled.is_ready() {
            self.run = None;
        }
        polled
    }

    /// Names of the effects that wait after polling; empty once the run is over.
    pub fn parked(&mut self) -> Vec<String> {
        match self.poll() {
            Poll::Ready(_) => Vec::new(),
            Poll::Pending => self.drive.as_ref().unwrap().parked(),
        }
    }

    /// Lets an effect happen. Without a drive it has happened.
    pub fn pass(&mut self, name: &str) {
        if let Some(drive) = self.drive.clone() {
            let parked = self.parked();
            assert!(drive.release(name), "`{name}` does not wait: {parked:?}");
        }
    }

    /// Drops the run, as a front end that goes away does.
    pub fn drop_run(&mut self) {
        self.run = None;
    }

    /// Polls once more and lets the oldest effect that waits happen.
    pub fn step(&mut self) {
        let parked = self.parked_or_none();
        if let (Some(drive), Some(first)) = (&self.drive, parked.first()) {
            drive.release(first);
        }
    }

    fn parked_or_none(&mut self) -> Vec<String> {
        assert!(self.poll().is_pending(), "the run is over");
        self.drive
            .as_ref()
            .map(ManualDrive::parked)
            .unwrap_or_default()
    }

    /// Lets everything happen until the run is over.
    pub fn finish(&mut self) -> RunReport {
        loop {
            match self.poll() {
                Poll::Ready(report) => return report,
                Poll::Pending => {
                    let drive = self
                        .drive
                        .clone()
                        .expect("an automatic run waits for nobody");
                    let parked = drive.parked();
                    assert!(
                        parked.iter().any(|name| drive.release(name)),
                        "the run hangs"
                    );
                }
            }
        }
    }
}

/// The events of a session.
#[derive(Default)]
pub struct Log(Mutex<Vec<Event>>);

impl Log {
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// The names, with the role of messages and the kind of updates.
    pub fn names(&self) -> Vec<String> {
        self.events().iter().map(name).collect()
    }

    pub fn count(&self, wanted: &str) -> usize {
        self.names().iter().filter(|name| *name == wanted).count()
    }
}

impl EventSink for Log {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().push(event.clone());
        Box::pin(std::future::ready(()))
    }
}

fn name(event: &Event) -> String {
    match event {
        Event::MessageStart { message } | Event::MessageEnd { message } => {
            format!("{}({})", event.name(), message.role())
        }
        Event::MessageUpdate { delta } => format!("message_update:{}", delta.name()),
        Event::AgentEnd {
            will_retry: true, ..
        } => "agent_end(retry)".to_owned(),
        other => other.name().to_owned(),
    }
}

/// A key for everyone.
pub struct AlwaysKey;

impl Credentials for AlwaysKey {
    fn resolve<'a>(
        &'a self,
        _model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>> {
        let auth = RequestAuth {
            api_key: Some(Secret::new("k")),
            ..RequestAuth::default()
        };
        Box::pin(std::future::ready(Ok(auth)))
    }
}
