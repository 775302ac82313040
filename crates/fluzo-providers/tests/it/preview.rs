//! What is shown of a request is what a server gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use fluzo_llm::{FormSwitch, Message, ModelRequest, Secret};
use fluzo_providers::{PreviewError, dialects, preview};
use serde_json::{Value, json};

use crate::support::{KEY, ask, collect, request_to, speaker};

/// A server for one request; returns its base URL and, in the end, the body it got.
fn server() -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let refusal = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        reader.get_mut().write_all(refusal).unwrap();
        body
    });
    (base_url, served)
}

/// A conversation with everything in it that has a form of its own.
fn history(api: &str) -> Vec<Message> {
    let usage = json!({"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}});
    let messages = json!([
        {"role": "user", "timestamp": 1, "content": [
            {"type": "text", "text": "look \u{1f600} <&> \"sk-not-known-to-anyone\""},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        ]},
        {"role": "assistant", "timestamp": 2, "api": api, "provider": "sim", "model": "m1",
            "stopReason": "toolUse", "usage": usage, "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "reading"},
                {"type": "toolCall", "id": "c1", "name": "read",
                    "arguments": {"path": "a/b.txt", "n": 1.5, "z": null, "list": [1, true]}},
            ]},
        {"role": "toolResult", "timestamp": 3, "toolCallId": "c1", "toolName": "read",
            "isError": false, "content": [{"type": "text", "text": "line\n\ttab"}]},
        {"role": "user", "timestamp": 4, "content": "go on"},
    ]);
    serde_json::from_value(messages).unwrap()
}

fn request_in(api: &str, base_url: &str) -> ModelRequest {
    let model = json!({
        "id": "m1", "name": "m1", "api": api, "provider": "sim", "baseUrl": base_url,
        "input": ["text", "image"], "contextWindow": 100_000, "maxTokens": 8_000, "reasoning": true,
    });
    let mut request = request_to(model, history(api));
    request.options.session_id = Some("s-1".into());
    request
}

/// Both with the usual forms and with one that a server has demanded.
#[tokio::test]
async fn a_preview_is_the_body_byte_for_byte() {
    for api in dialects() {
        for forms in [vec![], vec![FormSwitch::ShortIds]] {
            let (base_url, served) = server();
            let mut request = request_in(api, &base_url);
            request.options.forms = forms;
            let shown = preview(api, &request, &[]).unwrap();
            collect(&*speaker(api), request).await;
            let sent = String::from_utf8(served.join().unwrap()).unwrap();
            assert_eq!(shown.to_string(), sent, "{api}");
            assert!(sent.contains("sk-not-known-to-anyone"), "{api}: {sent}");
            assert!(!sent.contains(KEY), "{api}");
        }
    }
}

#[test]
fn known_secrets_are_masked_wherever_they_stand() {
    let said = format!("{KEY}, planted-header, other-planted, ollama, sk-user-text");
    for api in dialects() {
        let mut request = request_in(api, "http://unused");
        request.transcript = ask_with(&said).transcript;
        request.system_prompt = format!("system {KEY}").into();
        request.auth.headers = vec![("x-key".into(), Secret::new("Token planted-header"))];
        let known = [Secret::new("other-planted"), Secret::new("ollama")];
        let shown = preview(api, &request, &known).unwrap().to_string();
        let expected = "[secret], [secret], [secret], ollama, sk-user-text";
        assert!(shown.contains(expected), "{api}: {shown}");
        assert!(shown.contains("system [secret]"), "{api}: {shown}");
        assert!(!shown.contains("planted"), "{api}: {shown}");
    }
}

fn ask_with(said: &str) -> ModelRequest {
    let mut request = ask("http://unused");
    let message: Value = json!({"role": "user", "timestamp": 1, "content": said});
    let message = serde_json::from_value::<Message>(message).unwrap();
    request.transcript = fluzo_llm::Transcript::new(vec![message.into()]).unwrap();
    request
}

#[test]
fn a_dialect_that_nobody_speaks_is_named() {
    let refused = preview("x", &ask("http://unused"), &[]).unwrap_err();
    assert!(matches!(refused, PreviewError::Dialect(_)));
    assert_eq!(refused.to_string(), "No API provider registered for api: x");
}
