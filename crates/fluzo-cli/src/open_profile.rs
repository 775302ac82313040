//! What every session of the open profile is made from in this process: flags, settings,
//! resources, models and keys, read when a session is put together.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_agent::NoHooks;
use fluzo_credentials::KeyRing;
use fluzo_host::{
    AgentSession, ModelRegistry, OpenedSession, Resolved, Scoped, SessionFactory, Sinks,
    SystemPrompt, system_prompt,
};
use fluzo_llm::{Model, ThinkingLevel};
use fluzo_resources::Resources;
use fluzo_runtime::forms::FormMemory;
use fluzo_session::jsonl::import;
use fluzo_session::jsonl::list::{self, SessionInfo};
use fluzo_session::{Entry, Header, JsonlStore, MemoryStore, Session, SessionStore};
use fluzo_settings::{Settings, key};
use fluzo_stdx::error::with_causes;
use fluzo_stdx::ids::{IdSource, RandomIds};
use fluzo_stdx::time::iso_utc;
use fluzo_tools::registry;
use serde_json::{Value, json};

use crate::access::{Access, Renewals};
use crate::agent_folder::{AgentFolder, Asked};
use crate::arguments::Typed;
use crate::choose_model::Choice;
use crate::flags::Id;
use crate::resource_sources;
use crate::session_folder;
use crate::surroundings::{Surroundings, local_date, now_ms};
use crate::variables;
use crate::wiring::{self, Plan};
use crate::{packages, pi};

/// The open profile in this process.
pub(crate) struct OpenProfile {
    surroundings: Surroundings,
    typed: Typed,
    ids: Arc<dyn IdSource>,
    /// Forms that servers are known to demand; one value for the process.
    forms: Arc<FormMemory>,
    /// What has been read already, for the first session.
    loaded: Mutex<Option<Loaded>>,
    /// The model that was used last.
    last_model: Arc<Mutex<Option<Arc<Model>>>>,
    /// Whether requests will be made, so that a model that cannot be used will not do.
    answers: bool,
    warnings: Mutex<Vec<String>>,
    renewals: Arc<Renewals>,
    /// The folder that the program was started for.
    start: PathBuf,
    /// A session that goes on in another folder than its own, and that folder.
    elsewhere: Option<(String, PathBuf)>,
}

/// What is read anew for each session.
pub(crate) struct Loaded {
    pub(crate) folder: AgentFolder,
    pub(crate) models: Arc<ModelRegistry>,
    pub(crate) access: Access,
    /// Working folder that it was read for.
    workspace: PathBuf,
}

impl Loaded {
    /// Reads what there is for sessions in `workspace`.
    ///
    /// # Errors
    ///
    /// The text for the user.
    pub(crate) fn read(
        surroundings: &Surroundings,
        workspace: &Path,
        asked: &Asked,
        renewals: &Arc<Renewals>,
    ) -> Result<Self, String> {
        let folder = AgentFolder::read_for(surroundings, workspace, asked);
        let models = Arc::new(ModelRegistry::new(folder.models_json.as_deref()));
        let http = crate::network::client(surroundings, &folder.settings);
        let access = Access::new(surroundings, &folder, &asked.env_files, http, renewals)?;
        Ok(Self {
            folder,
            models,
            access,
            workspace: workspace.to_path_buf(),
        })
    }

    /// The file of the user's own models.
    pub(crate) fn models_json(&self) -> PathBuf {
        self.folder.path.join("models.json")
    }

    /// What the user should know of the files that were read.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = self.folder.warnings.clone();
        warnings.extend(pi::problems(&self.models, &self.models_json()));
        warnings.extend(self.access.warnings.iter().cloned());
        warnings
    }

    /// The keys of this invocation.
    pub(crate) fn keys(&self, typed: &Typed, model: Option<&Model>) -> KeyRing {
        keys(&self.access, &self.models, typed, model)
    }
}

/// The keys of this invocation; `--api-key` counts for `model`'s provider.
pub(crate) fn keys(
    access: &Access,
    models: &ModelRegistry,
    typed: &Typed,
    model: Option<&Model>,
) -> KeyRing {
    let ring = access
        .key_ring(models.keys(), models.headers())
        .with_bearers(models.bearers().iter().cloned());
    match (typed.value(Id::ApiKey), model) {
        (Some(key), Some(model)) => ring.with_key(&model.provider, key),
        _ => ring,
    }
}

impl OpenProfile {
    /// The profile, with what was read for its first session.
    pub(crate) fn new(
        surroundings: Surroundings,
        typed: Typed,
        loaded: Loaded,
        renewals: Arc<Renewals>,
        answers: bool,
    ) -> Self {
        Self {
            start: loaded.workspace.clone(),
            renewals,
            surroundings,
            typed,
            ids: Arc::new(RandomIds),
            forms: Arc::default(),
            loaded: Mutex::new(Some(loaded)),
            last_model: Arc::default(),
            answers,
            warnings: Mutex::default(),
            elsewhere: None,
        }
    }

    /// The profile, where the session in `store` goes on in `workspace`, be it its own folder
    /// or one that the user has named.
    #[must_use]
    pub(crate) fn at(mut self, store: &dyn SessionStore, workspace: &Path) -> Self {
        let header = store.header();
        if Path::new(&header.cwd) != workspace {
            self.elsewhere = Some((header.id, workspace.to_owned()));
        }
        self
    }

    fn workspace_of(&self, header: &Header) -> PathBuf {
        match &self.elsewhere {
            Some((id, workspace)) if *id == header.id => workspace.clone(),
            // Trust is about a folder, whatever link leads to it; what is above the link is not.
            _ => {
                let stored = PathBuf::from(&header.cwd);
                stored.canonicalize().unwrap_or(stored)
            }
        }
    }

    fn warn(&self, texts: impl IntoIterator<Item = String>) {
        lock(&self.warnings).extend(texts);
    }

    fn make(&self, store: Arc<dyn SessionStore>, sinks: Sinks) -> Result<AgentSession, String> {
        let workspace = self.workspace_of(&store.header());
        let first = lock(&self.loaded).take();
        let is_first = first.is_some();
        let loaded = match first {
            Some(loaded) => loaded,
            None => {
                let asked = self.asked(&workspace);
                let loaded = Loaded::read(&self.surroundings, &workspace, &asked, &self.renewals)?;
                self.warn(loaded.warnings());
                loaded
            }
        };
        let opened = OpenedSession::new(store, Arc::clone(&self.ids));
        let opened = opened.map_err(|error| with_causes(&error))?;
        let usable = usable(&loaded, &self.typed);
        let scope = self.scope(&loaded, &usable);
        let resolved = self.model(&loaded, &opened, &usable, &scope.1, is_first)?;
        let preferred_thinking = self.level(&loaded, &resolved, &opened, is_first);
        let thinking = resolved.model.clamp(preferred_thinking);
        let keys = loaded.keys(&self.typed, Some(&resolved.model));
        self.warn(keys.warning(&resolved.model));
        let resources = self.resources(&loaded, &workspace);
        let summary_model = self.summary_model(&loaded, &usable);
        let last_model = Arc::clone(&self.last_model);
        let remember = move |model: &Model| *lock(&last_model) = Some(Arc::new(model.clone()));
        let plan = Plan {
            surroundings: &self.surroundings,
            settings: &loaded.folder.settings,
            agent_folder: &loaded.folder.path,
            workspace: &workspace,
            opened,
            http: Arc::clone(&loaded.access.http),
            keys,
            models: Arc::clone(&loaded.models),
            usable,
            scope,
            summary_model,
            model: resolved.model,
            on_model: Arc::new(remember),
            thinking,
            preferred_thinking,
            all_tools: &self.all_tools(),
            tools: &self.tools(&loaded.folder.settings),
            variables: self.variables(),
            forms: Arc::clone(&self.forms),
            hooks: Arc::new(NoHooks),
            resources: Arc::clone(&resources),
            sinks,
        };
        let prompt = self.prompt_maker(&workspace, resources);
        wiring::session(plan, prompt)
    }

    fn model(
        &self,
        loaded: &Loaded,
        opened: &OpenedSession,
        usable: &BTreeSet<String>,
        scope: &[Scoped],
        is_first: bool,
    ) -> Result<Resolved, String> {
        let stored = opened.model.as_ref();
        let last = lock(&self.last_model).clone();
        if let (false, None, Some(model)) = (is_first, stored, last) {
            // A session that follows another one in this process goes on with its model.
            return Ok(Resolved {
                model,
                thinking: None,
                warning: None,
            });
        }
        let choice = Choice {
            typed: is_first.then_some(&self.typed),
            settings: &loaded.folder.settings,
            models: &loaded.models,
            usable: &|provider| usable.contains(provider),
            scope,
            stored: stored.map(|(p, id)| (p.as_str(), id.as_str())),
            any_will_do: !self.answers,
            models_json: &loaded.models_json(),
        };
        let resolved = choice.model()?;
        self.warn(resolved.warning.clone());
        Ok(resolved)
    }

    /// What there is of skills, templates and the rest for a session in `workspace`.
    fn resources(&self, loaded: &Loaded, workspace: &Path) -> Arc<Resources> {
        // What was decided is about the folder that was read for.
        let trusted = loaded.folder.trust.is_trusted() && loaded.workspace == workspace;
        let mut sources = resource_sources::sources(
            &self.surroundings,
            &loaded.folder,
            &self.typed,
            workspace,
            trusted,
        );
        let brought = packages::brought(&self.surroundings, &loaded.folder, workspace);
        self.warn(packages::notices(&brought));
        sources.packages = brought.resources;
        let resources = Arc::new(Resources::load(&sources));
        self.warn(resources.diagnostics.iter().map(ToString::to_string));
        resources
    }

    /// The model that the settings name for summaries. One that cannot be used is told, and
    /// summaries are made by the session's.
    fn summary_model(&self, loaded: &Loaded, usable: &BTreeSet<String>) -> Option<Arc<Model>> {
        let key = key::COMPACTION_SUMMARY_MODEL;
        let pattern = loaded.folder.settings.text(key)?;
        let can = |provider: &str| usable.contains(provider);
        let found = match loaded.models.resolve(None, pattern, &can) {
            Ok(found) if can(&found.model.provider) => return Some(found.model),
            Ok(found) => format!("there is no key for `{}`", found.model.provider),
            Err(error) => error,
        };
        self.warn([format!(
            "setting `{key}` was passed over, summaries are made by the session's model: {found}"
        )]);
        None
    }

    fn scope(&self, loaded: &Loaded, usable: &BTreeSet<String>) -> (Vec<String>, Vec<Scoped>) {
        let typed = self.typed.list(Id::Models);
        let configured = || loaded.folder.settings.texts(key::ENABLED_MODELS);
        let configured =
            || configured().map(|texts| texts.into_iter().map(str::to_owned).collect());
        let patterns: Vec<String> = typed.or_else(configured).unwrap_or_default();
        let (models, warnings) = loaded
            .models
            .scope(&patterns, &|provider| usable.contains(provider));
        self.warn(warnings);
        (patterns, models)
    }

    fn level(
        &self,
        loaded: &Loaded,
        resolved: &Resolved,
        stored: &OpenedSession,
        is_first: bool,
    ) -> ThinkingLevel {
        let typed = self.typed.value(Id::Thinking).filter(|_| is_first);
        if let Some(name) = typed {
            match ThinkingLevel::parse(name) {
                Some(level) => return level,
                None => {
                    let names = ThinkingLevel::ALL.map(ThinkingLevel::as_str).join(", ");
                    self.warn([format!(
                        "Invalid thinking level \"{name}\". Valid values: {names}"
                    )]);
                }
            }
        }
        let settings = &loaded.folder.settings;
        let of_model = || {
            let name = format!("{}/{}", resolved.model.provider, resolved.model.id);
            settings.entry(key::MODEL_THINKING_LEVELS, &name)?.as_str()
        };
        let setting = || of_model().or_else(|| settings.text(key::DEFAULT_THINKING_LEVEL));
        resolved
            .thinking
            .or(stored.thinking)
            .or_else(|| setting().and_then(ThinkingLevel::parse))
            .unwrap_or(ThinkingLevel::Medium)
    }

    fn tools(&self, settings: &Settings) -> Vec<String> {
        let allow = self.typed.list(Id::Tools);
        let none = self.typed.has(Id::NoTools) || self.typed.has(Id::NoBuiltinTools);
        let initial = if none {
            Vec::new()
        } else {
            let set = settings.texts(key::DEFAULT_TOOLS);
            set.unwrap_or_else(|| registry::DEFAULT.to_vec())
        };
        let deny = self.typed.list(Id::ExcludeTools).unwrap_or_default();
        let selection = registry::select(&initial, allow.as_deref(), &deny, &[]);
        self.warn(
            selection
                .unknown
                .iter()
                .map(|name| format!("unknown tool \"{name}\"")),
        );
        selection.active
    }

    /// Tools that may be offered in the course of a session.
    fn all_tools(&self) -> Vec<String> {
        let allow = self.typed.list(Id::Tools);
        let deny = self.typed.list(Id::ExcludeTools).unwrap_or_default();
        registry::select(&registry::ALL, allow.as_deref(), &deny, &[]).active
    }

    /// What commands get besides what they inherit.
    fn variables(&self) -> Vec<(OsString, OsString)> {
        let is_offline = self.typed.has(Id::Offline);
        let names = variables::OFFLINE.iter().filter(|_| is_offline);
        names.map(|name| ((*name).into(), "1".into())).collect()
    }

    fn prompt_maker(&self, workspace: &Path, resources: Arc<Resources>) -> fluzo_host::PromptMaker {
        let text = |file: &fluzo_resources::PromptFile| file.text.clone();
        let custom = self
            .prompt_text(Id::SystemPrompt, workspace)
            .or_else(|| resources.system.as_ref().map(text));
        let append = self
            .prompt_text(Id::AppendSystemPrompt, workspace)
            .or_else(|| resources.append.as_ref().map(text));
        let docs = resource_sources::docs(&self.surroundings);
        let (date, cwd) = (local_date(), workspace.to_string_lossy().into_owned());
        Arc::new(move |tools| {
            let parts = SystemPrompt {
                custom: custom.as_deref(),
                docs: &docs,
                append: append.as_deref(),
                context_files: &resources.context_files,
                skills: &resources.skills,
                date: &date,
                cwd: &cwd,
            };
            system_prompt(&parts, tools)
        })
    }

    /// Text, or the content of the file of that name.
    fn prompt_text(&self, id: Id, workspace: &Path) -> Option<String> {
        let values = self.typed.values(id);
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
                    self.warn([format!(
                        "Could not read system prompt file {}: {error}",
                        path.display()
                    )]);
                    value.clone()
                })
        });
        let texts: Vec<String> = texts.collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The folder that holds the file of `session`, else where new sessions of its working
    /// folder are kept.
    fn folder_of(&self, session: &Session) -> PathBuf {
        let own = session.path();
        let own = own.as_deref().and_then(Path::parent).map(Path::to_owned);
        own.unwrap_or_else(|| {
            let cwd = session.header().cwd;
            let workspace = Path::new(&cwd);
            let folder = self.agent_folder(workspace);
            folder.sessions(&self.surroundings, workspace).0
        })
    }

    fn agent_folder(&self, workspace: &Path) -> AgentFolder {
        AgentFolder::read_for(&self.surroundings, workspace, &self.asked(workspace))
    }

    /// What the command line says of a session in `workspace`. `--approve` is said of the
    /// folder that the program was started for, and of no other that a session leads to.
    fn asked(&self, workspace: &Path) -> Asked {
        // Flags that contradict each other were refused at the start.
        let mut asked = Asked::of(&self.typed).unwrap_or_default();
        if workspace != self.start {
            asked.approve = asked.approve.filter(|approves| !approves);
        }
        asked
    }
}

impl SessionFactory for OpenProfile {
    fn create(
        &self,
        beside: &Session,
        parent: Option<String>,
        entries: Vec<Entry>,
    ) -> Result<Arc<dyn SessionStore>, String> {
        let now = now_ms();
        let cwd = beside.header().cwd;
        let mut header = Header::new(self.ids.session_id(now), iso_utc(now), cwd);
        header.parent_session = parent;
        if beside.path().is_none() {
            return Ok(Arc::new(MemoryStore::with_entries(header, entries)));
        }
        let folder = self.folder_of(beside);
        let store = JsonlStore::create_in(&folder, header, entries, Arc::clone(&self.ids));
        Ok(Arc::new(store.map_err(|error| with_causes(&error))?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn SessionStore>, String> {
        let path = self.surroundings.path(&path.to_string_lossy());
        // A link that leads nowhere is no place for a new session.
        let store = if path.symlink_metadata().is_ok() {
            JsonlStore::open(&path, Arc::clone(&self.ids))
        } else {
            let now = now_ms();
            let cwd = self.surroundings.cwd.clone()?;
            let id = self.ids.session_id(now);
            let header = Header::new(id, iso_utc(now), cwd.to_string_lossy());
            JsonlStore::create(&path, header, Vec::new(), Arc::clone(&self.ids))
        };
        let store = store.map_err(|error| with_causes(&error))?;
        let cwd = PathBuf::from(SessionStore::header(&store).cwd);
        if !session_folder::is_there(&cwd) {
            return Err(format!(
                "Stored session working directory does not exist: {}",
                cwd.display()
            ));
        }
        Ok(Arc::new(store))
    }

    fn import(&self, beside: &Session, path: &Path) -> Result<PathBuf, String> {
        let path = self.surroundings.path(&path.to_string_lossy());
        let imported = import::import(&path, &self.folder_of(beside));
        let imported = imported.map_err(|error| with_causes(&error))?;
        self.warn(imported.notice());
        Ok(imported.path)
    }

    fn list(&self, all: bool) -> Result<Value, String> {
        let cwd = self.surroundings.cwd.clone()?;
        let agent_folder = self.agent_folder(&cwd);
        let (folder, root) = agent_folder.sessions(&self.surroundings, &cwd);
        let cwd = cwd.to_string_lossy();
        let own = (!all).then_some(&*cwd);
        let found = match &root {
            Some(root) if all => list::list_all(root),
            _ => list::list(&folder),
        };
        let old = match root {
            Some(_) => list::list_old(&agent_folder.path, own),
            None => Ok(Vec::new()),
        };
        let mut found = found.map_err(|error| with_causes(&error))?;
        found.extend(old.map_err(|error| with_causes(&error))?);
        found.sort_by_key(|info| std::cmp::Reverse(info.modified_ms));
        Ok(found.iter().map(shown).collect())
    }

    fn build(&self, store: Arc<dyn SessionStore>, sinks: Sinks) -> Result<AgentSession, String> {
        self.make(store, sinks)
    }

    fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.warnings))
    }
}

/// A session of a list, as clients see it.
fn shown(info: &SessionInfo) -> Value {
    json!({
        "path": info.path.to_string_lossy(), "id": info.header.id, "cwd": info.header.cwd,
        "name": info.name, "parentSessionPath": info.header.parent_session,
        "created": info.header.timestamp, "modified": iso_utc(info.modified_ms),
        "messageCount": info.message_count, "firstMessage": info.first_message,
        "folderGone": info.folder_gone,
    })
}

/// Providers that requests can be authorised for.
fn usable(loaded: &Loaded, typed: &Typed) -> BTreeSet<String> {
    let ring = loaded.keys(typed, None);
    let available = ring.available();
    let providers = loaded.models.providers();
    let usable = providers.into_iter().filter(|p| available.has(p));
    usable.map(str::to_owned).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
