//! The parts of a content: their forms and their signatures.

use serde_json::Value;

use super::rules::is_function_name;
use crate::capabilities::ModelCapabilities;
use crate::check::{Found, is_base64, is_or_absent, items, one_of, text};
use crate::reply::call_text;
use crate::seal::{Purpose, sign};
use crate::verdict::ViolationKind::{
    ArgumentsNotObject, EmptyMessage, ImageNotSupported, InvalidContent, InvalidSignature,
    InvalidToolCall,
};

const PART_KEYS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "thought",
    "thoughtSignature",
];

const MEDIA: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];

/// Signatures that stand for "this call was not made by the model", as documented.
const FOREIGN: &[&str] = &[
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// What a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Data,
    Call,
    Response,
}

impl Kind {
    /// What a part is; `None` when it is nothing or more than one thing.
    pub(super) fn of(part: &Value) -> Option<Self> {
        let kinds = [
            ("text", Self::Text),
            ("inlineData", Self::Data),
            ("fileData", Self::Data),
            ("functionCall", Self::Call),
            ("functionResponse", Self::Response),
        ];
        let mut present = kinds.iter().filter(|(key, _)| part.get(key).is_some());
        match (present.next(), present.next()) {
            (Some((_, kind)), None) => Some(*kind),
            _ => None,
        }
    }
}

/// Checks one part by itself.
pub(super) fn check_part(part: &Value, place: &str, model: &ModelCapabilities, found: &mut Found) {
    found.only_keys(InvalidContent, place, part, PART_KEYS);
    let thought = is_or_absent(part, "thought", Value::is_boolean);
    let what = "`thought` is neither true nor false";
    found.unless(thought, InvalidContent, place, what);
    match Kind::of(part) {
        None => {
            let what = "required oneof field `data` must have one initialized field";
            found.fail(EmptyMessage, place, what);
        }
        Some(Kind::Text) => {
            let text = text(part, "text");
            found.unless(text.is_some(), InvalidContent, place, "`text` is no text");
            // An empty text may carry a signature that has no other place.
            let empty = text == Some("") && part.get("thoughtSignature").is_none();
            found.unless(!empty, EmptyMessage, place, "empty text");
        }
        Some(Kind::Data) => check_data(part, place, model, found),
        Some(Kind::Call) => check_call(part, place, found),
        Some(Kind::Response) => check_response(part, place, model, found),
    }
    check_signature(part, place, model, found);
}

fn check_data(part: &Value, place: &str, model: &ModelCapabilities, found: &mut Found) {
    let what = "an image, but the model takes none";
    found.unless(model.images, ImageNotSupported, place, what);
    let Some(data) = part.get("inlineData") else {
        return;
    };
    let keys = &["mimeType", "data", "displayName"];
    found.only_keys(InvalidContent, place, data, keys);
    found.unless(
        data.get("mimeType").is_some_and(|kind| one_of(kind, MEDIA)),
        InvalidContent,
        place,
        format_args!("unsupported MIME type {}", data["mimeType"]),
    );
    found.unless(
        text(data, "data").is_some_and(is_base64),
        InvalidContent,
        place,
        "`inline_data.data`: base64 decoding failed",
    );
}

fn check_call(part: &Value, place: &str, found: &mut Found) {
    let call = &part["functionCall"];
    found.only_keys(InvalidToolCall, place, call, &["id", "name", "args"]);
    let name = text(call, "name").unwrap_or_default();
    let what = format_args!("invalid function name `{name}`");
    found.unless(is_function_name(name), InvalidToolCall, place, what);
    let object = is_or_absent(call, "args", Value::is_object);
    found.unless(object, ArgumentsNotObject, place, "`args` is no object");
}

fn check_response(part: &Value, place: &str, model: &ModelCapabilities, found: &mut Found) {
    let response = &part["functionResponse"];
    let keys = &["id", "name", "response", "parts"];
    found.only_keys(InvalidContent, place, response, keys);
    let name = text(response, "name").unwrap_or_default();
    let what = format_args!("function_response.name `{name}` is no function name");
    found.unless(is_function_name(name), InvalidContent, place, what);
    let object = response.get("response").is_some_and(Value::is_object);
    found.unless(
        object,
        InvalidContent,
        place,
        "function_response.response is no object",
    );
    for (index, inner) in items(response, "parts").iter().enumerate() {
        let place = format!("{place}.function_response.parts[{index}]");
        let what = "no inline data";
        let has = inner.get("inlineData").is_some();
        found.unless(has, InvalidContent, &place, what);
        check_data(inner, &place, model, found);
    }
}

fn check_signature(part: &Value, place: &str, model: &ModelCapabilities, found: &mut Found) {
    let Some(signature) = part.get("thoughtSignature") else {
        return;
    };
    let signature = signature.as_str().unwrap_or_default();
    let good = match part.get("functionCall") {
        Some(call) => signs_call(call, signature, model),
        None => {
            signature == sign(Purpose::Answer, &model.id, "")
                || model.own_signatures.iter().any(|(_, own)| own == signature)
        }
    };
    let what = "corrupted thought signature";
    found.unless(good, InvalidSignature, place, what);
}

fn signs_call(call: &Value, signature: &str, model: &ModelCapabilities) -> bool {
    let content = signed_text(call);
    let own = sign(Purpose::Call, &model.id, &content);
    if model.signed(&content) {
        return model.gave(&content, signature);
    }
    signature == own || FOREIGN.contains(&signature)
}

/// What the signature of a call stands for.
pub(super) fn signed_text(call: &Value) -> String {
    let none = Value::Object(serde_json::Map::new());
    let name = text(call, "name").unwrap_or_default();
    call_text(name, call.get("args").unwrap_or(&none))
}
