//! The items of an input, each by itself.

use serde_json::Value;

use crate::capabilities::ModelCapabilities;
use crate::check::{Found, is_base64, is_name, is_object_text, is_or_absent, items, one_of, text};
use crate::seal::{Purpose, sign};
use crate::verdict::ViolationKind::{
    ArgumentsNotObject, EmptyMessage, ImageNotSupported, InvalidContent, InvalidMessages,
    InvalidSignature, InvalidToolCall, ToolResultWithoutCall,
};

const LONGEST_ID: usize = 64;
const MEDIA: &[&str] = &["png", "jpeg", "gif", "webp"];

/// What an item's signature stands for.
pub(super) fn signed_text(id: &str, summary: &str) -> String {
    format!("{id} {summary}")
}

/// Checks the id of an item, which begins with the mark of its kind.
fn check_id(item: &Value, mark: &str, place: &str, found: &mut Found) {
    let Some(id) = item.get("id") else { return };
    let id = id.as_str().unwrap_or_default();
    found.unless(
        id.starts_with(mark),
        InvalidMessages,
        place,
        format_args!("invalid `id` `{id}`: expected an id that begins with `{mark}`"),
    );
    found.unless(
        id.len() <= LONGEST_ID,
        InvalidMessages,
        place,
        format_args!(
            "`id` is too long: {} characters, {LONGEST_ID} at most",
            id.len()
        ),
    );
}

/// Checks a message.
pub(super) fn check_message(
    item: &Value,
    place: &str,
    model: &ModelCapabilities,
    found: &mut Found,
) {
    let keys = &["type", "role", "content", "id", "status", "phase"];
    found.only_keys(InvalidMessages, place, item, keys);
    check_id(item, "msg_", place, found);
    let role = item.get("role").unwrap_or(&Value::Null);
    let roles = &["user", "assistant", "system", "developer"];
    found.unless(
        one_of(role, roles),
        InvalidMessages,
        place,
        format_args!("role {role} is none of user, assistant, system, developer"),
    );
    let said = role == "assistant";
    match item.get("content") {
        Some(Value::String(text)) => {
            found.unless(!text.is_empty(), EmptyMessage, place, "empty content");
        }
        Some(Value::Array(parts)) => {
            found.unless(
                !parts.is_empty(),
                EmptyMessage,
                place,
                "an empty list as content",
            );
            for (index, part) in parts.iter().enumerate() {
                let place = format!("{place}.content[{index}]");
                check_part(part, &place, said, model, found);
            }
        }
        _ => found.fail(
            InvalidContent,
            place,
            "content is neither text nor a list of parts",
        ),
    }
}

fn check_part(part: &Value, place: &str, said: bool, model: &ModelCapabilities, found: &mut Found) {
    let filled = text(part, "text").is_some_and(|text| !text.is_empty());
    match (text(part, "type").unwrap_or_default(), said) {
        ("output_text", true) => {
            let keys = &["type", "text", "annotations", "logprobs"];
            found.only_keys(InvalidContent, place, part, keys);
            found.unless(filled, EmptyMessage, place, "an empty text");
        }
        ("refusal", true) => {}
        ("input_text", false) => {
            found.only_keys(InvalidContent, place, part, &["type", "text"]);
            found.unless(filled, EmptyMessage, place, "an empty text");
        }
        ("input_image", false) => check_image(part, place, model, found),
        (kind, _) => {
            let who = if said { "an assistant" } else { "an input" };
            let what = format_args!("a part of type `{kind}` has no place in {who} message");
            found.fail(InvalidContent, place, what);
        }
    }
}

fn check_image(part: &Value, place: &str, model: &ModelCapabilities, found: &mut Found) {
    let what = "an image, but the model takes none";
    found.unless(model.images, ImageNotSupported, place, what);
    let keys = &["type", "image_url", "detail", "file_id"];
    found.only_keys(InvalidContent, place, part, keys);
    let detail = is_or_absent(part, "detail", |word| {
        one_of(word, &["auto", "low", "high"])
    });
    let what = "`detail` is none of auto, low, high";
    found.unless(detail, InvalidContent, place, what);
    let url = text(part, "image_url").unwrap_or_default();
    let data = url
        .strip_prefix("data:image/")
        .and_then(|rest| rest.split_once(";base64,"))
        .is_some_and(|(kind, data)| MEDIA.contains(&kind) && is_base64(data));
    found.unless(
        data || url.starts_with("http"),
        InvalidContent,
        place,
        "`image_url` is neither a URL nor `data:image/…;base64,…` of a known type",
    );
}

/// Checks a reasoning item.
pub(super) fn check_reasoning(
    item: &Value,
    place: &str,
    model: &ModelCapabilities,
    found: &mut Found,
) {
    let keys = &[
        "type",
        "id",
        "summary",
        "content",
        "encrypted_content",
        "status",
    ];
    found.only_keys(InvalidMessages, place, item, keys);
    let id = text(item, "id");
    let what = "missing required parameter `id`";
    found.unless(id.is_some(), InvalidMessages, place, what);
    check_id(item, "rs_", place, found);
    let is_list = item.get("summary").is_some_and(Value::is_array);
    let what = "`summary` is missing or no list";
    found.unless(is_list, InvalidMessages, place, what);
    let summary: Vec<&str> = items(item, "summary")
        .iter()
        .filter_map(|part| text(part, "text"))
        .collect();
    let typed = |part: &Value| text(part, "type") == Some("summary_text");
    let good = items(item, "summary").iter().all(typed);
    let what = "a summary part that is no `summary_text`";
    found.unless(good, InvalidContent, place, what);
    let content = signed_text(id.unwrap_or_default(), &summary.join("\n"));
    let own = sign(Purpose::Reasoning, &model.id, &content);
    match text(item, "encrypted_content") {
        None => found.fail(
            InvalidSignature,
            place,
            "the item is not stored, and comes without `encrypted_content`",
        ),
        Some(given) => found.unless(
            given == own || model.own_signatures.iter().any(|(_, known)| known == given),
            InvalidSignature,
            place,
            "the encrypted content could not be verified",
        ),
    }
}

/// Checks a function call and gives its call id.
pub(super) fn check_call(item: &Value, place: &str, found: &mut Found) -> String {
    let keys = &["type", "id", "call_id", "name", "arguments", "status"];
    found.only_keys(InvalidToolCall, place, item, keys);
    check_id(item, "fc_", place, found);
    let call_id = text(item, "call_id").unwrap_or_default();
    found.unless(
        (1..=LONGEST_ID).contains(&call_id.len()),
        InvalidToolCall,
        place,
        "`call_id` is missing or longer than 64 characters",
    );
    found.unless(
        text(item, "name").is_some_and(|name| is_name(name, 64)),
        InvalidToolCall,
        place,
        "`name` is missing or not of 1 to 64 letters, digits, `_` and `-`",
    );
    found.unless(
        is_object_text(item.get("arguments")),
        ArgumentsNotObject,
        place,
        "`arguments` is no string that holds a JSON object",
    );
    call_id.to_owned()
}

/// Checks the output of a call and gives its call id.
pub(super) fn check_output(
    item: &Value,
    place: &str,
    model: &ModelCapabilities,
    found: &mut Found,
) -> String {
    let keys = &["type", "id", "call_id", "output", "status"];
    found.only_keys(InvalidMessages, place, item, keys);
    let call_id = text(item, "call_id").unwrap_or_default();
    let what = "a function_call_output without `call_id`";
    found.unless(!call_id.is_empty(), ToolResultWithoutCall, place, what);
    match item.get("output") {
        Some(Value::String(_)) => {}
        Some(Value::Array(parts)) if !parts.is_empty() => {
            for (index, part) in parts.iter().enumerate() {
                let place = format!("{place}.output[{index}]");
                check_part(part, &place, false, model, found);
            }
        }
        _ => found.fail(
            InvalidContent,
            place,
            "`output` is neither text nor a list of parts",
        ),
    }
    call_id.to_owned()
}
