//! Doubles of what a session needs of the program around it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fluzo_exec::LocalFileSystem;
use fluzo_host::hooks::{
    BeforeRun, CompactionAction, CompactionPlan, HookCommand, HookError, Input, InputAction,
    NavigationAction, SwitchTo,
};
use fluzo_host::{
    Export, Exporter, PreparedImages, RequestPreview, SessionHooks, SettingsStore, Shared,
    UserImages, UserShell,
};
use fluzo_llm::message::BashExecutionMessage;
use fluzo_llm::{AbortSignal, BoxFuture, ImageContent, ModelRequest};
use fluzo_resources::{Discover, Resources, Sources};
use fluzo_testkit::Switch;
use serde_json::{Value, json};

/// Remembers what was set.
#[derive(Default)]
pub struct Remembers(pub Mutex<Vec<(String, Value)>>);

impl SettingsStore for Remembers {
    fn set(&self, values: &[(&str, Value)]) -> Result<(), String> {
        let values = values
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()));
        self.0.lock().unwrap().extend(values);
        Ok(())
    }
}

/// Says `out` to every command, once `ready` is flipped.
pub struct FakeShell {
    pub ready: Switch,
}

impl Default for FakeShell {
    fn default() -> Self {
        let ready = Switch::new();
        ready.flip();
        Self { ready }
    }
}

impl UserShell for FakeShell {
    fn run<'a>(
        &'a self,
        command: &'a str,
        abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<BashExecutionMessage, String>> {
        Box::pin(async move {
            let ended = abort.run_until_cancelled(self.ready.wait()).await;
            Ok(BashExecutionMessage {
                command: command.to_owned(),
                output: "out".to_owned(),
                exit_code: ended.map(|()| 0),
                cancelled: ended.is_none(),
                truncated: false,
                full_output_path: None,
                exclude_from_context: None,
                timestamp: 0,
                extra: Default::default(),
            })
        })
    }
}

/// Writes nothing and says where it would.
#[derive(Default)]
pub struct NoExporter;

impl Exporter for NoExporter {
    fn html(&self, _export: &Export<'_>, path: Option<&str>) -> Result<PathBuf, String> {
        Ok(Path::new(path.unwrap_or("page.html")).to_owned())
    }

    fn jsonl(&self, _export: &Export<'_>, path: Option<&str>) -> Result<PathBuf, String> {
        Ok(Path::new(path.unwrap_or("session.jsonl")).to_owned())
    }

    fn share<'a>(
        &'a self,
        _export: &'a Export<'a>,
        _abort: &'a AbortSignal,
    ) -> BoxFuture<'a, Result<Shared, String>> {
        Box::pin(std::future::ready(Err("not here".to_owned())))
    }
}

/// Drops images and says so; refuses those without data.
pub struct NoImages;

impl UserImages for NoImages {
    fn prepare(&self, images: Vec<ImageContent>) -> BoxFuture<'_, Result<PreparedImages, String>> {
        let prepared = if images.iter().any(|image| image.data.is_empty()) {
            Err("no image".to_owned())
        } else {
            let notes = (1..=images.len()).map(|n| format!("[{n} dropped]"));
            Ok(PreparedImages {
                images: Vec::new(),
                notes: notes.collect(),
            })
        };
        Box::pin(std::future::ready(prepared))
    }
}

/// Shows what a request is made of.
pub struct PlainPreview;

impl RequestPreview for PlainPreview {
    fn body(&self, request: ModelRequest) -> Result<Value, String> {
        Ok(
            json!({ "model": request.model.id, "system": &*request.system_prompt,
            "messages": request.transcript.len() }),
        )
    }
}

/// Resources of an empty folder.
pub fn no_resources() -> Arc<Resources> {
    let folder = Path::new("/nowhere");
    let mut sources = Sources::new(Arc::new(LocalFileSystem), folder, None, folder);
    sources.discover = Discover {
        context_files: false,
        skills: false,
        prompts: false,
        themes: false,
    };
    Arc::new(Resources::load(&sources))
}

/// A folder with the template `greet` and the skill `look`.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.write("prompts/greet.md", "Greet $1, not $ARGUMENTS.\n");
        let skill = "---\nname: look\ndescription: Looks around\n---\nLook at /greet first.\n";
        folder.write("skills/look/SKILL.md", skill);
        folder
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn skill_file(&self) -> PathBuf {
        self.0.path().join("skills/look/SKILL.md")
    }

    /// What is in it.
    pub fn resources(&self) -> Arc<Resources> {
        let folder = self.0.path();
        let mut sources = Sources::new(Arc::new(LocalFileSystem), folder, None, folder);
        sources.discover.context_files = false;
        Arc::new(Resources::load(&sources))
    }
}

/// Hooks that do as they are told and remember that they were called.
#[derive(Default)]
pub struct ScriptedSessionHooks {
    pub called: Mutex<Vec<String>>,
    pub input: Mutex<Option<InputAction>>,
    pub before_run: Mutex<BeforeRun>,
    pub compaction: Mutex<CompactionAction>,
    pub navigation: Mutex<NavigationAction>,
    pub keeps_session: Mutex<bool>,
    /// All fail.
    pub fail: Mutex<bool>,
    /// What the hook before a run waits for.
    pub run_waits: Mutex<Option<Switch>>,
}

impl ScriptedSessionHooks {
    fn note(&self, what: impl Into<String>) {
        self.called.lock().unwrap().push(what.into());
    }

    pub fn called(&self) -> Vec<String> {
        self.called.lock().unwrap().clone()
    }

    fn answer<T: Send + 'static>(&self, value: T) -> BoxFuture<'static, Result<T, HookError>> {
        let failed = HookError {
            path: "hooks".into(),
            message: "no".into(),
        };
        let fails = *self.fail.lock().unwrap();
        Box::pin(std::future::ready(if fails {
            Err(failed)
        } else {
            Ok(value)
        }))
    }
}

impl SessionHooks for ScriptedSessionHooks {
    fn commands(&self) -> Vec<HookCommand> {
        vec![HookCommand {
            name: "hook".into(),
            description: Some("A command of a hook".into()),
            source: json!({ "path": "hooks", "source": "sdk", "scope": "temporary", "origin": "top-level" }),
        }]
    }

    fn command<'a>(
        &'a self,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<(), HookError>> {
        self.note(format!("command {name} {arguments}"));
        self.answer(())
    }

    fn input(&self, input: Input) -> BoxFuture<'_, Result<InputAction, HookError>> {
        self.note(format!("input {}", input.text));
        let said = self.input.lock().unwrap().take();
        self.answer(said.unwrap_or(InputAction::Go(input)))
    }

    fn before_run<'a>(
        &'a self,
        prompt: &'a str,
        _system_prompt: &'a str,
    ) -> BoxFuture<'a, Result<BeforeRun, HookError>> {
        self.note(format!("before_run {prompt}"));
        let said = std::mem::take(&mut *self.before_run.lock().unwrap());
        let waits = self.run_waits.lock().unwrap().take();
        Box::pin(async move {
            if let Some(switch) = waits {
                switch.wait().await;
            }
            self.answer(said).await
        })
    }

    fn before_compaction<'a>(
        &'a self,
        plan: &'a CompactionPlan,
    ) -> BoxFuture<'a, Result<CompactionAction, HookError>> {
        self.note(format!("before_compaction {:?}", plan.reason));
        self.answer(std::mem::take(&mut *self.compaction.lock().unwrap()))
    }

    fn before_navigation<'a>(
        &'a self,
        _entry_id: &'a str,
    ) -> BoxFuture<'a, Result<NavigationAction, HookError>> {
        self.note("before_navigation");
        self.answer(std::mem::take(&mut *self.navigation.lock().unwrap()))
    }

    fn before_switch<'a>(&'a self, to: SwitchTo<'a>) -> BoxFuture<'a, Result<bool, HookError>> {
        let to = match to {
            SwitchTo::New => "new",
            SwitchTo::File(_) => "file",
            SwitchTo::Fork(_) => "fork",
            SwitchTo::Clone => "clone",
        };
        self.note(format!("before_switch {to}"));
        self.answer(!*self.keeps_session.lock().unwrap())
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), HookError>> {
        self.note("shutdown");
        self.answer(())
    }
}
