//! Scenarios: what the simulator offers, expects and answers, as data.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::quirk::Quirk;
use crate::reply::{Body, Reply};

/// The version of the scenario format that this crate reads.
pub const VERSION: u32 = 1;

/// A whole script. Steps are played strictly in order; a refused request plays none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Format version, [`VERSION`].
    pub version: u32,
    /// Short name for reports.
    pub name: String,
    /// What the scenario is there to show.
    #[serde(default)]
    pub description: String,
    /// The models that exist; a request for another one is refused.
    pub models: Vec<Model>,
    /// The path that the OpenAI-compatible endpoints and Messages are served below. The other paths of
    /// [`Endpoint`] stay.
    #[serde(default = "base_path")]
    pub base_path: String,
    /// Which lists of models are served.
    #[serde(default)]
    pub family: ServerFamily,
    /// Habits of the server. Chat Completions only.
    #[serde(default)]
    pub quirks: Vec<Quirk>,
    /// What is answered, request by request.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// Conditions on the run as a whole.
    #[serde(default)]
    pub expect: RunExpectation,
}

/// One model of the scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The id that requests name.
    pub id: String,
    /// Whether requests may hold images.
    #[serde(default)]
    pub images: bool,
    /// Whether requests may ask for thinking.
    #[serde(default)]
    pub reasoning: bool,
    /// The size of the context in tokens, where a list of models tells it.
    #[serde(default)]
    pub context_tokens: Option<u64>,
}

/// The kind of server, which decides what lists of models there are and what they tell. A list of another family is
/// answered with 404, and asking for it breaks no rule. Only [`ServerFamily::Generic`] asks for a key below the base path;
/// the others are local servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerFamily {
    /// `GET /v1/models` with ids alone; in Anthropic's form when `anthropic-version` is sent; `GET /v1beta/models` in Google's.
    #[default]
    Generic,
    /// Also `GET /api/tags`, `GET /api/version` and `POST /api/show`.
    Ollama,
    /// Also `GET /api/v0/models` and `GET /api/v1/models`.
    LmStudio,
    /// `GET /v1/models` with `meta`, and `GET /props`.
    LlamaCpp,
    /// `GET /v1/models` with `max_model_len`, and `GET /version`.
    Vllm,
}

/// One expected request and its reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Which endpoint the step belongs to.
    #[serde(default)]
    pub endpoint: Endpoint,
    /// Conditions on the request beyond the rules that always hold.
    #[serde(default)]
    pub expect: RequestExpectation,
    /// What the client gets.
    pub reply: Reply,
}

/// The endpoints that a step can script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    /// Chat Completions: `POST /v1/chat/completions`, and Azure's `POST /openai/v1/chat/completions` or
    /// `/openai/deployments/NAME/chat/completions`, with or without `api-version`.
    #[default]
    Chat,
    /// Anthropic Messages: `POST /v1/messages`, and Vertex's
    /// `POST /v1/projects/P/locations/L/publishers/anthropic/models/ID:streamRawPredict` (or `:rawPredict`).
    Messages,
    /// OpenAI Responses: `POST /v1/responses`, and Azure's `POST /openai/v1/responses` with or without `api-version`.
    Responses,
    /// Google Gemini: `POST /v1beta/models/ID:streamGenerateContent?alt=sse` (or `:generateContent`), also below the base
    /// path, and Vertex's `POST /v1/projects/P/locations/L/publishers/google/models/ID:…`.
    Gemini,
    /// A list of models, see [`ServerFamily`]. Without such a step the list of models is answered, and no step is played.
    Models,
}

/// Conditions on one request. All that are given must hold; an empty one holds always.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestExpectation {
    /// The request target, path and query.
    pub target: Option<String>,
    /// The request's model.
    pub model: Option<String>,
    /// The request's `stream`, an absent one being false.
    pub stream: Option<bool>,
    /// Text within the system or developer message.
    pub system_contains: Option<String>,
    /// Text within the last user message.
    pub last_user_contains: Option<String>,
    /// Texts that each occur in a tool result after the last assistant message.
    pub tool_result_contains: Vec<String>,
    /// Texts that occur in no tool result after the last assistant message.
    pub tool_result_lacks: Vec<String>,
    /// Tools that must be offered, among others.
    pub tools: Vec<String>,
    /// The names of all offered tools, in order.
    pub exact_tools: Option<Vec<String>>,
    /// Header checks by name, any case.
    pub headers: BTreeMap<String, HeaderCheck>,
    /// Values by JSON pointer (`/stream_options/include_usage`) that must be equal.
    pub body: BTreeMap<String, Value>,
    /// JSON pointers that must not exist.
    pub body_lacks: Vec<String>,
    /// The highest allowed size of the body in bytes.
    pub max_body_bytes: Option<usize>,
}

/// A condition on one header field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderCheck {
    /// It is there once, with exactly this value.
    Equals(String),
    /// It is there and its value contains this.
    Contains(String),
    /// It is there.
    Present,
    /// It is not there.
    Absent,
}

/// Conditions on the whole run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunExpectation {
    /// How many connections may be opened. One that the script itself broke (a cut-off, a close, a stall or endless
    /// line that the client left) may be replaced and does not count.
    pub max_connections: Option<usize>,
    /// How many requests may be in flight at once.
    pub max_overlap: Option<usize>,
    /// How many requests may be refused for a quirk without breaking a rule; 0 by default, so that a client has to know
    /// the server's quirks.
    pub max_quirk_refusals: usize,
    /// Whether the run may end with steps unplayed.
    pub steps_may_remain: bool,
}

/// Why a scenario cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not JSON, an unknown key, or a value of the wrong type.
    #[error("scenario is not readable: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Written for another version of the format.
    #[error("scenario has version `{found}`, only version `{VERSION}` is known")]
    Version {
        /// The version that the scenario states.
        found: Value,
    },
    /// Readable, but it makes no sense.
    #[error("{place}: {problem}")]
    Invalid {
        /// Where in the scenario.
        place: String,
        /// What is wrong there.
        problem: String,
    },
}

impl Scenario {
    /// An empty scenario without models and steps.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            version: VERSION,
            name: name.into(),
            description: String::new(),
            models: Vec::new(),
            base_path: base_path(),
            family: ServerFamily::Generic,
            quirks: Vec::new(),
            steps: Vec::new(),
            expect: RunExpectation::default(),
        }
    }

    /// Adds a model.
    #[must_use]
    pub fn offering(mut self, model: Model) -> Self {
        self.models.push(model);
        self
    }

    /// Adds a model that takes text only.
    #[must_use]
    pub fn model(self, id: impl Into<String>) -> Self {
        self.offering(Model {
            id: id.into(),
            ..Model::default()
        })
    }

    /// Adds a model that takes text and images.
    #[must_use]
    pub fn image_model(self, id: impl Into<String>) -> Self {
        self.offering(Model {
            id: id.into(),
            images: true,
            ..Model::default()
        })
    }

    /// Adds a model that takes text and images and thinks.
    #[must_use]
    pub fn reasoning_model(self, id: impl Into<String>) -> Self {
        self.offering(Model {
            id: id.into(),
            images: true,
            reasoning: true,
            ..Model::default()
        })
    }

    /// Serves below another path than `/v1`.
    #[must_use]
    pub fn base_path(mut self, path: impl Into<String>) -> Self {
        self.base_path = path.into();
        self
    }

    /// Serves the lists of models of this kind of server.
    #[must_use]
    pub fn family(mut self, family: ServerFamily) -> Self {
        self.family = family;
        self
    }

    /// Gives the server a habit.
    #[must_use]
    pub fn quirk(mut self, quirk: Quirk) -> Self {
        self.quirks.push(quirk);
        self
    }

    /// Lets so many requests be refused for a quirk, see [`RunExpectation::max_quirk_refusals`].
    #[must_use]
    pub fn max_quirk_refusals(mut self, count: usize) -> Self {
        self.expect.max_quirk_refusals = count;
        self
    }

    /// Adds a step.
    #[must_use]
    pub fn step(mut self, step: impl Into<Step>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// Limits the number of connections, see [`RunExpectation::max_connections`].
    #[must_use]
    pub fn max_connections(mut self, count: usize) -> Self {
        self.expect.max_connections = Some(count);
        self
    }

    /// Reads a scenario file's text.
    ///
    /// # Errors
    /// When it is not JSON, has another version, unknown keys or values that make no sense.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        let value: Value = serde_json::from_str(text)?;
        let found = value.get("version").cloned().unwrap_or(Value::Null);
        if found != VERSION {
            return Err(ScenarioError::Version { found });
        }
        // From the text and not the value, so that errors carry line and column.
        let scenario: Self = serde_json::from_str(text)?;
        scenario.validate()?;
        Ok(scenario)
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// Names the first place that makes no sense.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        if self.version != VERSION {
            return Err(ScenarioError::Version {
                found: self.version.into(),
            });
        }
        check("name", !self.name.is_empty(), "is empty")?;
        check("models", !self.models.is_empty(), "is empty")?;
        let path = &self.base_path;
        check(
            "base_path",
            path.is_empty() || (path.starts_with('/') && !path.ends_with('/')),
            "does not start with `/`, or ends with it",
        )?;
        let ids: BTreeSet<&str> = self.models.iter().map(|model| model.id.as_str()).collect();
        check(
            "models",
            ids.len() == self.models.len() && !ids.contains(""),
            "has an empty or repeated id",
        )?;
        for (index, step) in self.steps.iter().enumerate() {
            validate_step(step, &format!("steps[{index}]"))?;
        }
        Ok(())
    }
}

impl Step {
    /// A step that expects any valid chat request.
    #[must_use]
    pub fn new(reply: Reply) -> Self {
        Self {
            endpoint: Endpoint::Chat,
            expect: RequestExpectation::default(),
            reply,
        }
    }

    /// A step that expects any valid request to this endpoint.
    #[must_use]
    pub fn at(endpoint: Endpoint, reply: Reply) -> Self {
        Self {
            endpoint,
            ..Self::new(reply)
        }
    }

    /// A step for a list of models.
    #[must_use]
    pub fn models(reply: Reply) -> Self {
        Self {
            endpoint: Endpoint::Models,
            ..Self::new(reply)
        }
    }

    /// Puts conditions on the request.
    #[must_use]
    pub fn expecting(mut self, expect: RequestExpectation) -> Self {
        self.expect = expect;
        self
    }
}

impl From<Reply> for Step {
    fn from(reply: Reply) -> Self {
        Self::new(reply)
    }
}

fn validate_step(step: &Step, place: &str) -> Result<(), ScenarioError> {
    let reply = &step.reply;
    let has_body = (200..600).contains(&reply.status) && reply.status != 204 && reply.status != 304;
    check(place, has_body, "`status` is none that carries a body")?;
    validate_headers(&reply.headers, place)?;
    for pointer in step.expect.body.keys().chain(&step.expect.body_lacks) {
        check(
            place,
            pointer.starts_with('/'),
            &format!("`{pointer}` is no JSON pointer"),
        )?;
    }
    if step.endpoint == Endpoint::Models {
        let plain = !matches!(reply.body, Body::Completion(_));
        check(
            place,
            plain,
            "a models step needs a body of its own, not a completion",
        )?;
        check(
            place,
            no_message_conditions(&step.expect),
            "a models step can only have conditions on target and headers",
        )?;
    }
    reply
        .delivery
        .validate()
        .map_err(|problem| ScenarioError::Invalid {
            place: place.to_owned(),
            problem,
        })?;
    match &reply.body {
        Body::Completion(completion) => {
            completion
                .validate()
                .map_err(|problem| ScenarioError::Invalid {
                    place: place.to_owned(),
                    problem,
                })
        }
        _ => Ok(()),
    }
}

fn validate_headers(headers: &BTreeMap<String, String>, place: &str) -> Result<(), ScenarioError> {
    for (name, value) in headers {
        let token = !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&byte));
        check(place, token, &format!("header name `{name}` is not valid"))?;
        let framing = ["content-length", "transfer-encoding", "connection"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own));
        check(
            place,
            !framing,
            &format!("header `{name}` is set by `delivery`"),
        )?;
        check(
            place,
            value
                .bytes()
                .all(|byte| byte == b'\t' || (0x20..0x7f).contains(&byte)),
            "a header value is not plain ASCII",
        )?;
    }
    Ok(())
}

fn no_message_conditions(expect: &RequestExpectation) -> bool {
    let only_headers = RequestExpectation {
        headers: expect.headers.clone(),
        target: expect.target.clone(),
        ..RequestExpectation::default()
    };
    *expect == only_headers
}

fn check(place: &str, holds: bool, problem: &str) -> Result<(), ScenarioError> {
    if holds {
        return Ok(());
    }
    Err(ScenarioError::Invalid {
        place: place.to_owned(),
        problem: problem.to_owned(),
    })
}

fn base_path() -> String {
    "/v1".to_owned()
}
