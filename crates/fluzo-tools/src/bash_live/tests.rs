#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use fluzo_exec::{
    Environment, LocalFileSystem, LocalProcesses, LocalProcessesConfig, LocalSearch, PathLocks,
};
use fluzo_llm::{BoxFuture, content::joined_text};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::*;
use crate::{BashEnvironment, SpillPolicy, ToolLimits};

/// Time that a test moves: each reading adds `step`, and a wait ends when it is told to.
struct TestTime {
    now: AtomicI64,
    step: i64,
    waits: mpsc::UnboundedSender<(Duration, oneshot::Sender<()>)>,
}

type Waits = mpsc::UnboundedReceiver<(Duration, oneshot::Sender<()>)>;

impl TestTime {
    fn new(step: i64) -> (Arc<Self>, Waits) {
        let (waits, requests) = mpsc::unbounded_channel();
        let now = AtomicI64::new(1_000_000);
        (Arc::new(Self { now, step, waits }), requests)
    }
}

impl TimeEffect for TestTime {
    fn now_ms(&self) -> i64 {
        self.now.fetch_add(self.step, Ordering::Relaxed)
    }

    fn sleep<'a>(&'a self, duration: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (end, ended) = oneshot::channel();
            if self.waits.send((duration, end)).is_err() || ended.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

fn env(dir: &Path, time: Arc<TestTime>) -> ToolEnv {
    ToolEnv {
        cwd: dir.to_path_buf(),
        home: None,
        fs: Arc::new(LocalFileSystem),
        search: Arc::new(LocalSearch::default()),
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
                max_bytes: 1 << 20,
            },
            time,
        },
        model_takes_images: AtomicBool::new(false),
        resize_images: false,
    }
}

async fn run_command(env: &ToolEnv, command: &str, show: Show<'_>) -> String {
    let spec = CommandSpec {
        program: env.bash.shell.clone(),
        args: env.bash.arguments(command),
        cwd: env.cwd.clone(),
        env: env.bash.environment.clone(),
        timeout: None,
    };
    let (_, snapshot) = run(env, spec, AbortSignal::new(), show).await.unwrap();
    snapshot.truncation.content
}

/// All partial results of `command`, and its output at the end.
async fn updates_of(command: &str, step: i64) -> (Vec<ToolOutput>, String) {
    let dir = tempfile::tempdir().unwrap();
    let (time, _waits) = TestTime::new(step);
    let shown = Mutex::new(Vec::new());
    let show = |partial| shown.lock().unwrap().push(partial);
    let whole = run_command(&env(dir.path(), time), command, &show).await;
    (shown.into_inner().unwrap(), whole)
}

fn text(partial: &ToolOutput) -> String {
    joined_text(&partial.content)
}

#[tokio::test]
async fn the_first_result_is_empty_and_comes_at_once() {
    let (updates, _) = updates_of("true", 0).await;
    assert_eq!(updates, [ToolOutput::default()]);
    let (updates, _) = updates_of("echo hi", 0).await;
    let hi = ToolOutput::text("hi\n").with_details(json!({}));
    assert_eq!(updates, [ToolOutput::default(), hi]);
}

#[tokio::test]
async fn a_flood_is_shown_no_more_often_than_its_pace() {
    let flood = "for n in {1..3000}; do echo line $n; done";
    let (updates, whole) = updates_of(flood, 0).await;
    assert!((2..=3).contains(&updates.len()), "{}", updates.len());
    assert_eq!(text(updates.last().unwrap()), whole);

    let dir = tempfile::tempdir().unwrap();
    let (time, _waits) = TestTime::new(1);
    let start = time.now.load(Ordering::Relaxed);
    let shown = Mutex::new(Vec::new());
    let show = |_| shown.lock().unwrap().push(time.now.load(Ordering::Relaxed));
    run_command(&env(dir.path(), Arc::clone(&time)), flood, &show).await;
    let passed = time.now.load(Ordering::Relaxed) - start;
    let times = shown.into_inner().unwrap();
    assert!(times.len() as i64 <= passed / PACE_MS + 3, "{times:?}");
    // The last one is shown at the end, however early.
    let paced = &times[1..times.len() - 1];
    assert!(
        paced.windows(2).all(|pair| pair[1] - pair[0] >= PACE_MS),
        "{times:?}"
    );
}

#[tokio::test]
async fn a_change_that_came_too_early_is_shown_during_the_silence_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (time, mut waits) = TestTime::new(0);
    let (shown, mut updates) = mpsc::unbounded_channel();
    let show = move |partial| shown.send(text(&partial)).unwrap();
    let env = env(dir.path(), Arc::clone(&time));
    let command = "mkfifo go end; echo one; read < go; echo two; read < end; echo three";
    let write = |name: &str| {
        let path = dir.path().join(name);
        tokio::task::spawn_blocking(move || std::fs::write(path, "x\n").unwrap())
    };
    let script = async {
        assert_eq!(updates.recv().await.unwrap(), "");
        assert_eq!(updates.recv().await.unwrap(), "one\n");
        time.now.fetch_add(30, Ordering::Relaxed);
        write("go").await.unwrap();
        let (wait, end) = waits.recv().await.unwrap();
        assert_eq!(wait, Duration::from_millis(70));
        assert!(updates.try_recv().is_err());
        time.now.fetch_add(70, Ordering::Relaxed);
        end.send(()).unwrap();
        // The command still waits for its second line.
        assert_eq!(updates.recv().await.unwrap(), "one\ntwo\n");
        write("end").await.unwrap();
        assert_eq!(updates.recv().await.unwrap(), "one\ntwo\nthree\n");
    };
    let (whole, ()) = tokio::join!(run_command(&env, command, &show), script);
    assert_eq!(whole, "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_clock_that_is_set_back_holds_nothing_up() {
    let (updates, _) = updates_of("echo one; for n in {1..20000}; do echo $n; done", -1000).await;
    assert!(updates.len() > 2);
}

#[tokio::test]
async fn partial_results_are_truncated_and_name_the_file() {
    let (updates, _) = updates_of("seq 1 5000", 0).await;
    let last = updates.last().unwrap();
    assert!(text(last).starts_with("3001\n") && text(last).ends_with("\n5000"));
    let details = last.details.as_ref().unwrap();
    assert_eq!(details["truncation"]["totalLines"], 5000);
    let path = details["fullOutputPath"].as_str().unwrap();
    assert!(
        path.contains("/pi-bash-") && path.ends_with(".log"),
        "{path}"
    );
}
