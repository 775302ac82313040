//! The strict reading of the messages of a Messages request.

use std::collections::BTreeSet;
use std::fmt::Display;

use serde_json::Value;

use super::rules::{Thinking, check_text};
use crate::capabilities::ModelCapabilities;
use crate::check::{Found, is_base64, is_name, one_of, text};
use crate::seal::{Purpose, is_enclosed, sign};
use crate::verdict::ViolationKind::{self, *};

const MEDIA: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Checks `messages`.
pub(super) fn check_messages(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    let Some(messages) = body.get("messages").and_then(Value::as_array) else {
        found.fail(InvalidMessages, "messages", "is missing or no list");
        return;
    };
    if messages.is_empty() {
        found.fail(
            InvalidMessages,
            "messages",
            "at least one message is required",
        );
        return;
    }
    let mut walk = Walk {
        model,
        thinking: Thinking::of(body),
        last_assistant: messages
            .iter()
            .rposition(|message| text(message, "role") == Some("assistant")),
        count: messages.len(),
        open: Vec::new(),
        answered: Vec::new(),
        seen: BTreeSet::new(),
        previous: None,
        at: 0,
        place: String::new(),
        found,
    };
    for (at, message) in messages.iter().enumerate() {
        walk.at = at;
        walk.place = format!("messages.{at}");
        walk.message(message);
    }
    walk.end();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
}

/// State of the pass over the messages.
struct Walk<'a> {
    model: &'a ModelCapabilities,
    thinking: Thinking,
    last_assistant: Option<usize>,
    count: usize,
    /// Calls of the message before that lack a result.
    open: Vec<String>,
    /// Calls of the message before that have one.
    answered: Vec<String>,
    /// Ids of all calls so far.
    seen: BTreeSet<String>,
    previous: Option<Role>,
    at: usize,
    place: String,
    found: &'a mut Found,
}

impl Walk<'_> {
    fn message(&mut self, message: &Value) {
        let role = match text(message, "role") {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            _ => {
                self.fail(InvalidMessages, "role is neither user nor assistant");
                return;
            }
        };
        let place = self.place.clone();
        self.found
            .only_keys(InvalidMessages, &place, message, &["role", "content"]);
        if role == Role::Assistant {
            self.close_turn();
        }
        self.order(role);
        let owed = !self.open.is_empty();
        match message.get("content") {
            Some(Value::String(text)) => self.string(text, role),
            Some(Value::Array(blocks)) if blocks.is_empty() => {
                self.fail(EmptyMessage, "content is an empty list");
            }
            Some(Value::Array(blocks)) if role == Role::User => self.user(blocks),
            Some(Value::Array(blocks)) => self.assistant(blocks),
            None | Some(Value::Null) => self.fail(EmptyMessage, "content is missing"),
            Some(_) => self.fail(InvalidContent, "content is neither text nor a list"),
        }
        if owed {
            self.close_turn();
        }
        self.previous = Some(role);
    }

    fn order(&mut self, role: Role) {
        match (self.previous, role) {
            (None, Role::Assistant) => {
                self.fail(RoleOrder, "the first message must use the user role");
            }
            (Some(Role::Assistant), Role::Assistant) => {
                self.fail(RoleOrder, "an assistant message directly after another");
            }
            _ => {}
        }
        if role == Role::Assistant && self.at + 1 == self.count && self.thinking != Thinking::Off {
            self.fail(
                RoleOrder,
                "the final message may not be the assistant's when thinking is enabled",
            );
        }
    }

    fn string(&mut self, text: &str, role: Role) {
        if text.trim().is_empty() {
            self.fail(EmptyMessage, "messages must have non-empty content");
        }
        if role == Role::Assistant {
            self.prefill(text);
            self.owes_thinking(&[]);
        }
    }

    /// An assistant message at the end is continued by the model.
    fn prefill(&mut self, text: &str) {
        if self.at + 1 == self.count && text.trim_end() != text {
            self.fail(
                InvalidContent,
                "final assistant content cannot end with trailing whitespace",
            );
        }
    }

    fn user(&mut self, blocks: &[Value]) {
        let mut results_over = false;
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{}.content.{index}", self.place);
            match text(block, "type") {
                Some("text") => check_text(block, &place, self.found),
                Some("image") => self.image(block, &place),
                Some("tool_result") => self.result(block, &place, results_over),
                kind => self.odd(&place, kind, "user"),
            }
            results_over |= text(block, "type") != Some("tool_result");
        }
    }

    fn result(&mut self, block: &Value, place: &str, results_over: bool) {
        let keys = &[
            "type",
            "tool_use_id",
            "content",
            "is_error",
            "cache_control",
        ];
        self.found.only_keys(InvalidContent, place, block, keys);
        let id = text(block, "tool_use_id").unwrap_or_default();
        if let Some(position) = self.open.iter().position(|open| open == id) {
            self.answered.push(self.open.remove(position));
            self.found.unless(
                !results_over,
                CallWithoutResult,
                place,
                format_args!(
                    "the result of `{id}` does not stand at the start of the message after its call"
                ),
            );
        } else if self.answered.iter().any(|done| done == id) {
            self.found.fail(
                DuplicateToolResult,
                place,
                format_args!("each tool_use must have a single result, `{id}` has more"),
            );
        } else {
            self.found.fail(
                ToolResultWithoutCall,
                place,
                format_args!("the previous message has no tool_use `{id}`"),
            );
        }
        let failed = block.get("is_error").and_then(Value::as_bool) == Some(true);
        self.result_content(block.get("content"), place, failed);
    }

    fn result_content(&mut self, content: Option<&Value>, place: &str, failed: bool) {
        let empty = match content {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(blocks)) => blocks.is_empty(),
            Some(_) => {
                let what = "content is neither text nor a list";
                self.found.fail(InvalidContent, place, what);
                return;
            }
        };
        let what = "content cannot be empty if `is_error` is true";
        self.found
            .unless(!(empty && failed), EmptyMessage, place, what);
        let blocks = content.and_then(Value::as_array).into_iter().flatten();
        for (index, block) in blocks.enumerate() {
            let place = format!("{place}.content.{index}");
            match text(block, "type") {
                Some("text") => check_text(block, &place, self.found),
                Some("image") if failed => {
                    let what = "all content must be text if `is_error` is true";
                    self.found.fail(InvalidContent, &place, what);
                }
                Some("image") => self.image(block, &place),
                kind => self.odd(&place, kind, "tool_result"),
            }
        }
    }

    fn image(&mut self, block: &Value, place: &str) {
        if !self.model.images {
            let what = "an image, but the model takes none";
            self.found.fail(ImageNotSupported, place, what);
        }
        let keys = &["type", "source", "cache_control"];
        self.found.only_keys(InvalidContent, place, block, keys);
        let source = block.get("source").unwrap_or(&Value::Null);
        let good = match text(source, "type") {
            Some("base64") => {
                let media = source.get("media_type");
                self.found.unless(
                    media.is_some_and(|media| one_of(media, MEDIA)),
                    InvalidContent,
                    place,
                    "`media_type` is none of image/jpeg, image/png, image/gif, image/webp",
                );
                text(source, "data").is_some_and(is_base64)
            }
            Some("url") => text(source, "url").is_some_and(|url| url.starts_with("http")),
            _ => false,
        };
        let what = "the source is neither valid base64 nor a URL";
        self.found.unless(good, InvalidContent, place, what);
    }

    fn assistant(&mut self, blocks: &[Value]) {
        for (index, block) in blocks.iter().enumerate() {
            let place = format!("{}.content.{index}", self.place);
            match text(block, "type") {
                Some("text") => check_text(block, &place, self.found),
                Some("thinking") => self.thinking_block(block, &place),
                Some("redacted_thinking") => self.redacted(block, &place),
                Some("tool_use") => self.call(block, &place),
                kind => self.odd(&place, kind, "assistant"),
            }
        }
        let thought = blocks.iter().position(is_thought);
        if thought.is_some_and(|position| position > 0) {
            self.fail(
                ThinkingMissing,
                "a message with thinking must start with it",
            );
        }
        self.owes_thinking(blocks);
        if let Some(last) = blocks.last().and_then(|block| text(block, "text")) {
            self.prefill(last);
        }
    }

    /// The turn that is being continued with tool results must still have its thinking.
    fn owes_thinking(&mut self, blocks: &[Value]) {
        let excused = self
            .open
            .iter()
            .any(|id| self.model.unthought_calls.contains(id));
        let continued = self.thinking == Thinking::Enabled
            && self.last_assistant == Some(self.at)
            && !self.open.is_empty();
        if continued && !excused && !blocks.first().is_some_and(is_thought) {
            self.fail(
                ThinkingMissing,
                "expected thinking or redacted_thinking as the first block of a turn with tool_use when thinking is enabled",
            );
        }
    }

    fn thinking_block(&mut self, block: &Value, place: &str) {
        let keys = &["type", "thinking", "signature"];
        self.found.only_keys(InvalidContent, place, block, keys);
        let Some(thinking) = text(block, "thinking") else {
            self.found
                .fail(InvalidContent, place, "a thinking block without `thinking`");
            return;
        };
        let signature = text(block, "signature").unwrap_or_default();
        let own = sign(Purpose::Thinking, &self.model.id, thinking);
        let good = signature == own || self.model.gave(thinking, signature);
        let what = if signature.is_empty() {
            "`signature`: field required"
        } else {
            "invalid `signature` in thinking block"
        };
        self.found.unless(good, InvalidSignature, place, what);
    }

    fn redacted(&mut self, block: &Value, place: &str) {
        let keys = &["type", "data"];
        self.found.only_keys(InvalidContent, place, block, keys);
        let data = text(block, "data").unwrap_or_default();
        self.found.unless(
            is_enclosed(Purpose::Redacted, &self.model.id, data),
            InvalidSignature,
            place,
            "invalid `data` in redacted_thinking block",
        );
    }

    fn call(&mut self, block: &Value, place: &str) {
        let keys = &["type", "id", "name", "input", "cache_control"];
        self.found.only_keys(InvalidToolCall, place, block, keys);
        let id = text(block, "id").unwrap_or_default();
        if !is_name(id, usize::MAX) {
            let what = format_args!("`id` `{id}` does not match ^[a-zA-Z0-9_-]+$");
            self.found.fail(InvalidToolCall, place, what);
        } else if self.seen.insert(id.to_owned()) {
            self.open.push(id.to_owned());
        } else {
            let what = format_args!("tool_use ids must be unique, `{id}` is used before");
            self.found.fail(DuplicateCallId, place, what);
            if !self.open.iter().any(|open| open == id) {
                self.open.push(id.to_owned());
            }
        }
        let name = text(block, "name").unwrap_or_default();
        let what = format_args!("`{name}` is no name of 1 to 128 letters, digits, `_` and `-`");
        self.found
            .unless(is_name(name, 128), InvalidToolCall, place, what);
        self.found.unless(
            block.get("input").is_some_and(Value::is_object),
            ArgumentsNotObject,
            place,
            "`input` is no object",
        );
    }

    fn odd(&mut self, place: &str, kind: Option<&str>, role: &str) {
        let kind = kind.unwrap_or("none");
        let what = format_args!("a block of type `{kind}` has no place in {role} content");
        self.found.fail(InvalidContent, place, what);
    }

    fn close_turn(&mut self) {
        for id in std::mem::take(&mut self.open) {
            let what =
                format!("tool_use `{id}` has no tool_result at the start of the message after it");
            self.fail(CallWithoutResult, what);
        }
        self.answered.clear();
    }

    fn end(&mut self) {
        self.close_turn();
    }

    fn fail(&mut self, kind: ViolationKind, what: impl Display) {
        let place = self.place.clone();
        self.found.fail(kind, &place, what);
    }
}

fn is_thought(block: &Value) -> bool {
    matches!(text(block, "type"), Some("thinking" | "redacted_thinking"))
}
