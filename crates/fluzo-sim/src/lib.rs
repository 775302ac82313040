//! A provider server on loopback that plays a script and is strict about what it accepts.
//!
//! It speaks four dialects, streaming or not, each in a module of its own with rules, history checks and rendering:
//! Chat Completions, Anthropic Messages, OpenAI Responses and Google Gemini; [`Endpoint`] has their paths. It answers the lists
//! of models of several kinds of server ([`ServerFamily`]), and has the habits of Chat Completions servers in which they
//! differ ([`Quirk`]). It is the independent judge of our client code and therefore shares no line with it. It runs no tools
//! and touches no files.
//!
//! A [`Scenario`] lists the models that exist and the steps that are played, strictly in order. Each request is checked first:
//! its HTTP framing, its credentials, its JSON, its parameters and its history ([`check_request`]), then the
//! [`RequestExpectation`] of the next step. What breaks a rule gets status 400 (401 and 403 without a key, 404 and 405 for
//! wrong paths, methods and, in some dialects, models) with an error body in the dialect's form, is recorded as a
//! [`Violation`], and plays no step; a step that scripts a fault excuses nothing. [`Simulator::finish`] gives the
//! [`Verdict`]: passed means that no rule was broken and every step was played.
//!
//! What a model says with thinking is signed where its dialect signs, and has to come back with that signature and to the same
//! model. Signatures prove themselves, so that [`check_request`] needs no server; [`Completion::signature`] scripts others.
//!
//! In places it is stricter than any one server: no two turns of the model in a row (but for the items of Responses);
//! signatures fit the model that gave them and no other; ids of calls are used once in a whole Messages or Responses
//! request; outputs of calls come before the next message; Gemini's function responses share their content with nothing.
//!
//! Replies hold the content ([`Body`]) and how its bytes travel ([`Delivery`]): split anywhere, held back until
//! [`Simulator::release_stall`], cut off, with comments, a byte-order mark or other line ends. Nothing in it uses a timer.
//!
//! # Scenario files
//!
//! Unknown keys are refused, everything that is left out has the default stated at its field.
//!
//! ```
//! let scenario = fluzo_sim::Scenario::from_json(r##"{
//!   "version": 1,
//!   "name": "read-then-answer",
//!   "description": "One tool call in fragments, then an answer that breaks off.",
//!   "models": [{"id": "sim-1"}, {"id": "sim-2", "images": true, "reasoning": true, "context_tokens": 200000}],
//!   "quirks": ["refuses_store"],
//!   "steps": [
//!     {
//!       "expect": {
//!         "stream": true,
//!         "last_user_contains": "what does notes.txt say",
//!         "tools": ["read"],
//!         "headers": {"authorization": {"equals": "Bearer test-key"}, "cookie": "absent"},
//!         "body": {"/stream_options/include_usage": true},
//!         "body_lacks": ["/max_tokens"]
//!       },
//!       "reply": {
//!         "body": {"completion": {
//!           "thinking": "I should look.",
//!           "text": "Let me look.",
//!           "pieces": {"chars": 4},
//!           "tool_calls": [
//!             {"id": "call_1", "name": "read", "arguments": {"path": "notes.txt"}},
//!             {"id": "call_2", "name": "read", "arguments": "{\"path\": \"cut o"}
//!           ],
//!           "fragmenting": {"bytes": 5, "order": "interleaved", "index": true, "id": "every"},
//!           "usage": {"prompt_tokens": 120, "completion_tokens": 30, "cached_tokens": 100},
//!           "usage_at": "with_finish"
//!         }},
//!         "delivery": {"writes": {"bytes": 1}, "line_end": "cr_lf", "comments": [" ping"]}
//!       }
//!     },
//!     {
//!       "expect": {"tool_result_contains": ["buy milk"]},
//!       "reply": {
//!         "status": 503,
//!         "headers": {"retry-after": "2"},
//!         "body": {"json": {"error": {"message": "overloaded"}}}
//!       }
//!     },
//!     {
//!       "reply": {
//!         "body": {"completion": {"text": "It says: buy milk.", "finish_reason": "absent", "done": false}},
//!         "delivery": {"stall": {"after": "It says"}, "cut_off": {"after": "buy"}}
//!       }
//!     },
//!     {
//!       "endpoint": "messages",
//!       "expect": {"target": "/v1/messages", "headers": {"x-api-key": "present"}, "last_user_contains": "again"},
//!       "reply": {"body": {"completion": {"thinking": "Hm.", "text": "Yes.", "finish_reason": {"named": "max_tokens"}}}}
//!     },
//!     {"endpoint": "models", "reply": {"body": {"raw": {"content_type": "text/html", "text": "<h1>down</h1>"}}}}
//!   ],
//!   "expect": {"max_connections": 1, "max_overlap": 1, "max_quirk_refusals": 1, "steps_may_remain": false}
//! }"##)?;
//! assert_eq!(scenario.steps.len(), 5);
//! # Ok::<(), fluzo_sim::ScenarioError>(())
//! ```
//!
//! # In a program
//!
//! The simulator has its own thread, so that any caller can use it.
//!
//! ```
//! use fluzo_sim::{Reply, Scenario, Simulator, ToolCall};
//!
//! let scenario = Scenario::new("demo")
//!     .model("sim-1")
//!     .step(Reply::calls([ToolCall::new("call_1", "bash", serde_json::json!({"command": "true"}))]))
//!     .step(Reply::text("done"))
//!     .max_connections(1);
//! let simulator = Simulator::start(scenario)?;
//! let _configure_this = simulator.base_url();
//! let verdict = simulator.finish();
//! assert!(!verdict.passed); // nobody came, both steps remain
//! # Ok::<(), std::io::Error>(())
//! ```

mod answer;
mod body;
mod capabilities;
mod chat;
mod check;
mod delivery;
mod dialect;
mod expectation;
mod gemini;
mod http;
mod judge;
mod lists;
mod messages;
mod poisoned;
mod quirk;
mod render;
mod reply;
mod responses;
mod route;
mod scenario;
mod seal;
mod server;
mod simulator;
mod verdict;
mod view;

pub use capabilities::ModelCapabilities;
pub use chat::check_history;
pub use delivery::{Delivery, LineEnd, Point, Transfer, Writes};
pub use dialect::check_request;
pub use poisoned::Listener;
pub use quirk::Quirk;
pub use reply::{
    Body, Completion, FinishReason, FragmentOrder, Fragmenting, IdPlacement, Pieces, Reply,
    Signature, ToolCall, Usage, UsagePlacement,
};
pub use scenario::{
    Endpoint, HeaderCheck, Model, RequestExpectation, RunExpectation, Scenario, ScenarioError,
    ServerFamily, Step, VERSION,
};
pub use simulator::{Milestone, Simulator};
pub use verdict::{Outcome, RecordedRequest, Verdict, Violation, ViolationKind};
