//! The program in a home and an environment of its own, against a simulated provider.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use fluzo_sim::{Scenario, Simulator, ToolCall};
use serde_json::{Value, json};

/// A home, an agent folder and a project, all empty, and what the program is started with.
pub struct Stage {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Stage {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "agent", "project", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self {
            folder,
            variables: Vec::new(),
        }
    }

    /// With a provider `fake` at the simulator: `m1` takes text, `eyes` images as well.
    pub fn with_fake(simulator: &Simulator) -> Self {
        let stage = Self::new();
        stage.models(&json!({"providers": {"fake": fake(&simulator.base_url())}}));
        stage
    }

    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    pub fn models(&self, value: &Value) {
        self.write("agent/models.json", value.to_string());
    }

    pub fn settings(&self, value: &Value) {
        self.write("agent/settings.json", value.to_string());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_fluzo")), arguments)
    }

    pub fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("PI_CODING_AGENT_DIR", self.path("agent"))
            .envs(self.variables.iter().map(|(n, v)| (n, v)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// Runs `fluzo pi` to its end.
    pub fn pi(&self, arguments: &[&str]) -> Ran {
        self.fluzo(&[&["pi"], arguments].concat())
    }

    /// Runs `fluzo` to its end.
    pub fn fluzo(&self, arguments: &[&str]) -> Ran {
        Ran(self.command(arguments).output().unwrap())
    }

    /// Runs `fluzo pi` with `input` on standard input.
    pub fn pi_with_input(&self, arguments: &[&str], input: &str) -> Ran {
        let mut command = self.command(&[&["pi"], arguments].concat());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            // A program that does not read is for the test to notice by what it did.
            let _ = stdin.write_all(input.as_bytes());
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran(output)
    }

    /// Session files, the oldest first.
    pub fn sessions(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        files_below(&self.path("agent/sessions"), &mut found);
        found.sort();
        found
    }

    /// The one session file.
    pub fn session(&self) -> PathBuf {
        let all = self.sessions();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else if path.extension().is_some_and(|e| e == "jsonl") {
            found.push(path);
        }
    }
}

/// What a run of the program left.
pub struct Ran(pub Output);

impl Ran {
    pub fn out(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).unwrap()
    }

    pub fn err(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).unwrap()
    }

    pub fn code(&self) -> i32 {
        self.0.status.code().unwrap_or(-1)
    }

    /// Exit code and both streams at once.
    #[track_caller]
    pub fn is(&self, code: i32, out: &str, err: &str) {
        assert_eq!(
            (self.code(), self.out().as_str(), self.err().as_str()),
            (code, out, err)
        );
    }

    /// Standard output as JSON lines.
    pub fn lines(&self) -> Vec<Value> {
        json_lines(&self.out())
    }
}

/// Every line of `text` as JSON.
pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

/// The entries of a session file, header included.
pub fn entries(path: &Path) -> Vec<Value> {
    json_lines(&std::fs::read_to_string(path).unwrap())
}

/// `type` of entries, or the role of those that are messages.
pub fn kinds(entries: &[Value]) -> Vec<String> {
    let kind = |entry: &Value| match entry["message"]["role"].as_str() {
        Some(role) => role.to_owned(),
        None => entry["type"].as_str().unwrap_or_default().to_owned(),
    };
    entries.iter().map(kind).collect()
}

/// A provider for models.json.
pub fn fake(base_url: &str) -> Value {
    json!({
        "baseUrl": base_url, "api": "openai-completions", "apiKey": "sk-fake",
        "models": [
            {"id": "m1", "name": "Fake One", "contextWindow": 100_000, "maxTokens": 4096},
            {"id": "eyes", "input": ["text", "image"]},
        ],
    })
}

pub fn scenario() -> Scenario {
    Scenario::new("cli").model("m1").image_model("eyes")
}

pub fn bash(id: &str, command: &str) -> ToolCall {
    ToolCall::new(id, "bash", json!({"command": command}))
}

pub fn simulator(scenario: Scenario) -> Simulator {
    Simulator::start(scenario).unwrap()
}

/// The simulator must have nothing to complain about.
#[track_caller]
pub fn approve(simulator: Simulator) {
    let verdict = simulator.finish();
    assert!(verdict.passed, "{verdict}");
}

/// The content of the user messages of a request, in order.
pub fn users(simulator: &Simulator, request: usize) -> Vec<Value> {
    let body = &simulator.requests()[request].body;
    let messages = body["messages"].as_array().unwrap();
    messages
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["content"].clone())
        .collect()
}

/// The system text of a request.
pub fn system(simulator: &Simulator, request: usize) -> String {
    let body = &simulator.requests()[request].body;
    let first = &body["messages"][0];
    assert!(
        first["role"] == "system" || first["role"] == "developer",
        "{first}"
    );
    match &first["content"] {
        Value::String(text) => text.clone(),
        parts => parts[0]["text"].as_str().unwrap().to_owned(),
    }
}

/// The names of the tools of a request.
pub fn tools(simulator: &Simulator, request: usize) -> Vec<String> {
    let body = &simulator.requests()[request].body;
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A text block as it is sent.
pub fn text_block(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// The program while it runs, with its standard output line by line.
pub struct Live {
    pub child: Child,
    lines: BufReader<ChildStdout>,
}

impl Live {
    /// Starts it; `input` is standard input.
    pub fn start(mut command: Command, input: Stdio) -> Self {
        let mut child = command
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub fn send(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.flush().unwrap();
    }

    /// Sends a command, line end included.
    pub fn command(&mut self, command: &Value) {
        self.send(&format!("{command}\n"));
    }

    pub fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")))
    }

    /// Reads to the first line that `is` holds for, which is the last of what is returned.
    pub fn until(&mut self, is: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(line) = self.next() {
            let last = is(&line);
            seen.push(line);
            if last {
                return seen;
            }
        }
        let mut err = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        panic!("standard output ended: {seen:#?}\n{err}")
    }

    /// Reads to the answer of a command and returns it.
    pub fn answer(&mut self, command: &str) -> Value {
        let seen = self.until(|line| line["type"] == "response" && line["command"] == command);
        seen.last().unwrap().clone()
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Closes the reading end of its standard output.
    pub fn leave(self) -> Child {
        drop(self.lines);
        self.child
    }

    /// Waits for the first byte of standard output.
    pub fn first_byte(&mut self) {
        let mut byte = [0];
        self.lines.get_mut().read_exact(&mut byte).unwrap();
    }

    /// Waits for the end without reading on; returns the exit code.
    pub fn end_unread(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Waits for the end; returns exit code (or minus the signal), the rest of standard
    /// output and standard error.
    pub fn end(mut self) -> (i32, Vec<Value>, String) {
        use std::os::unix::process::ExitStatusExt;
        self.close_input();
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let mut err = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut err).unwrap();
        }
        let status = self.child.wait().unwrap();
        let code = status
            .code()
            .unwrap_or_else(|| -status.signal().unwrap_or_default());
        (code, json_lines(&rest), err)
    }
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// A pipe in the file system that a command of a test can open to say that it has begun:
/// reading from it waits for that, and then for the end of every process that has it open.
pub struct Fifo(PathBuf);

impl Fifo {
    pub fn new(stage: &Stage) -> Self {
        let path = stage.path("fifo");
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        Self(path)
    }

    /// A command that says its pid to the pipe, then stays for ever with the pipe open.
    pub fn stay(&self) -> String {
        format!("exec 9>'{}'; echo $$ >&9; sleep 100000", self.0.display())
    }

    /// Waits until the command has begun; returns its end of the pipe and its pid.
    pub fn begun(&self) -> (BufReader<std::fs::File>, u32) {
        let mut pipe = BufReader::new(std::fs::File::open(&self.0).unwrap());
        let mut line = String::new();
        pipe.read_line(&mut line).unwrap();
        (pipe, line.trim().parse().unwrap())
    }
}

/// Waits until every process that had the pipe open is gone.
pub fn gone(mut pipe: BufReader<std::fs::File>) {
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).unwrap();
}
