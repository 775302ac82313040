//! A tool that does as it is told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fluzo_agent::{ExecutionMode, Permit, Tool, ToolContext, ToolError};
use fluzo_llm::{BoxFuture, ToolOutput, ToolSpec};
use fluzo_policy::Access;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{Switch, polling};

/// A scripted tool. Each run does its steps in order and then returns or fails.
pub struct FakeTool {
    spec: ToolSpec,
    mode: ExecutionMode,
    edits: bool,
    accesses: Vec<Access>,
    prepare: Option<Prepare>,
    steps: Vec<Step>,
    result: Compute,
    runs: Arc<Mutex<Vec<ToolRun>>>,
}

type Prepare = Box<dyn Fn(Value) -> Result<Value, ToolError> + Send + Sync>;
type Compute = Arc<dyn Fn(&Value) -> Result<ToolOutput, ToolError> + Send + Sync>;

#[derive(Clone)]
enum Step {
    Update(ToolOutput),
    Wait(Switch),
    Meet(Arc<Barrier>),
    Pause,
    UntilAbort,
    Forever,
    Flip(Switch),
}

/// One run of a [`FakeTool`].
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRun {
    /// Id of the call.
    pub call_id: String,
    /// The arguments it got.
    pub arguments: Value,
    /// How it ended.
    pub ending: Ending,
}

/// How a run of a tool ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has not.
    Running,
    /// It returned or failed.
    Returned,
    /// It saw the abort signal and failed.
    Aborted,
    /// Its future was dropped.
    Dropped,
}

impl FakeTool {
    /// A tool that takes anything and returns its own name.
    pub fn new(name: &str) -> Self {
        let result = ToolOutput::text(name);
        Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: format!("test tool {name}"),
                parameters: json!({"type": "object", "properties": {}}),
            },
            mode: ExecutionMode::Parallel,
            edits: false,
            accesses: vec![Access::Anything],
            prepare: None,
            steps: Vec::new(),
            result: Arc::new(move |_| Ok(result.clone())),
            runs: Arc::default(),
        }
    }

    /// With this schema.
    #[must_use]
    pub fn schema(mut self, parameters: Value) -> Self {
        self.spec.parameters = parameters;
        self
    }

    /// Touching this.
    #[must_use]
    pub fn touches(mut self, accesses: Vec<Access>) -> Self {
        self.accesses = accesses;
        self
    }

    /// Not beside others.
    #[must_use]
    pub fn sequential(mut self) -> Self {
        self.mode = ExecutionMode::Sequential;
        self
    }

    /// Changing files from what it expects of them.
    #[must_use]
    pub fn edits(mut self) -> Self {
        self.edits = true;
        self
    }

    /// Preparing its arguments so.
    #[must_use]
    pub fn prepares(
        mut self,
        prepare: impl Fn(Value) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.prepare = Some(Box::new(prepare));
        self
    }

    /// Then sends a partial result.
    #[must_use]
    pub fn update(self, text: &str) -> Self {
        self.step(Step::Update(ToolOutput::text(text)))
    }

    /// Then waits for the test, abort or not.
    #[must_use]
    pub fn wait(self, switch: &Switch) -> Self {
        self.step(Step::Wait(switch.clone()))
    }

    /// Then waits until all others at `barrier` have come.
    #[must_use]
    pub fn meet(self, barrier: &Arc<Barrier>) -> Self {
        self.step(Step::Meet(Arc::clone(barrier)))
    }

    /// Then is pending once.
    #[must_use]
    pub fn pause(self) -> Self {
        self.step(Step::Pause)
    }

    /// Then hangs until it is aborted, and fails.
    #[must_use]
    pub fn until_abort(self) -> Self {
        self.step(Step::UntilAbort)
    }

    /// Then hangs, abort or not.
    #[must_use]
    pub fn forever(self) -> Self {
        self.step(Step::Forever)
    }

    /// Then flips a switch.
    #[must_use]
    pub fn flip(self, switch: &Switch) -> Self {
        self.step(Step::Flip(switch.clone()))
    }

    /// In the end returns `output`.
    #[must_use]
    pub fn returns(self, output: ToolOutput) -> Self {
        self.computes(move |_| Ok(output.clone()))
    }

    /// In the end fails.
    #[must_use]
    pub fn fails(self, message: &str) -> Self {
        let error = ToolError::new(message);
        self.computes(move |_| Err(error.clone()))
    }

    /// In the end returns `text` and asks that the run end.
    #[must_use]
    pub fn terminates(self, text: &str) -> Self {
        let output = ToolOutput {
            terminate: true,
            ..ToolOutput::text(text)
        };
        self.returns(output)
    }

    /// In the end does this with its arguments.
    #[must_use]
    pub fn computes(
        mut self,
        compute: impl Fn(&Value) -> Result<ToolOutput, ToolError> + Send + Sync + 'static,
    ) -> Self {
        self.result = Arc::new(compute);
        self
    }

    /// Its runs so far, in the order they began.
    pub fn runs(&self) -> Vec<ToolRun> {
        lock(&self.runs).clone()
    }

    /// Ids of the calls that ran so far.
    pub fn ran(&self) -> Vec<String> {
        self.runs().into_iter().map(|run| run.call_id).collect()
    }

    /// How each run has ended so far.
    pub fn endings(&self) -> Vec<Ending> {
        self.runs().into_iter().map(|run| run.ending).collect()
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn execution_mode(&self) -> ExecutionMode {
        self.mode
    }

    fn edits(&self) -> bool {
        self.edits
    }

    fn prepare_arguments(&self, arguments: Value) -> Result<Value, ToolError> {
        match &self.prepare {
            Some(prepare) => prepare(arguments),
            None => Ok(arguments),
        }
    }

    fn accesses(&self, _arguments: &Value) -> Vec<Access> {
        self.accesses.clone()
    }

    fn run(
        self: Arc<Self>,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let call_id = permit.call_id().to_owned();
            let arguments = permit.redeem(&*self)?;
            let mut entry = Entry::begin(&self.runs, call_id, arguments.clone());
            for step in &self.steps {
                if let Err(error) = perform(step, &context).await {
                    entry.end(Ending::Aborted);
                    return Err(error);
                }
            }
            entry.end(Ending::Returned);
            (self.result)(&arguments)
        })
    }
}

async fn perform(step: &Step, context: &ToolContext) -> Result<(), ToolError> {
    match step {
        Step::Update(partial) => context.updates.send(partial.clone()),
        Step::Wait(switch) => switch.wait().await,
        Step::Meet(barrier) => {
            barrier.wait().await;
        }
        Step::Pause => polling::pause().await,
        Step::Forever => std::future::pending().await,
        Step::Flip(switch) => switch.flip(),
        Step::UntilAbort => {
            context.abort.cancelled().await;
            return Err(ToolError::new("the tool was aborted"));
        }
    }
    Ok(())
}

/// Notes how a run ends, also when its future is dropped.
struct Entry {
    runs: Arc<Mutex<Vec<ToolRun>>>,
    at: usize,
}

impl Entry {
    fn begin(runs: &Arc<Mutex<Vec<ToolRun>>>, call_id: String, arguments: Value) -> Self {
        let mut list = lock(runs);
        list.push(ToolRun {
            call_id,
            arguments,
            ending: Ending::Running,
        });
        Self {
            runs: Arc::clone(runs),
            at: list.len() - 1,
        }
    }

    fn end(&mut self, ending: Ending) {
        if let Some(run) = lock(&self.runs).get_mut(self.at) {
            run.ending = ending;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(run) = lock(&self.runs).get_mut(self.at)
            && run.ending == Ending::Running
        {
            run.ending = Ending::Dropped;
        }
    }
}

fn lock(runs: &Mutex<Vec<ToolRun>>) -> MutexGuard<'_, Vec<ToolRun>> {
    runs.lock().unwrap_or_else(PoisonError::into_inner)
}
