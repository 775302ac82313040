//! The composition root of the open profile: puts agent, tools, provider and session
//! together. What a profile is, is decided here and nowhere below.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fluzo_agent::{
    AgentOptions, DirectTools, Effects, Gate, Hooks, NativeAgent, NobodyToAsk, QueueMode,
    TimeEffect, Tool, ToolSet,
};
use fluzo_credentials::KeyRing;
use fluzo_exec::{
    Environment, LocalFileSystem, LocalProcesses, LocalProcessesConfig, LocalSearch,
    LocalSearchConfig, PathLocks,
};
use fluzo_host::{
    AgentSession, CompactionParts, Live, ModelRegistry, ModelSizes, NoSessionHooks, OpenedSession,
    PromptMaker, Scoped, SessionParts, Sinks,
};
use fluzo_llm::{CacheRetention, Credentials, Model, Provider, ThinkingLevel};
use fluzo_policy::AllowAll;
use fluzo_protocol::DrainMode;
use fluzo_providers::{HttpClient, LimitPolicy, UnknownDialect};
use fluzo_resources::Resources;
use fluzo_runtime::clock::TokioTime;
use fluzo_runtime::compact::{CompactionSettings, Compactor};
use fluzo_runtime::compose::{Layers, compose};
use fluzo_runtime::forms::FormMemory;
use fluzo_runtime::journal::SessionJournal;
use fluzo_runtime::model::{Dialects, ProviderModel};
use fluzo_runtime::provider_attempts;
use fluzo_runtime::retry::RetryPolicy;
use fluzo_settings::{Settings, key};
use fluzo_stdx::similar;
use fluzo_tools::{BashEnvironment, SpillPolicy, ToolEnv, ToolLimits};
use serde_json::Value;

use crate::network;
use crate::session_exports;
use crate::session_services::{FittedImages, ToolShell, UserSettings, WirePreview};
use crate::surroundings::{Surroundings, now_ms};
use crate::variables;

/// What the model reads in the place of images when the settings keep them back.
const NO_IMAGES: &str = "Image reading is disabled.";

/// What a session of the open profile is made from.
pub(crate) struct Plan<'a> {
    pub(crate) surroundings: &'a Surroundings,
    pub(crate) settings: &'a Settings,
    pub(crate) agent_folder: &'a Path,
    pub(crate) workspace: &'a Path,
    pub(crate) opened: OpenedSession,
    /// The client of all requests.
    pub(crate) http: Arc<HttpClient>,
    pub(crate) keys: KeyRing,
    pub(crate) models: Arc<ModelRegistry>,
    /// Providers that requests can be authorised for.
    pub(crate) usable: BTreeSet<String>,
    /// Models to cycle through, with the patterns they come from.
    pub(crate) scope: (Vec<String>, Vec<Scoped>),
    pub(crate) model: Arc<Model>,
    /// The model of summaries, when it is another one.
    pub(crate) summary_model: Option<Arc<Model>>,
    /// Told of the model in use.
    pub(crate) on_model: Arc<dyn Fn(&Model) + Send + Sync>,
    pub(crate) thinking: ThinkingLevel,
    /// How much a model is to think that can, after one that cannot.
    pub(crate) preferred_thinking: ThinkingLevel,
    /// Names of all tools that may be offered.
    pub(crate) all_tools: &'a [String],
    /// Names of the tools on offer, in order.
    pub(crate) tools: &'a [String],
    /// Variables that commands get besides the inherited ones.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Forms that servers are known to demand; one value for the process.
    pub(crate) forms: Arc<FormMemory>,
    /// Hooks of the runs.
    pub(crate) hooks: Arc<dyn Hooks>,
    /// Skills, templates and the rest.
    pub(crate) resources: Arc<Resources>,
    /// Where events go.
    pub(crate) sinks: Sinks,
}

/// Puts a session together; `system_prompt` makes its prompt.
///
/// # Errors
///
/// The text for the user when no shell can be found.
pub(crate) fn session(plan: Plan<'_>, system_prompt: PromptMaker) -> Result<AgentSession, String> {
    let env = tool_env(&plan)?;
    let time: Arc<dyn TimeEffect> = Arc::new(TokioTime::new(now_ms));
    let session = Arc::clone(&plan.opened.session);
    let keys = Arc::new(plan.keys);
    let credentials: Arc<dyn Credentials> = Arc::clone(&keys) as _;
    let gate = Gate::new(Arc::new(AllowAll));
    let dialects = Arc::new(HttpDialects {
        http: Arc::clone(&plan.http),
        limits: network::limits(plan.settings),
    });
    let (cache, budgets) = (
        cache_retention(plan.surroundings),
        thinking_budgets(plan.settings),
    );
    let text_for_images = plan.settings.bool(key::IMAGES_BLOCK).then_some(NO_IMAGES);
    let preview = WirePreview {
        forms: Arc::clone(&plan.forms),
        keys,
        cache,
        thinking_budgets: budgets.clone(),
        text_for_images,
    };
    let base = Effects {
        model: Arc::new(
            ProviderModel::new(dialects, Arc::clone(&credentials), Arc::clone(&plan.forms))
                .with_options(cache, budgets)
                .with_text_for_images(text_for_images),
        ),
        tools: Arc::new(DirectTools::new(gate.clone())),
        human: Arc::new(NobodyToAsk),
        time: Arc::clone(&time),
        journal: Arc::new(SessionJournal::new(session, Arc::clone(&time))),
    };
    let effects = compose(base, &layers(plan.settings));
    let live = Arc::new(Live::default());
    let hooks = live.hooks(Arc::clone(&plan.hooks));
    let agent = NativeAgent::new(effects.clone(), gate, hooks, options(plan.settings));
    let (model, clock) = (Arc::clone(&effects.model), Arc::clone(&effects.time));
    let compactor = Compactor::new(model, clock).with_forms(Arc::clone(&plan.forms));
    let tools = plan
        .all_tools
        .iter()
        .filter_map(|name| fluzo_tools::registry::builtin(name, &env));
    let (processes, on_model) = (Arc::clone(&env.processes), plan.on_model);
    let shell = Arc::new(ToolShell(Arc::clone(&env)));
    let parts = SessionParts {
        agent: Arc::new(agent),
        live,
        opened: plan.opened,
        time: effects.time,
        credentials,
        models: plan.models,
        usable: Arc::new(move |provider| plan.usable.contains(provider)),
        model: plan.model,
        thinking: plan.thinking,
        preferred_thinking: plan.preferred_thinking,
        scope: plan.scope,
        tools: ToolSet::new(tools.collect::<Vec<Arc<dyn Tool>>>()),
        active_tools: plan.tools.to_vec(),
        on_model: Arc::new(move |model| {
            let takes = model.takes_images();
            env.model_takes_images.store(takes, Ordering::SeqCst);
            on_model(model);
        }),
        system_prompt,
        resources: plan.resources,
        skill_commands: plan.settings.bool(key::ENABLE_SKILL_COMMANDS),
        retry: retry(plan.settings),
        forms: plan.forms,
        compaction: compaction(plan.settings, compactor, plan.summary_model),
        queue_modes: (
            drain_mode(plan.settings, key::STEERING_MODE),
            drain_mode(plan.settings, key::FOLLOW_UP_MODE),
        ),
        settings: Arc::new(UserSettings::new(plan.agent_folder)),
        shell,
        images: Arc::new(FittedImages {
            resize: plan.settings.bool(key::IMAGES_AUTO_RESIZE),
        }),
        exporter: Arc::new(session_exports::of(plan.surroundings, plan.workspace)),
        preview: Arc::new(preview),
        hooks: Arc::new(NoSessionHooks),
        background: Arc::new(move || processes.background()),
        sinks: plan.sinks,
    };
    Ok(AgentSession::new(parts))
}

fn compaction(
    settings: &Settings,
    compactor: Compactor,
    summary_model: Option<Arc<Model>>,
) -> CompactionParts {
    let number = |key: &str, default: u64| settings.number(key).unwrap_or(default);
    let default = CompactionSettings::default();
    CompactionParts {
        settings: CompactionSettings {
            enabled: settings.bool(key::COMPACTION_ENABLED),
            reserve_tokens: number(key::COMPACTION_RESERVE_TOKENS, default.reserve_tokens),
            keep_recent_tokens: number(
                key::COMPACTION_KEEP_RECENT_TOKENS,
                default.keep_recent_tokens,
            ),
        },
        by_model: sizes_by_model(settings),
        compactor,
        summary_model,
        branch_reserve_tokens: number(key::BRANCH_SUMMARY_RESERVE_TOKENS, default.reserve_tokens),
    }
}

fn sizes_by_model(settings: &Settings) -> BTreeMap<String, ModelSizes> {
    let table = settings.value(key::COMPACTION_MODEL_OVERRIDES).as_object();
    let sizes = table.into_iter().flatten().map(|(model, own)| {
        let number = |name: &str| own.get(name).and_then(Value::as_u64);
        let sizes = ModelSizes {
            reserve_tokens: number("reserveTokens"),
            keep_recent_tokens: number("keepRecentTokens"),
        };
        (model.clone(), sizes)
    });
    sizes.collect()
}

/// What the tools of a session share.
fn tool_env(plan: &Plan<'_>) -> Result<Arc<ToolEnv>, String> {
    Ok(Arc::new(ToolEnv {
        cwd: plan.workspace.to_owned(),
        home: plan.surroundings.home.clone(),
        fs: Arc::new(LocalFileSystem),
        search: Arc::new(LocalSearch::new(LocalSearchConfig::default())),
        processes: Arc::new(LocalProcesses::new(LocalProcessesConfig::default())),
        locks: PathLocks::new(),
        limits: ToolLimits::OPEN,
        bash: bash(plan)?,
        model_takes_images: AtomicBool::new(plan.model.takes_images()),
        resize_images: plan.settings.bool(key::IMAGES_AUTO_RESIZE),
    }))
}

fn bash(plan: &Plan<'_>) -> Result<BashEnvironment, String> {
    let settings = plan.settings;
    let mut set = plan.variables.clone();
    set.push(("PI_CODING_AGENT".into(), "true".into()));
    Ok(BashEnvironment {
        shell: shell(plan.surroundings, settings.text(key::SHELL_PATH))?,
        prefix: settings.text(key::SHELL_COMMAND_PREFIX).map(str::to_owned),
        environment: Environment::Inherit {
            set,
            path_prefix: Some(plan.agent_folder.join("bin")),
        },
        spill: SpillPolicy::File {
            folder: std::env::temp_dir(),
            max_bytes: settings
                .number(key::SHELL_OUTPUT_MAX_BYTES)
                .unwrap_or(SpillPolicy::OPEN_MAX_BYTES),
        },
        time: Arc::new(TokioTime::new(now_ms)),
    })
}

fn shell(surroundings: &Surroundings, chosen: Option<&str>) -> Result<PathBuf, String> {
    if let Some(path) = chosen {
        let path = surroundings.path(path);
        return if path.exists() {
            Ok(path)
        } else {
            Err(format!("Custom shell path not found: {}", path.display()))
        };
    }
    let usual = PathBuf::from("/bin/bash");
    if usual.exists() {
        return Ok(usual);
    }
    let path = surroundings.variable("PATH").unwrap_or_default();
    let on_path = |name: &str| {
        std::env::split_paths(path)
            .map(|p| p.join(name))
            .find(|p| p.exists())
    };
    on_path("bash")
        .or_else(|| on_path("sh"))
        .ok_or_else(|| "no shell found\nhint: name one with the setting `shellPath`".to_owned())
}

fn options(settings: &Settings) -> AgentOptions {
    let mode = |name: &str| match drain_mode(settings, name) {
        DrainMode::All => QueueMode::All,
        DrainMode::OneAtATime => QueueMode::OneAtATime,
    };
    AgentOptions {
        steering: mode(key::STEERING_MODE),
        follow_up: mode(key::FOLLOW_UP_MODE),
        loop_guard: settings.bool(key::LOOP_GUARD),
        ..AgentOptions::default()
    }
}

/// How long servers are asked to keep the beginning of requests.
fn cache_retention(surroundings: &Surroundings) -> CacheRetention {
    match surroundings.variable(variables::CACHE_RETENTION) {
        Some("long") => CacheRetention::Long,
        _ => CacheRetention::default(),
    }
}

/// The budgets for thinking that are set, in tokens.
fn thinking_budgets(settings: &Settings) -> BTreeMap<ThinkingLevel, u64> {
    let keys = [
        (ThinkingLevel::Minimal, key::THINKING_BUDGET_MINIMAL),
        (ThinkingLevel::Low, key::THINKING_BUDGET_LOW),
        (ThinkingLevel::Medium, key::THINKING_BUDGET_MEDIUM),
        (ThinkingLevel::High, key::THINKING_BUDGET_HIGH),
    ];
    let set = |(level, key)| Some((level, settings.number(key)?));
    keys.into_iter().filter_map(set).collect()
}

fn drain_mode(settings: &Settings, name: &str) -> DrainMode {
    DrainMode::parse(settings.text(name).unwrap_or_default())
}

fn retry(settings: &Settings) -> RetryPolicy {
    let default = RetryPolicy::default();
    let ms =
        |key: &str, default: Duration| settings.number(key).map_or(default, Duration::from_millis);
    RetryPolicy {
        enabled: settings.bool(key::RETRY_ENABLED),
        max_retries: retries(settings, key::RETRY_MAX).unwrap_or(default.max_retries),
        base_delay: ms(key::RETRY_BASE_DELAY_MS, default.base_delay),
        longest_delay: settings
            .number(key::RETRY_MAX_AGENT_DELAY_MS)
            .map(Duration::from_millis),
        max_wait: ms(key::RETRY_MAX_WAIT_MS, default.max_wait),
        ..default
    }
}

/// Attempts of one request, when any are wanted.
fn layers(settings: &Settings) -> Layers {
    let attempts = retries(settings, key::RETRY_PROVIDER_MAX).filter(|most| *most > 0);
    let wait = settings.number(key::RETRY_PROVIDER_MAX_DELAY_MS);
    // Zero accepts any wait.
    let wait = wait.filter(|ms| *ms > 0);
    let wait = wait.map_or(Duration::MAX, Duration::from_millis);
    Layers {
        attempts: attempts.map(|most| provider_attempts::policy(most, wait)),
        ..Layers::default()
    }
}

fn retries(settings: &Settings, key: &str) -> Option<u32> {
    let set = settings.number(key)?;
    Some(u32::try_from(set).unwrap_or(u32::MAX))
}

/// Dialects over one HTTP client, which is built at the first request.
struct HttpDialects {
    http: Arc<HttpClient>,
    limits: LimitPolicy,
}

impl Dialects for HttpDialects {
    fn provider(&self, api: &str) -> Result<Arc<dyn Provider>, String> {
        fluzo_providers::provider_for(api, Arc::clone(&self.http), self.limits, Arc::new(now_ms))
            .map_err(|error| unspoken(&error))
    }
}

/// What the user reads of a dialect that is not spoken.
pub(crate) fn unspoken(error: &UnknownDialect) -> String {
    let UnknownDialect::Unknown { api } = error else {
        return error.to_string();
    };
    let close = similar::close(api, fluzo_providers::dialects());
    let meant = close
        .first()
        .map_or_else(String::new, |name| format!("did you mean \"{name}\"? "));
    let known: Vec<&str> = fluzo_providers::dialects().collect();
    format!("{error}\nhint: {meant}there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_dialects_of_the_catalogue_are_those_that_are_spoken() {
        let listed: BTreeSet<&str> = fluzo_catalogue::dialect::ALL.into_iter().collect();
        let spoken: BTreeSet<&str> = fluzo_providers::dialects().collect();
        assert_eq!(listed, spoken);
    }

    #[test]
    fn a_dialect_that_is_not_spoken_names_those_that_are() {
        let unknown = |api: &str| unspoken(&UnknownDialect::Unknown { api: api.into() });
        let text = unknown("openai-completion");
        assert!(
            text.starts_with("No API provider registered for api: openai-completion\nhint: did you mean \"openai-completions\"? there are "),
            "{text}"
        );
        assert!(
            unknown("x").contains("\nhint: there are openai-completions, "),
            "{}",
            unknown("x")
        );
    }
}
