//! The strict reading of the contents of a Gemini request.

use std::fmt::Display;

use serde_json::Value;

use super::parts::{Kind, check_part, signed_text};
use crate::capabilities::ModelCapabilities;
use crate::check::{Found, items, text};
use crate::verdict::ViolationKind::{self, *};

/// Checks `contents`.
pub(super) fn check_contents(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    let contents = items(body, "contents");
    if contents.is_empty() {
        found.fail(InvalidMessages, "contents", "is missing, no list, or empty");
        return;
    }
    let mut walk = Walk {
        model,
        turn_starts: contents.iter().rposition(is_question).unwrap_or(0),
        calls: Vec::new(),
        previous: None,
        at: 0,
        place: String::new(),
        found,
    };
    for (at, content) in contents.iter().enumerate() {
        walk.at = at;
        walk.place = format!("contents[{at}]");
        walk.content(content);
    }
    walk.end();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Something that a person says.
    User,
    Responses,
    Model,
    /// The model's, with function calls.
    Calls,
}

/// State of the pass over the contents.
struct Walk<'a> {
    model: &'a ModelCapabilities,
    /// The last content in which a person speaks; what follows is the current turn.
    turn_starts: usize,
    /// The calls that the next content has to answer.
    calls: Vec<Value>,
    previous: Option<Turn>,
    at: usize,
    place: String,
    found: &'a mut Found,
}

impl Walk<'_> {
    fn content(&mut self, content: &Value) {
        let place = self.place.clone();
        self.found
            .only_keys(InvalidMessages, &place, content, &["role", "parts"]);
        let parts = items(content, "parts");
        if parts.is_empty() {
            self.fail(EmptyMessage, "`parts` must not be empty");
        }
        for (index, part) in parts.iter().enumerate() {
            let place = format!("{place}.parts[{index}]");
            check_part(part, &place, self.model, self.found);
        }
        let has = |kind| parts.iter().any(|part| Kind::of(part) == Some(kind));
        let turn = match text(content, "role") {
            Some("user") if has(Kind::Response) => Turn::Responses,
            Some("user") => Turn::User,
            Some("model") if has(Kind::Call) => Turn::Calls,
            Some("model") => Turn::Model,
            _ => {
                self.fail(InvalidMessages, "use a valid role: user, model");
                return;
            }
        };
        let misplaced = match turn {
            Turn::User | Turn::Responses => has(Kind::Call),
            Turn::Model | Turn::Calls => has(Kind::Response),
        };
        if misplaced {
            self.fail(
                InvalidContent,
                "calls belong to the model and responses to the user",
            );
        }
        self.order(turn);
        match turn {
            Turn::Responses => self.responses(parts),
            _ => self.unanswered(),
        }
        if turn == Turn::Calls {
            self.calls = parts
                .iter()
                .filter_map(|part| part.get("functionCall").cloned())
                .collect();
            self.signature(parts);
        }
        self.previous = Some(turn);
    }

    fn order(&mut self, turn: Turn) {
        match (self.previous, turn) {
            (None, Turn::Model | Turn::Calls) => {
                self.fail(RoleOrder, "the first content is not the user's");
            }
            (Some(Turn::Model | Turn::Calls), Turn::Calls) => self.fail(
                RoleOrder,
                "a function call turn comes immediately after a user turn or after a function response turn",
            ),
            (Some(Turn::Model | Turn::Calls), Turn::Model) => {
                self.fail(RoleOrder, "a model content directly after another");
            }
            (previous, Turn::Responses) if previous != Some(Turn::Calls) => self.fail(
                ToolResultWithoutCall,
                "a function response turn comes immediately after a function call turn",
            ),
            _ => {}
        }
    }

    fn responses(&mut self, parts: &[Value]) {
        let responses: Vec<&Value> = parts
            .iter()
            .filter_map(|part| part.get("functionResponse"))
            .collect();
        if responses.len() != parts.len() {
            self.fail(
                InvalidContent,
                "function responses and other parts in one content",
            );
        }
        if self.previous != Some(Turn::Calls) {
            return;
        }
        let mut open = std::mem::take(&mut self.calls);
        let mut strays = 0;
        for response in &responses {
            match open.iter().position(|call| answers(call, response)) {
                Some(position) => drop(open.remove(position)),
                None => strays += 1,
            }
        }
        let what = "the function response parts do not match the function call parts of the turn before in number, name and id";
        if strays > 0 {
            self.fail(ToolResultWithoutCall, what);
        }
        if !open.is_empty() {
            self.fail(CallWithoutResult, what);
        }
    }

    /// The calls of the turn before got no responses at all.
    fn unanswered(&mut self) {
        if !std::mem::take(&mut self.calls).is_empty() {
            self.fail(
                CallWithoutResult,
                "the function calls before this place have no function responses",
            );
        }
    }

    /// The first call of each step of the current turn is signed, and a call that the model signed always is.
    fn signature(&mut self, parts: &[Value]) {
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        let Some(first) = first.filter(|part| part.get("thoughtSignature").is_none()) else {
            return;
        };
        let content = signed_text(&first["functionCall"]);
        let unsigned = self.model.gave(&content, "") && !self.model.signed(&content);
        let owed = self.model.reasoning && self.at > self.turn_starts && !unsigned;
        if owed || self.model.signed(&content) {
            self.fail(
                InvalidSignature,
                "function call is missing a thought_signature in functionCall parts",
            );
        }
    }

    fn end(&mut self) {
        if matches!(self.previous, Some(Turn::Model)) {
            self.fail(
                RoleOrder,
                "ensure that multiturn requests end with a user role or a function response",
            );
        }
        self.unanswered();
    }

    fn fail(&mut self, kind: ViolationKind, what: impl Display) {
        let place = self.place.clone();
        self.found.fail(kind, &place, what);
    }
}

/// Whether a person speaks in the content.
fn is_question(content: &Value) -> bool {
    let other = |part: &Value| part.get("functionResponse").is_none();
    text(content, "role") == Some("user") && items(content, "parts").iter().any(other)
}

/// Names are equal, and ids where both have one.
fn answers(call: &Value, response: &Value) -> bool {
    let ids = (text(call, "id"), text(response, "id"));
    let same_id = match ids {
        (Some(call), Some(response)) => call == response,
        (None, Some(_)) => false,
        _ => true,
    };
    same_id && call.get("name") == response.get("name")
}
