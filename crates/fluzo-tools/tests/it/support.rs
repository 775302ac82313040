//! Runs a tool as the loop does: prepare, validate, judge, run.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fluzo_agent::{Gate, Judgement, TimeEffect, Tool, ToolContext, ToolError, UpdateSink, schema};
use fluzo_exec::{
    Environment, LocalFileSystem, LocalProcesses, LocalProcessesConfig, LocalSearch,
    LocalSearchConfig, PathLocks,
};
use fluzo_llm::{AbortSignal, BoxFuture, ToolOutput, content::joined_text};
use fluzo_policy::AllowAll;
use fluzo_tools::{BashEnvironment, SpillPolicy, ToolEnv, ToolLimits};
use serde_json::Value;

/// What tools are handed, with `dir` as working folder and the limits of the open profile.
pub fn env(dir: &Path) -> Arc<ToolEnv> {
    Arc::new(plain_env(dir))
}

/// As [`env`], to be changed before it is shared.
pub fn plain_env(dir: &Path) -> ToolEnv {
    ToolEnv {
        cwd: dir.to_path_buf(),
        home: Some(dir.join("home")),
        fs: Arc::new(LocalFileSystem),
        search: Arc::new(LocalSearch::new(LocalSearchConfig {
            threads: 0,
            user_gitignore: false,
        })),
        processes: Arc::new(LocalProcesses::new(LocalProcessesConfig {
            watcher_shell: None,
        })),
        locks: PathLocks::new(),
        limits: ToolLimits::OPEN,
        bash: BashEnvironment {
            shell: "/bin/bash".into(),
            prefix: None,
            environment: Environment::Inherit {
                set: Vec::new(),
                path_prefix: None,
            },
            spill: SpillPolicy::File {
                folder: dir.to_path_buf(),
                max_bytes: SpillPolicy::OPEN_MAX_BYTES,
            },
            time: Arc::new(StandingTime),
        },
        model_takes_images: AtomicBool::new(true),
        resize_images: true,
    }
}

/// Time that does not pass; waits never end.
pub struct StandingTime;

impl TimeEffect for StandingTime {
    fn now_ms(&self) -> i64 {
        0
    }

    fn sleep<'a>(&'a self, _duration: std::time::Duration) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }
}

/// One call of `tool` that nobody aborts.
pub async fn call(tool: Arc<dyn Tool>, args: Value) -> Result<ToolOutput, ToolError> {
    let context = ToolContext {
        abort: AbortSignal::new(),
        updates: UpdateSink::discarding(),
    };
    call_in(tool, args, context).await
}

/// One call of `tool` in `context`.
pub async fn call_in(
    tool: Arc<dyn Tool>,
    args: Value,
    context: ToolContext,
) -> Result<ToolOutput, ToolError> {
    let prepared = tool.prepare_arguments(args)?;
    let spec = tool.spec();
    let arguments =
        schema::validate(&spec.name, &spec.parameters, prepared).map_err(ToolError::new)?;
    match Gate::new(Arc::new(AllowAll)).judge(Arc::clone(&tool), "call".into(), arguments) {
        Judgement::Allowed(permit) => permit.run(context).await,
        _ => panic!("the open policy allows everything"),
    }
}

/// The text of a successful call.
pub fn text(output: &ToolOutput) -> String {
    joined_text(&output.content)
}

/// The text of a call, whether it succeeded or not.
pub fn text_of(result: &Result<ToolOutput, ToolError>) -> String {
    match result {
        Ok(output) => text(output),
        Err(error) => format!("error: {}", error.message),
    }
}

/// A temporary folder with these files.
pub fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    dir
}

/// Whether this is a process of the test `name` alone. Else runs the test in one and
/// checks that it passes: other tests use memory too.
pub fn alone(name: &str) -> bool {
    const ALONE: &str = "FLUZO_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let run = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && shown.contains("1 passed"),
        "{run:?}"
    );
    false
}

/// Most memory this process has held, in KiB.
pub fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}
