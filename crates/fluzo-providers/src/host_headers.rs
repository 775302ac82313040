//! Headers that a host wants in every dialect and that depend on the request, so that no row of
//! the host table can hold them.

use fluzo_llm::{CacheRetention, Content, ModelMessage, ModelRequest, StreamError, UserContent};
use reqwest::header::HeaderMap;

use crate::provider::{base_url, secret_header};
use crate::quirks::family;

type Add = fn(&ModelRequest, &mut HeaderMap) -> Result<(), StreamError>;

/// Families of servers that want such headers.
const WANTED: &[(&str, Add)] = &[("GitHub Copilot", copilot), ("OpenCode", opencode)];

/// Adds those that the server of `request` wants.
///
/// # Errors
///
/// When a value cannot be sent.
pub(crate) fn add(request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
    let family = family(&request.model.provider, base_url(request));
    let mut wanted = WANTED
        .iter()
        .filter(|(name, _)| family.is_some_and(|family| family.name == *name));
    wanted.try_for_each(|(_, add)| add(request, headers))
}

/// Requests of a session go to the machine that has it in its cache.
fn opencode(request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
    let kept = request.options.cache != CacheRetention::None;
    match request.options.session_id.as_deref().filter(|_| kept) {
        Some(session) => secret_header("x-opencode-session", session, headers),
        None => Ok(()),
    }
}

/// Copilot counts what a person asks for, and refuses images that are not announced.
fn copilot(request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
    let by_user = matches!(
        request.transcript.iter().last(),
        None | Some(ModelMessage::User(_))
    );
    let initiator = if by_user { "user" } else { "agent" };
    secret_header("x-initiator", initiator, headers)?;
    match request.model.takes_images() && has_images(request) {
        true => secret_header("copilot-vision-request", "true", headers),
        false => Ok(()),
    }
}

fn has_images(request: &ModelRequest) -> bool {
    let image = |block: &Content| matches!(block, Content::Image(_));
    request.transcript.iter().any(|message| match message {
        ModelMessage::User(user) => match &user.content {
            UserContent::Text(_) => false,
            UserContent::Blocks(blocks) => blocks.iter().any(image),
        },
        ModelMessage::ToolResult(result) => result.content.iter().any(image),
        ModelMessage::Assistant(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fluzo_llm::{Message, RequestAuth, RequestOptions, Transcript};
    use serde_json::{Value, json};

    use super::*;
    use crate::quirks::FAMILIES;

    const COPILOT: &str = "https://api.business.githubcopilot.com";

    /// Provider, base URL, kinds of input, history, the headers.
    type Row<'a> = (&'a str, &'a str, &'a [&'a str], &'a [Value], &'a str);

    /// The added headers of a request with `history`, as text.
    fn sent(provider: &str, url: &str, input: &[&str], history: &[Value]) -> String {
        let model = json!({
            "id": "m", "name": "m", "api": "a", "provider": provider, "baseUrl": url,
            "input": input, "contextWindow": 1, "maxTokens": 1,
        });
        let message = |value: &Value| -> Arc<Message> {
            Arc::new(serde_json::from_value(value.clone()).unwrap())
        };
        let request = ModelRequest {
            model: Arc::new(serde_json::from_value(model).unwrap()),
            system_prompt: "".into(),
            transcript: Transcript::new(history.iter().map(message).collect()).unwrap(),
            tools: [].into(),
            options: RequestOptions {
                session_id: Some("s1".into()),
                ..RequestOptions::default()
            },
            auth: RequestAuth::default(),
        };
        let mut headers = HeaderMap::new();
        add(&request, &mut headers).unwrap();
        let rows = headers.iter();
        let rows: Vec<String> = rows
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        rows.join("; ")
    }

    #[test]
    fn every_row_is_of_a_family() {
        for (name, _) in WANTED {
            assert!(FAMILIES.iter().any(|family| family.name == *name), "{name}");
        }
    }

    #[test]
    fn who_asks_and_whether_images_come() {
        let text = json!({"role": "user", "content": "hi", "timestamp": 1});
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let seen = json!({"role": "user", "content": [image], "timestamp": 1});
        let answer = json!({
            "role": "assistant", "api": "a", "provider": "p", "model": "m", "usage": {},
            "content": [{"type": "toolCall", "id": "c", "name": "read", "arguments": {}}],
            "stopReason": "toolUse", "timestamp": 1,
        });
        let result = |content: &Value| {
            json!({
                "role": "toolResult", "toolCallId": "c", "toolName": "read", "content": [content],
                "isError": false, "timestamp": 1,
            })
        };
        let words = result(&json!({"type": "text", "text": "x"}));
        let picture = result(&image);
        let (plain, seeing) = (&["text"][..], &["text", "image"][..]);
        let round = [text.clone(), answer.clone(), words];
        let pictures = [text.clone(), answer, picture];
        let rows: [Row<'_>; 8] = [
            (
                "github-copilot",
                "",
                seeing,
                std::slice::from_ref(&text),
                "x-initiator: user",
            ),
            ("own", COPILOT, seeing, &round, "x-initiator: agent"),
            (
                "github-copilot",
                "",
                seeing,
                &pictures,
                "x-initiator: agent; copilot-vision-request: true",
            ),
            (
                "github-copilot",
                COPILOT,
                seeing,
                std::slice::from_ref(&seen),
                "x-initiator: user; copilot-vision-request: true",
            ),
            (
                "github-copilot",
                "",
                plain,
                std::slice::from_ref(&seen),
                "x-initiator: user",
            ),
            ("opencode-go", "", plain, &round, "x-opencode-session: s1"),
            (
                "own",
                "https://opencode.ai/zen/v1",
                plain,
                &round,
                "x-opencode-session: s1",
            ),
            ("openai", "https://api.openai.com/v1", seeing, &pictures, ""),
        ];
        for (provider, url, input, history, expected) in rows {
            assert_eq!(sent(provider, url, input, history), expected, "{provider}");
        }
    }
}
