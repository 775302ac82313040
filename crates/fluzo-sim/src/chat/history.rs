//! The strict reading of a Chat Completions history: what the pickiest server in the field would refuse.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::check::is_object_text;
use crate::verdict::{Violation, ViolationKind};

/// Checks `messages` (against `tools`) of a request body and lists every broken rule; empty means acceptable.
///
/// The rules: `system` or `developer` only as the first message; the first message after it, and never the last
/// one, decides who starts (`user`) and who may end (`user`, `tool`); no two `assistant` messages in a row; each tool
/// call has exactly one result directly after its turn and each result its call; ids are unique in a turn; arguments are a
/// string that holds a JSON object; called tools are offered when the request offers any; images only in user messages
/// and only for a model that takes them; no empty message. A tool result may be an empty string.
#[must_use]
pub fn check_history(request: &Value, model: &ModelCapabilities) -> Vec<Violation> {
    let Some(messages) = request.get("messages").and_then(Value::as_array) else {
        return vec![Violation::new(
            ViolationKind::InvalidMessages,
            "`messages` is missing or no list",
        )];
    };
    if messages.is_empty() {
        return vec![Violation::new(
            ViolationKind::InvalidMessages,
            "`messages` is empty",
        )];
    }
    let mut walk = Walk {
        model,
        offered: offered(request),
        open: vec![],
        answered: vec![],
        previous: None,
        at: 0,
        found: vec![],
    };
    for (at, message) in messages.iter().enumerate() {
        walk.at = at;
        walk.message(message);
    }
    walk.end();
    walk.found
}

/// Names of the tools that a request offers; empty when it offers none.
pub(crate) fn offered(request: &Value) -> BTreeSet<&str> {
    let tools = request.get("tools").and_then(Value::as_array);
    tools
        .into_iter()
        .flatten()
        .filter_map(|tool| tool.pointer("/function/name").and_then(Value::as_str))
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

impl Role {
    fn of(message: &Value) -> Option<Self> {
        match message.get("role")?.as_str()? {
            "system" | "developer" => Some(Self::System),
            "user" => Some(Self::User),
            "assistant" => Some(Self::Assistant),
            "tool" => Some(Self::Tool),
            _ => None,
        }
    }
}

/// State of the pass over the messages.
struct Walk<'a> {
    model: &'a ModelCapabilities,
    offered: BTreeSet<&'a str>,
    /// Calls of the current turn that still lack a result.
    open: Vec<String>,
    /// Calls of the current turn that have one.
    answered: Vec<String>,
    previous: Option<Role>,
    at: usize,
    found: Vec<Violation>,
}

impl Walk<'_> {
    fn message(&mut self, message: &Value) {
        let Some(role) = Role::of(message) else {
            let role = message.get("role").unwrap_or(&Value::Null);
            self.fail(
                ViolationKind::InvalidMessages,
                format!("role {role} is none of system, developer, user, assistant, tool"),
            );
            return;
        };
        if role != Role::Tool {
            self.close_turn();
        }
        self.order(role);
        if role != Role::Assistant && message.get("tool_calls").is_some() {
            self.fail(
                ViolationKind::InvalidToolCall,
                "only assistant messages may have `tool_calls`",
            );
        }
        match role {
            Role::System => self.content(message, false),
            Role::User => self.content(message, true),
            Role::Assistant => self.assistant(message),
            Role::Tool => self.tool(message),
        }
        self.previous = Some(role);
    }

    fn order(&mut self, role: Role) {
        let started = matches!(
            self.previous,
            Some(Role::User | Role::Assistant | Role::Tool)
        );
        match role {
            Role::System if self.previous.is_some() => self.fail(
                ViolationKind::RoleOrder,
                "a system message that is not the first message",
            ),
            Role::Assistant | Role::Tool if !started => self.fail(
                ViolationKind::RoleOrder,
                "the conversation does not start with a user message",
            ),
            Role::Assistant if self.previous == Some(Role::Assistant) => {
                self.fail(
                    ViolationKind::RoleOrder,
                    "an assistant message directly after another",
                );
            }
            _ => {}
        }
    }

    fn end(&mut self) {
        let nothing_to_answer = matches!(self.previous, Some(Role::Assistant | Role::System));
        if nothing_to_answer && self.open.is_empty() {
            self.fail(
                ViolationKind::RoleOrder,
                "the last message is neither a user message nor a tool result",
            );
        }
        self.at += 1;
        self.close_turn();
    }

    fn close_turn(&mut self) {
        for id in std::mem::take(&mut self.open) {
            self.fail(
                ViolationKind::CallWithoutResult,
                format!("call `{id}` has no result before this place"),
            );
        }
        self.answered.clear();
    }

    fn assistant(&mut self, message: &Value) {
        let calls = message.get("tool_calls").filter(|calls| !calls.is_null());
        match message.get("content") {
            None | Some(Value::Null) if calls.is_some() => {}
            Some(Value::String(text)) if text.is_empty() && calls.is_some() => {}
            _ => self.content(message, false),
        }
        let Some(calls) = calls else { return };
        match calls.as_array() {
            Some(list) if !list.is_empty() => list.iter().for_each(|call| self.call(call)),
            _ => self.fail(
                ViolationKind::InvalidToolCall,
                "`tool_calls` is no list or empty",
            ),
        }
    }

    fn call(&mut self, call: &Value) {
        if call.get("type").and_then(Value::as_str) != Some("function") {
            self.fail(
                ViolationKind::InvalidToolCall,
                "a tool call's `type` is not \"function\"",
            );
        }
        match non_empty(call.get("id")) {
            None => self.fail(ViolationKind::InvalidToolCall, "a tool call has no id"),
            Some(id) if self.open.iter().any(|open| open == id) => {
                self.fail(
                    ViolationKind::DuplicateCallId,
                    format!("two calls of this turn have the id `{id}`"),
                );
            }
            Some(id) => self.open.push(id.to_owned()),
        }
        match non_empty(call.pointer("/function/name")) {
            None => self.fail(
                ViolationKind::InvalidToolCall,
                "a tool call has no function name",
            ),
            Some(name) => self.name(name),
        }
        let arguments = call.pointer("/function/arguments").unwrap_or(&Value::Null);
        let object = is_object_text(Some(arguments));
        if !object {
            self.fail(
                ViolationKind::ArgumentsNotObject,
                format!("arguments {arguments} are not a string that holds a JSON object"),
            );
        }
    }

    fn name(&mut self, name: &str) {
        if !self.offered.is_empty()
            && !self.offered.contains(name)
            && !self.model.own_tools.contains(name)
        {
            self.fail(
                ViolationKind::UnknownTool,
                format!("tool `{name}` is called but not offered"),
            );
        }
    }

    fn tool(&mut self, message: &Value) {
        match non_empty(message.get("tool_call_id")) {
            None => self.fail(
                ViolationKind::ToolResultWithoutCall,
                "a tool result has no `tool_call_id`",
            ),
            Some(id) => self.result_for(id),
        }
        match message.get("content") {
            Some(Value::String(_)) => {}
            _ => self.content(message, false),
        }
    }

    fn result_for(&mut self, id: &str) {
        if let Some(position) = self.open.iter().position(|open| open == id) {
            self.answered.push(self.open.remove(position));
        } else if self.answered.iter().any(|done| done == id) {
            self.fail(
                ViolationKind::DuplicateToolResult,
                format!("call `{id}` already has a result"),
            );
        } else {
            self.fail(
                ViolationKind::ToolResultWithoutCall,
                format!("the turn before this result made no call `{id}`"),
            );
        }
    }

    fn content(&mut self, message: &Value, images_fit_role: bool) {
        match message.get("content") {
            None | Some(Value::Null) => self.fail(ViolationKind::EmptyMessage, "no content"),
            Some(Value::String(text)) if text.is_empty() => {
                self.fail(ViolationKind::EmptyMessage, "empty content")
            }
            Some(Value::String(_)) => {}
            Some(Value::Array(parts)) if parts.is_empty() => {
                self.fail(ViolationKind::EmptyMessage, "an empty list as content")
            }
            Some(Value::Array(parts)) => parts
                .iter()
                .for_each(|part| self.part(part, images_fit_role)),
            Some(_) => self.fail(
                ViolationKind::InvalidContent,
                "content is neither text nor a list of parts",
            ),
        }
    }

    fn part(&mut self, part: &Value, images_fit_role: bool) {
        match part.get("type").and_then(Value::as_str) {
            Some("text") => match part.get("text") {
                Some(Value::String(text)) if text.is_empty() => {
                    self.fail(ViolationKind::EmptyMessage, "an empty text part")
                }
                Some(Value::String(_)) => {}
                _ => self.fail(ViolationKind::InvalidContent, "a text part without text"),
            },
            Some("image_url") if images_fit_role => self.image(part),
            Some("image_url") => self.fail(
                ViolationKind::InvalidContent,
                "an image outside a user message",
            ),
            _ => self.fail(
                ViolationKind::InvalidContent,
                "a part that is neither text nor image",
            ),
        }
    }

    fn image(&mut self, part: &Value) {
        if !self.model.images {
            self.fail(
                ViolationKind::ImageNotSupported,
                "an image, but the model takes none",
            );
        }
        let url = part
            .pointer("/image_url/url")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !is_image_url(url) {
            self.fail(
                ViolationKind::InvalidContent,
                "an image whose URL is neither `data:image/…;base64,…` nor http",
            );
        }
    }

    fn fail(&mut self, kind: ViolationKind, what: impl Into<String>) {
        self.found.push(Violation::new(
            kind,
            format!("messages[{}]: {}", self.at, what.into()),
        ));
    }
}

fn is_image_url(url: &str) -> bool {
    if url.starts_with("https://") || url.starts_with("http://") {
        return true;
    }
    let data = url
        .strip_prefix("data:image/")
        .and_then(|rest| rest.split_once(";base64,"))
        .map(|(_, data)| data);
    data.is_some_and(|data| {
        !data.is_empty()
            && data
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    })
}

fn non_empty(value: Option<&Value>) -> Option<&str> {
    value
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}
