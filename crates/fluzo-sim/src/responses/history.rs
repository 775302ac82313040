//! The strict reading of the input of a Responses request.

use std::collections::BTreeSet;

use serde_json::Value;

use super::is_said;
use super::items::{check_call, check_message, check_output, check_reasoning};
use crate::capabilities::ModelCapabilities;
use crate::check::{Found, text};
use crate::verdict::ViolationKind::*;

/// Checks `input`.
pub(super) fn check_input(body: &Value, model: &ModelCapabilities, found: &mut Found) {
    let list = match body.get("input") {
        Some(Value::String(text)) if !text.is_empty() => return,
        Some(Value::Array(list)) if !list.is_empty() => list,
        _ => {
            found.fail(InvalidMessages, "input", "is missing, empty, or no list");
            return;
        }
    };
    let mut walk = Walk {
        model,
        open: Vec::new(),
        done: BTreeSet::new(),
        ids: BTreeSet::new(),
        reasoning: None,
        place: String::new(),
        found,
    };
    for (at, item) in list.iter().enumerate() {
        walk.place = format!("input[{at}]");
        walk.item(item);
    }
    walk.close_turn();
    walk.unfollowed();
    let place = format!("input[{}]", list.len() - 1);
    let said = list
        .last()
        .is_some_and(|item| is_said(item) && text(item, "type") != Some("function_call"));
    found.unless(
        !said,
        RoleOrder,
        &place,
        "the last item is neither a user's nor the output of a call",
    );
}

/// State of the pass over the items.
struct Walk<'a> {
    model: &'a ModelCapabilities,
    /// Calls without output so far.
    open: Vec<String>,
    /// Calls with an output.
    done: BTreeSet<String>,
    /// Ids of the items so far.
    ids: BTreeSet<String>,
    /// A reasoning item whose following item has not come yet.
    reasoning: Option<(String, String)>,
    place: String,
    found: &'a mut Found,
}

impl Walk<'_> {
    fn item(&mut self, item: &Value) {
        let place = self.place.clone();
        if !is_said(item) {
            self.unfollowed();
        }
        match text(item, "type").unwrap_or("message") {
            "message" => {
                self.close_turn();
                check_message(item, &place, self.model, self.found);
            }
            "reasoning" => self.reasoning(item),
            "function_call" => self.call(item),
            "function_call_output" => self.output(item),
            kind => {
                let what = format_args!("invalid value `{kind}` as the type of an item");
                self.found.fail(InvalidMessages, &place, what);
                return;
            }
        }
        self.id(item);
        if is_said(item) && text(item, "type") != Some("reasoning") {
            self.owed(item);
            self.reasoning = None;
        }
    }

    fn reasoning(&mut self, item: &Value) {
        let place = self.place.clone();
        let what = "reasoning is not supported with this model";
        self.found
            .unless(self.model.reasoning, InvalidMessages, &place, what);
        check_reasoning(item, &place, self.model, self.found);
        let id = text(item, "id").unwrap_or_default().to_owned();
        self.reasoning = Some((place, id));
    }

    /// A reasoning item is there for the sake of the item that it led to.
    fn unfollowed(&mut self) {
        if let Some((place, id)) = self.reasoning.take() {
            let what = format_args!(
                "item `{id}` of type `reasoning` was provided without its required following item"
            );
            self.found.fail(ThinkingMissing, &place, what);
        }
    }

    /// The simulator's own items tell in their id which reasoning they followed.
    fn owed(&mut self, item: &Value) {
        let Some(owner) = text(item, "id").and_then(owner) else {
            return;
        };
        if !self.ids.contains(&owner) {
            let kind = text(item, "type").unwrap_or("message");
            let what = format_args!(
                "item of type `{kind}` was provided without its required `reasoning` item `{owner}`"
            );
            let place = self.place.clone();
            self.found.fail(ThinkingMissing, &place, what);
        }
    }

    fn call(&mut self, item: &Value) {
        let place = self.place.clone();
        let id = check_call(item, &place, self.found);
        if id.is_empty() {
            return;
        }
        if self.open.contains(&id) || self.done.contains(&id) {
            let what = format_args!("a second function call with the call_id `{id}`");
            self.found.fail(DuplicateCallId, &place, what);
        }
        self.open.push(id);
    }

    fn output(&mut self, item: &Value) {
        let place = self.place.clone();
        let id = check_output(item, &place, self.model, self.found);
        if let Some(position) = self.open.iter().position(|open| *open == id) {
            self.done.insert(self.open.remove(position));
        } else if self.done.contains(&id) {
            let what = format_args!("a second output for the call_id `{id}`");
            self.found.fail(DuplicateToolResult, &place, what);
        } else if !id.is_empty() {
            let what = format_args!("no tool call found for function call output `{id}`");
            self.found.fail(ToolResultWithoutCall, &place, what);
        }
    }

    fn id(&mut self, item: &Value) {
        let Some(id) = text(item, "id") else { return };
        let what = format_args!("duplicate item found with id `{id}`");
        let place = self.place.clone();
        self.found.unless(
            self.ids.insert(id.to_owned()),
            InvalidMessages,
            &place,
            what,
        );
    }

    fn close_turn(&mut self) {
        let place = self.place.clone();
        for id in std::mem::take(&mut self.open) {
            let what = format_args!("no tool output found for function call `{id}`");
            self.found.fail(CallWithoutResult, &place, what);
        }
    }
}

/// The reasoning item that an item's id speaks of: `fc_rN_M` and `msg_rN_M` follow `rs_rN`.
fn owner(id: &str) -> Option<String> {
    let rest = id
        .strip_prefix("fc_r")
        .or_else(|| id.strip_prefix("msg_r"))?;
    let (number, part) = rest.split_once('_')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(number) && digits(part)).then(|| format!("rs_r{number}"))
}
