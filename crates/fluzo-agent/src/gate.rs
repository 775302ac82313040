//! The gate: the one place where a tool call is authorised.
//!
//! [`Tool::run`] takes a [`Permit`], and only the gate makes permits, so a program
//! that runs a tool past the gate does not compile:
//!
//! ```compile_fail,E0451
//! use fluzo_agent::Permit;
//! use std::sync::Arc;
//! # fn tool() -> Arc<dyn fluzo_agent::Tool> { unimplemented!() }
//! let permit = Permit { tool: tool(), call_id: String::new(), arguments: Default::default(), accesses: vec![], revision: 0 };
//! ```
//!
//! ```compile_fail,E0061
//! # use fluzo_agent::{Tool, ToolContext};
//! # use std::sync::Arc;
//! fn sneak(tool: Arc<dyn Tool>, context: ToolContext) {
//!     tool.run(context);
//! }
//! ```
//!
//! What differs from these only in the forbidden part compiles:
//!
//! ```no_run
//! # use fluzo_agent::{Permit, Tool, ToolContext};
//! # use std::sync::Arc;
//! fn with_a_permit(tool: Arc<dyn Tool>, permit: Permit, context: ToolContext) {
//!     tool.run(permit, context);
//! }
//! fn once(permit: Permit, a: ToolContext) {
//!     permit.run(a);
//! }
//! ```
//!
//! A permit is used up by the run it is for, so it does not serve a second one:
//!
//! ```compile_fail,E0382
//! # use fluzo_agent::{Permit, ToolContext};
//! fn twice(permit: Permit, a: ToolContext, b: ToolContext) {
//!     permit.run(a);
//!     permit.run(b);
//! }
//! ```

use std::sync::Arc;

use fluzo_llm::{BoxFuture, ToolOutput};
use fluzo_policy::{Access, AccessRequest, Decision, Policy};
use serde_json::Value;

use crate::{Answer, Question, Tool, ToolContext, ToolEffect, ToolError, ToolFailure};

/// Judges calls by a policy.
#[derive(Clone)]
pub struct Gate {
    policy: Arc<dyn Policy>,
}

/// The right to run one tool once, with the arguments it was judged on.
pub struct Permit {
    tool: Arc<dyn Tool>,
    call_id: String,
    arguments: Value,
    accesses: Vec<Access>,
    revision: u64,
}

/// What the gate says of a call.
pub enum Judgement {
    /// It may run.
    Allowed(Permit),
    /// It may not.
    Denied {
        /// Why, for the model.
        reason: String,
    },
    /// A person decides.
    Ask(Pending),
}

/// A call that waits for a person's answer.
pub struct Pending {
    permit: Permit,
    reason: String,
}

impl Gate {
    /// A gate that asks `policy`.
    pub fn new(policy: Arc<dyn Policy>) -> Self {
        Self { policy }
    }

    /// Judges a call of `tool` with validated `arguments`.
    pub fn judge(&self, tool: Arc<dyn Tool>, call_id: String, arguments: Value) -> Judgement {
        let accesses = tool.accesses(&arguments);
        let revision = self.policy.revision();
        let permit = Permit {
            tool,
            call_id,
            arguments,
            accesses,
            revision,
        };
        match self.decide(&permit) {
            Decision::Allow => Judgement::Allowed(permit),
            Decision::Deny { reason } => Judgement::Denied { reason },
            Decision::Ask { reason } => Judgement::Ask(Pending { permit, reason }),
        }
    }

    /// Judges again if the policy has changed since the permit was made. A person's
    /// earlier consent was given under the older policy and does not stand in for an
    /// answer under the new one.
    ///
    /// # Errors
    ///
    /// The policy denies the call now, or asks about it.
    pub fn confirm(&self, permit: Permit) -> Result<Permit, ToolError> {
        if permit.revision == self.policy.revision() {
            return Ok(permit);
        }
        match self.decide(&permit) {
            Decision::Allow => Ok(permit),
            Decision::Deny { reason } => Err(ToolError::new(reason)),
            Decision::Ask { reason } => Err(ToolError::new(format!(
                "the policy changed and asks again: {reason}"
            ))),
        }
    }

    fn decide(&self, permit: &Permit) -> Decision {
        self.policy.evaluate(&AccessRequest {
            tool: &permit.tool.spec().name,
            accesses: &permit.accesses,
        })
    }
}

impl Pending {
    /// What the person is asked.
    pub fn question(&self) -> Question {
        Question {
            call_id: self.permit.call_id.clone(),
            tool: self.permit.tool.spec().name.clone(),
            accesses: self.permit.accesses.clone(),
            reason: self.reason.clone(),
        }
    }

    /// Turns the answer into a permit or a denial.
    ///
    /// # Errors
    ///
    /// The reason of the denial.
    pub fn answer(self, answer: Answer) -> Result<Permit, String> {
        match answer {
            Answer::Allow => Ok(self.permit),
            Answer::Deny { reason } => Err(reason),
        }
    }
}

impl Permit {
    /// Id of the call it is for.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Name of the tool it is for.
    pub fn tool_name(&self) -> &str {
        &self.tool.spec().name
    }

    /// What the call touches.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Runs the tool it is for.
    pub fn run(self, context: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Arc::clone(&self.tool).run(self, context)
    }

    /// Gives `tool` its arguments, if the permit is for this very tool.
    ///
    /// # Errors
    ///
    /// The permit was made for another tool.
    pub fn redeem<T: Tool>(self, tool: &T) -> Result<Value, ToolError> {
        if std::ptr::addr_eq(Arc::as_ptr(&self.tool), std::ptr::from_ref(tool)) {
            return Ok(self.arguments);
        }
        Err(ToolError::new(format!(
            "this permit is for another tool than `{}`",
            tool.spec().name
        )))
    }
}

/// Runs tools directly, after the gate has confirmed the permit.
pub struct DirectTools {
    gate: Gate,
}

impl DirectTools {
    /// Tool runs behind `gate`.
    pub fn new(gate: Gate) -> Self {
        Self { gate }
    }
}

impl ToolEffect for DirectTools {
    fn run<'a>(
        &'a self,
        permit: Permit,
        context: ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolFailure>> {
        Box::pin(async move {
            let permit = self.gate.confirm(permit)?;
            Ok(permit.run(context).await?)
        })
    }
}
