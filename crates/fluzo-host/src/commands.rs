//! Commands of front ends, apart from prompts: which part of the session carries them out.

use std::sync::Arc;

use fluzo_agent::compaction::context_tokens;
use fluzo_llm::{Message, ModelRequest, RequestAuth, RequestOptions, ThinkingLevel, Transcript};
use fluzo_protocol::{Command, Direction, Executed, QueueBehavior};
use fluzo_session::stats::{ContextUsage, Stats};
use fluzo_settings::key;
use fluzo_stdx::error::with_causes;
use serde_json::{Value, json};

use crate::choice::{Choice, Scoped, levels};
use crate::services::Export;
use crate::session::{ENDING, Inner, said, unsaved};

/// Commands that another session follows from; who holds the session carries them out.
const ELSEWHERE: &str = "this command needs the host of the session";

impl Inner {
    pub(crate) async fn execute(self: &Arc<Self>, command: Command) -> Result<Executed, String> {
        match command {
            Command::Prompt { .. } => Err("a prompt is started, not executed".to_owned()),
            Command::Steer { message, images } => {
                let message = self.expand_queued(message, images).await?;
                self.enqueue(QueueBehavior::Steer, message).await;
                Ok(Executed::done())
            }
            Command::FollowUp { message, images } => {
                let message = self.expand_queued(message, images).await?;
                self.enqueue(QueueBehavior::FollowUp, message).await;
                Ok(Executed::done())
            }
            Command::ClearQueue => self.clear_queue().await,
            Command::Abort => {
                self.abort_run();
                // A compaction that the user asked for and the summary of a branch are no run, and
                // each is ended by its own command.
                if !self.compacting.is_manual() && !self.branch_summary.is_occupied() {
                    self.claims.free().await;
                }
                Ok(Executed::done())
            }
            Command::AbortRetry
            | Command::AbortCompaction
            | Command::AbortBranchSummary
            | Command::AbortShare
            | Command::AbortBash => {
                self.end_part(&command);
                Ok(Executed::done())
            }
            Command::Compact {
                custom_instructions,
            } => self.compact(custom_instructions).await,
            Command::Bash {
                command,
                exclude_from_context,
            } => self.bash(&command, exclude_from_context).await,
            Command::NavigateTree { .. }
            | Command::SetLabel { .. }
            | Command::GetEntries { .. }
            | Command::GetTree
            | Command::GetForkMessages
            | Command::SetSessionName { .. } => self.execute_on_tree(command).await,
            Command::NewSession { .. }
            | Command::SwitchSession { .. }
            | Command::ImportSession { .. }
            | Command::ListSessions { .. }
            | Command::Fork { .. }
            | Command::Clone
            | Command::Reload => Err(ELSEWHERE.to_owned()),
            Command::ExportHtml { .. } | Command::ExportJsonl { .. } | Command::Share => {
                self.export(command).await
            }
            other => self.look_or_choose(other).await,
        }
    }

    async fn look_or_choose(&self, command: Command) -> Result<Executed, String> {
        match command {
            Command::GetState => Executed::with(&self.snapshot()),
            Command::GetMessages => {
                let messages = self.core.context().clone();
                Executed::with(&json!({ "messages": messages }))
            }
            Command::GetLastAssistantText => self.last_text(),
            Command::GetSessionStats => self.stats(),
            Command::GetCommands => Executed::with(&json!({ "commands": self.prompt_commands() })),
            Command::GetDiagnostics => {
                Executed::with(&json!({ "diagnostics": self.resources.diagnostics }))
            }
            Command::GetTools => self.tools(),
            Command::GetActiveTools => {
                let names = names(&self.core.choice());
                Executed::with(&json!({ "tools": names }))
            }
            Command::SetActiveTools { names } => self.set_active_tools(&names).await,
            Command::GetRequest => self.request(),
            other => self.execute_on_models(other).await,
        }
    }

    async fn execute_on_models(&self, command: Command) -> Result<Executed, String> {
        match command {
            Command::SetModel { provider, model_id } => self.set_model(&provider, &model_id).await,
            Command::CycleModel { direction } => self.cycle_model(direction).await,
            Command::GetAvailableModels => {
                let models: Vec<_> = self
                    .available()
                    .map(|m| m.model.without_secrets())
                    .collect();
                Executed::with(&json!({ "models": models }))
            }
            Command::GetScopedModels => self.scoped_models(),
            Command::SetScopedModels { patterns } => self.set_scoped_models(patterns).await,
            Command::SetThinkingLevel { level } => {
                self.set_level(level).await;
                Ok(Executed::done())
            }
            Command::CycleThinkingLevel => {
                let next = self.core.choice().next_level();
                match next {
                    Some(level) => {
                        self.set_level(level).await;
                        Executed::with(&json!({ "level": level }))
                    }
                    None => Executed::with(&Value::Null),
                }
            }
            Command::GetAvailableThinkingLevels => {
                let levels = levels(&self.core.choice().model);
                Executed::with(&json!({ "levels": levels }))
            }
            Command::SetSteeringMode { mode } => {
                self.set_queue_modes(|modes| modes.0 = mode);
                self.keep(key::STEERING_MODE, json!(mode))
            }
            Command::SetFollowUpMode { mode } => {
                self.set_queue_modes(|modes| modes.1 = mode);
                self.keep(key::FOLLOW_UP_MODE, json!(mode))
            }
            Command::SetAutoCompaction { enabled } => {
                self.compacting.set_enabled(enabled);
                self.keep(key::COMPACTION_ENABLED, json!(enabled))
            }
            Command::SetAutoRetry { enabled } => {
                self.attempts.set_enabled(enabled);
                self.keep(key::RETRY_ENABLED, json!(enabled))
            }
            other => Err(format!("Unknown command: {}", other.name())),
        }
    }

    /// Ends the part that the command names, if it goes on.
    fn end_part(&self, command: &Command) {
        match command {
            Command::AbortRetry => self.operation.cancel_wait(),
            Command::AbortCompaction => self.compacting.cancel(),
            Command::AbortBranchSummary => self.branch_summary.cancel(),
            Command::AbortShare => self.sharing.cancel(),
            _ => self.commands.cancel(),
        }
    }

    pub(crate) async fn clear_queue(&self) -> Result<Executed, String> {
        let queued = self.agent.clear_queues();
        self.core.broadcast.show_queue().await;
        let text = |message: &Arc<Message>| said(message);
        let steering: Vec<String> = queued.steering.iter().map(text).collect();
        let follow_up: Vec<String> = queued.follow_up.iter().map(text).collect();
        Executed::with(&json!({ "steering": steering, "followUp": follow_up }))
    }

    async fn compact(self: &Arc<Self>, focus: Option<String>) -> Result<Executed, String> {
        // What runs is ended first; a prompt that comes now is refused or queued.
        self.abort_run();
        let claim = self.claims.wait().await;
        if self.is_ending() {
            return Err(ENDING.to_owned());
        }
        self.begin()?;
        let result = self.compacting.manual(focus).await;
        self.flush();
        let run = self.go_on(claim);
        match result {
            Err(error) if run.is_none() => Err(error),
            // What waited is answered all the same.
            Err(error) => Ok(Executed {
                error: Some(error),
                run,
                ..Executed::default()
            }),
            Ok(result) => Ok(Executed {
                run,
                ..Executed::with(&result)?
            }),
        }
    }

    async fn bash(&self, command: &str, exclude: bool) -> Result<Executed, String> {
        let result = self.commands.run(command, exclude, &self.core).await?;
        // While a run is active its end, or the next prompt, stores what waits.
        if let Some(claim) = self.claims.take() {
            let stored = self.begin();
            drop(claim);
            stored?;
        }
        let mut data = json!({ "output": result.output });
        if let Some(code) = result.exit_code {
            data["exitCode"] = json!(code);
        }
        data["cancelled"] = json!(result.cancelled);
        data["truncated"] = json!(result.truncated);
        if let Some(path) = &result.full_output_path {
            data["fullOutputPath"] = json!(path);
        }
        Executed::with(&data)
    }

    fn last_text(&self) -> Result<Executed, String> {
        let context = self.core.context();
        let assistant = |message: &Arc<Message>| {
            let assistant = message.as_assistant()?;
            let text = fluzo_llm::content::joined_text(&assistant.content);
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        match context.iter().rev().find_map(assistant) {
            Some(text) => Executed::with(&json!({ "text": text })),
            None => Executed::with(&json!({})),
        }
    }

    fn stats(&self) -> Result<Executed, String> {
        let session = &self.core.session;
        let stats = Stats::of_all(&**session.store());
        let mut stats = stats.map_err(|error| with_causes(&error))?;
        let window = self.core.choice().model.context_window;
        let tokens = context_tokens(&self.core.context());
        let known = tokens.is_reported().then_some(tokens.tokens);
        stats.context_usage = (window > 0).then(|| ContextUsage::new(known, window));
        Executed::with(&stats)
    }

    fn tools(&self) -> Result<Executed, String> {
        let choice = self.core.choice();
        let active = names(&choice);
        let tools: Vec<Value> = choice
            .all_tools
            .iter()
            .map(|tool| {
                let spec = tool.spec();
                json!({ "name": spec.name, "description": spec.description,
                    "active": active.contains(&spec.name) })
            })
            .collect();
        Executed::with(&json!({ "tools": tools }))
    }

    async fn set_active_tools(&self, names: &[String]) -> Result<Executed, String> {
        let unknown: Vec<String> = {
            let choice = self.core.choice();
            let unknown = |name: &&String| choice.all_tools.find(name).is_none();
            names.iter().filter(unknown).cloned().collect()
        };
        if let Some(name) = unknown.first() {
            return Err(format!("Unknown tool: {name}"));
        }
        let chosen = self.core.choose(|choice| choice.offer(names)).await;
        chosen.map_err(|error| unsaved(&error))?;
        Ok(Executed::done())
    }

    /// What the next request says, but for the prompt that is not there yet.
    fn request(&self) -> Result<Executed, String> {
        let context = self.core.view();
        let request = ModelRequest {
            model: context.model,
            system_prompt: context.system_prompt,
            transcript: Transcript::from_context(&context.messages),
            tools: context.tools.specs(),
            options: RequestOptions {
                thinking: context.thinking,
                session_id: context.session_id,
                ..RequestOptions::default()
            },
            auth: RequestAuth::default(),
        };
        Executed::with(&self.preview.body(request)?)
    }

    async fn set_model(&self, provider: &str, id: &str) -> Result<Executed, String> {
        let found = self.models.find(provider, id);
        let model = found
            .filter(|model| (self.usable)(&model.provider))
            .ok_or_else(|| format!("Model not found: {provider}/{id}"))?;
        let shown = model.without_secrets();
        let scoped = Scoped {
            model,
            thinking: None,
        };
        self.use_model(scoped).await?;
        Executed::with(&shown)
    }

    async fn cycle_model(&self, direction: Direction) -> Result<Executed, String> {
        let (models, is_scoped) = {
            let choice = self.core.choice();
            let usable = |scoped: &&Scoped| (self.usable)(&scoped.model.provider);
            let scope: Vec<Scoped> = choice.scope.iter().filter(usable).cloned().collect();
            let is_scoped = !choice.scope.is_empty();
            (scope, is_scoped)
        };
        let models = if is_scoped {
            models
        } else {
            self.available().collect()
        };
        let next = self.core.choice().next(&models, direction);
        let Some(next) = next else {
            return Executed::with(&Value::Null);
        };
        let model = next.model.without_secrets();
        self.use_model(next).await?;
        let level = self.core.choice().thinking;
        Executed::with(&json!({ "model": model, "thinkingLevel": level, "isScoped": is_scoped }))
    }

    async fn use_model(&self, scoped: Scoped) -> Result<(), String> {
        let (provider, id) = (scoped.model.provider.clone(), scoped.model.id.clone());
        let switched = self
            .core
            .choose(|choice| choice.switch(scoped.model, scoped.thinking));
        switched.await.map_err(|error| unsaved(&error))?;
        self.keep_all(&[
            (key::DEFAULT_PROVIDER, json!(provider)),
            (key::DEFAULT_MODEL, json!(id)),
        ]);
        Ok(())
    }

    async fn set_level(&self, level: ThinkingLevel) {
        let set = |choice: &mut Choice| {
            let before = choice.thinking;
            choice.thinking = choice.model.clamp(level);
            (before != choice.thinking && choice.model.reasoning).then_some(choice.thinking)
        };
        match self.core.choose(set).await {
            Ok(Some(level)) => {
                self.keep_all(&[(key::DEFAULT_THINKING_LEVEL, json!(level))]);
            }
            Ok(None) => {}
            Err(error) => self.core.remark(unsaved(&error)),
        }
    }

    fn scoped_models(&self) -> Result<Executed, String> {
        let choice = self.core.choice();
        let models: Vec<Value> = choice
            .scope
            .iter()
            .map(|scoped| json!({ "model": scoped.model.without_secrets(), "thinkingLevel": scoped.thinking }))
            .collect();
        Executed::with(&json!({ "patterns": choice.patterns, "models": models }))
    }

    async fn set_scoped_models(&self, patterns: Vec<String>) -> Result<Executed, String> {
        let usable = |provider: &str| (self.usable)(provider);
        let (scope, warnings) = self.models.scope(&patterns, &usable);
        {
            let mut choice = self.core.choice();
            choice.scope = scope;
            choice.patterns.clone_from(&patterns);
        }
        warnings.into_iter().for_each(|text| self.core.remark(text));
        self.keep(key::ENABLED_MODELS, json!(patterns))
    }

    /// The models that can be used, in the order of the registry.
    fn available(&self) -> impl Iterator<Item = Scoped> + '_ {
        let usable = |model: &&Arc<fluzo_llm::Model>| (self.usable)(&model.provider);
        self.models
            .models()
            .iter()
            .filter(usable)
            .map(|model| Scoped {
                model: Arc::clone(model),
                thinking: None,
            })
    }

    /// Keeps a setting, as [`keep_all`](Self::keep_all) does.
    fn keep(&self, key: &str, value: Value) -> Result<Executed, String> {
        self.keep_all(&[(key, value)]);
        Ok(Executed::done())
    }

    /// Keeps settings. They count in this session also when they cannot be kept, which is told.
    fn keep_all(&self, values: &[(&str, Value)]) {
        if let Err(problem) = self.settings.set(values) {
            self.core.remark(problem);
        }
    }

    async fn export(&self, command: Command) -> Result<Executed, String> {
        let (system_prompt, tools) = {
            let choice = self.core.choice();
            (Arc::clone(&choice.system_prompt), choice.tools.clone())
        };
        let export = Export {
            session: &self.core.session,
            system_prompt: &system_prompt,
            tools: &tools,
        };
        let written = match command {
            Command::ExportHtml { output_path } => {
                self.exporter.html(&export, output_path.as_deref())?
            }
            Command::ExportJsonl { output_path } => {
                self.exporter.jsonl(&export, output_path.as_deref())?
            }
            _ => {
                let Some(active) = self.sharing.occupy(()) else {
                    return Err("The session is being shared already.".to_owned());
                };
                let shared = self.exporter.share(&export, &active.abort).await?;
                return Executed::with(&json!({ "url": shared.url, "gist": shared.gist }));
            }
        };
        Executed::with(&json!({ "path": written.to_string_lossy() }))
    }
}

fn names(choice: &Choice) -> Vec<String> {
    let name = |tool: &Arc<dyn fluzo_agent::Tool>| tool.spec().name.clone();
    choice.tools.iter().map(name).collect()
}
