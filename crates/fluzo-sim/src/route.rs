//! What is served where, and what a request has to show to be let in.

use serde_json::Value;

use crate::http::Incoming;
use crate::lists::List;
use crate::scenario::{Endpoint, Scenario, ServerFamily};
use crate::verdict::{Violation, ViolationKind};

/// A status with what was wrong.
pub(crate) type Refused = (u16, Vec<Violation>);

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// A question to a model.
    Ask(Target),
    /// A list of models.
    List(List),
}

/// What the path alone says of a question to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub endpoint: Endpoint,
    /// The model, where the path names it.
    pub model: Option<String>,
    /// Whether a stream is asked for, where the path says so.
    pub stream: Option<bool>,
    pub door: Door,
}

/// How a client shows that it may come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// No key is asked for.
    Open,
    /// `x-api-key` or a bearer token, and `anthropic-version`.
    Anthropic,
    /// `x-goog-api-key`.
    Google,
    /// A bearer token, or Azure's `api-key`.
    Azure,
    /// A bearer token.
    Bearer,
    /// A bearer token, or `x-goog-api-key`.
    Vertex,
}

impl Target {
    fn plain(endpoint: Endpoint, door: Door) -> Self {
        Self {
            endpoint,
            model: None,
            stream: None,
            door,
        }
    }

    /// What the body must or must not say because of the path.
    pub(crate) fn misplaced(&self, body: &Value) -> Option<Violation> {
        if self.endpoint != Endpoint::Messages {
            return None;
        }
        let version = body.get("anthropic_version").and_then(Value::as_str);
        let what = match self.door {
            Door::Bearer if body.get("model").is_some() => "model: the path names it already",
            Door::Bearer if version != Some("vertex-2023-10-16") => {
                "anthropic_version: is not vertex-2023-10-16"
            }
            Door::Bearer => return None,
            _ if version.is_some() => "anthropic_version: belongs into a header here",
            _ => return None,
        };
        Some(Violation::new(ViolationKind::InvalidParameter, what))
    }
}

/// The endpoint that a path belongs to at first sight, which decides the form of errors.
pub(crate) fn endpoint_of(path: &str) -> Endpoint {
    let path = path.split('?').next().unwrap_or_default();
    if path.ends_with("/messages") || path.contains("/publishers/anthropic/") {
        Endpoint::Messages
    } else if path.ends_with(":streamGenerateContent")
        || path.ends_with(":generateContent")
        || path.starts_with("/v1beta/")
    {
        Endpoint::Gemini
    } else if path.ends_with("/responses") {
        Endpoint::Responses
    } else {
        Endpoint::Chat
    }
}

/// Finds what is served, or the status for what is not.
pub(crate) fn route(scenario: &Scenario, request: &Incoming) -> Result<Route, Refused> {
    let (path, query) = request
        .path
        .split_once('?')
        .map_or((request.path.as_str(), None), |(path, query)| {
            (path, Some(query))
        });
    let method = request.method.as_str();
    let refuse = |status: u16, what: String| {
        let violation = Violation::new(ViolationKind::UnknownEndpoint, what);
        Err((status, vec![violation]))
    };
    if let Some(list) = List::at(scenario, request, path)
        && query.is_none()
    {
        return match list.method() {
            // Nothing is there, whatever the method.
            _ if list == List::Elsewhere => Ok(Route::List(list)),
            expected if expected == method => Ok(Route::List(list)),
            _ => refuse(405, format!("{method} is not allowed on {path}")),
        };
    }
    match target(scenario, path, query) {
        Some(target) if method == "POST" => Ok(Route::Ask(target)),
        Some(_) => refuse(405, format!("{method} is not allowed on {path}")),
        None => refuse(
            404,
            format!("nothing is served at {method} {}", request.path),
        ),
    }
}

/// What a path and its query ask for.
fn target(scenario: &Scenario, path: &str, query: Option<&str>) -> Option<Target> {
    let base_path = scenario.base_path.as_str();
    if let Some((who, model, method)) = published(path) {
        let door = match who {
            "google" => Door::Vertex,
            _ => Door::Bearer,
        };
        return asked_model(who, model, method, query, door);
    }
    for base in ["/v1beta", base_path] {
        let model = path
            .strip_prefix(base)
            .and_then(|rest| rest.strip_prefix("/models/"))
            .and_then(|rest| rest.rsplit_once(':'));
        if let Some((model, method)) = model {
            return asked_model("google", model, method, query, Door::Google);
        }
    }
    if let Some(target) = azure(path, query) {
        return Some(target);
    }
    let behind = |door| match scenario.family {
        ServerFamily::Generic => door,
        _ => Door::Open,
    };
    let fits = |allowed: &str| query.is_none_or(|query| query == allowed);
    match path.strip_prefix(base_path)? {
        "/chat/completions" if query.is_none() => Some(Target::plain(Endpoint::Chat, Door::Open)),
        "/messages" if fits("beta=true") => {
            Some(Target::plain(Endpoint::Messages, behind(Door::Anthropic)))
        }
        "/responses" if query.is_none() => {
            Some(Target::plain(Endpoint::Responses, behind(Door::Bearer)))
        }
        _ => None,
    }
}

/// What is asked of a resource of Azure OpenAI.
fn azure(path: &str, query: Option<&str>) -> Option<Target> {
    let version = |query: &str| {
        query
            .strip_prefix("api-version=")
            .is_some_and(|version| !version.is_empty() && !version.contains('&'))
    };
    let path = path.strip_prefix("/openai/")?;
    let path = match path.strip_prefix("deployments/") {
        Some(rest) => rest.split_once('/').filter(|(name, _)| !name.is_empty())?.1,
        None => path.strip_prefix("v1/").unwrap_or(path),
    };
    let endpoint = match path {
        "chat/completions" => Endpoint::Chat,
        "responses" => Endpoint::Responses,
        _ => return None,
    };
    query
        .is_none_or(version)
        .then(|| Target::plain(endpoint, Door::Azure))
}

/// Publisher, model and method of `/v1/projects/P/locations/L/publishers/WHO/models/ID:METHOD`.
fn published(path: &str) -> Option<(&str, &str, &str)> {
    let words: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let [
        "v1" | "v1beta1",
        "projects",
        project,
        "locations",
        location,
        "publishers",
        who,
        "models",
        model,
    ] = words[..]
    else {
        return None;
    };
    let (model, method) = model.rsplit_once(':')?;
    let named = ![project, location].contains(&"");
    named.then_some((who, model, method))
}

fn asked_model(
    who: &str,
    model: &str,
    method: &str,
    query: Option<&str>,
    door: Door,
) -> Option<Target> {
    let (endpoint, stream) = match (who, method, query) {
        ("anthropic", "streamRawPredict", None) => (Endpoint::Messages, true),
        ("anthropic", "rawPredict", None) => (Endpoint::Messages, false),
        ("google", "streamGenerateContent", Some("alt=sse")) => (Endpoint::Gemini, true),
        ("google", "generateContent", None) => (Endpoint::Gemini, false),
        _ => return None,
    };
    let target = Target {
        endpoint,
        model: Some(model.to_owned()),
        stream: Some(stream),
        door,
    };
    (!model.is_empty()).then_some(target)
}

/// Whether the request shows what the door asks for.
pub(crate) fn admit(door: Door, request: &Incoming) -> Result<(), Refused> {
    let has = |name: &str| request.header(name).is_some_and(|value| !value.is_empty());
    // Cloudflare's gateway takes its own token, and knows the one of the server behind it.
    let bearer = ["authorization", "cf-aig-authorization"]
        .iter()
        .filter_map(|name| request.header(name)?.split_once(' '))
        .any(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty());
    let missing = |status: u16, kind, what: &str| Err((status, vec![Violation::new(kind, what)]));
    let no_key = |what: &str| missing(401, ViolationKind::MissingCredentials, what);
    match door {
        Door::Open => Ok(()),
        Door::Anthropic if !has("x-api-key") && !bearer => {
            no_key("neither `x-api-key` nor a bearer token")
        }
        Door::Anthropic if request.header("anthropic-version") != Some("2023-06-01") => missing(
            400,
            ViolationKind::MissingHeader,
            "`anthropic-version` is not 2023-06-01",
        ),
        Door::Google if !has("x-goog-api-key") => missing(
            403,
            ViolationKind::MissingCredentials,
            "no `x-goog-api-key`",
        ),
        Door::Azure if !has("api-key") && !bearer => no_key("neither `api-key` nor a bearer token"),
        Door::Bearer if !bearer => no_key("no bearer token"),
        Door::Vertex if !has("x-goog-api-key") && !bearer => {
            no_key("neither a bearer token nor `x-goog-api-key`")
        }
        _ => Ok(()),
    }
}
