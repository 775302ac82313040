//! Addresses and headers, as rows.

use std::sync::Arc;

use fluzo_llm::{CacheRetention, RequestAuth, RequestOptions, Secret, ToolSpec, Transcript};
use serde_json::{Value, json};

use super::*;

fn request(changes: Value) -> ModelRequest {
    let mut model = json!({
        "id": "claude-opus-4-5", "name": "m", "api": API, "provider": "p", "baseUrl": "https://h", "reasoning": true,
        "input": ["text"], "contextWindow": 1000, "maxTokens": 100,
    });
    if let (Some(map), Value::Object(changes)) = (model.as_object_mut(), changes) {
        map.extend(changes);
    }
    ModelRequest {
        model: Arc::new(serde_json::from_value(model).unwrap()),
        system_prompt: "".into(),
        transcript: Transcript::default(),
        tools: Arc::new([ToolSpec {
            name: "read".into(),
            description: "Reads".into(),
            parameters: json!({"type": "object"}),
        }]),
        options: RequestOptions {
            session_id: Some("s1".into()),
            ..RequestOptions::default()
        },
        auth: RequestAuth {
            api_key: Some(Secret::new("key")),
            ..RequestAuth::default()
        },
    }
}

/// The headers as `name: value` lines, in order of their names.
fn lines(dialect: &dyn Dialect, request: &ModelRequest) -> Vec<String> {
    let mut headers = HeaderMap::new();
    dialect.headers(request, &mut headers).unwrap();
    let line =
        |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn endpoints() {
    let rows: [(&dyn Dialect, &str, &str); 8] = [
        (&Messages, "https://h", "https://h/v1/messages"),
        (&Messages, "https://h/", "https://h/v1/messages"),
        (&Messages, "https://h/v1", "https://h/v1/messages"),
        (&Messages, "https://h/v1/", "https://h/v1/messages"),
        (
            &Messages,
            "https://h/v1?region=1",
            "https://h/v1/messages?region=1",
        ),
        (
            &Messages,
            "https://h/anthropic",
            "https://h/anthropic/v1/messages",
        ),
        (
            &VertexMessages,
            "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic",
            "https://l-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic/models/claude-opus-4-7@default:streamRawPredict",
        ),
        (
            &VertexMessages,
            "https://h/",
            "https://h/models/claude-opus-4-7@default:streamRawPredict",
        ),
    ];
    for (dialect, base, expected) in rows {
        let request = request(json!({"baseUrl": base, "id": "claude-opus-4-7@default"}));
        assert_eq!(dialect.endpoint(&request).unwrap().as_str(), expected);
    }
}

#[test]
fn headers_of_the_api_and_of_vertex() {
    let request = request(json!({}));
    let interleaved = "anthropic-beta: interleaved-thinking-2025-05-14";
    let expected = [
        "accept: application/json",
        interleaved,
        "anthropic-version: 2023-06-01",
        "x-api-key: key",
    ];
    assert_eq!(lines(&Messages, &request), expected);
    let expected = [
        "accept: application/json",
        interleaved,
        "authorization: Bearer key",
    ];
    assert_eq!(lines(&VertexMessages, &request), expected);
    let mut keyless = request.clone();
    keyless.auth = RequestAuth::default();
    assert!(
        !lines(&Messages, &keyless)
            .iter()
            .any(|line| line.contains("key"))
    );
}

#[test]
fn betas_and_affinity_follow_model_and_server() {
    let rows = [
        (json!({}), Some("interleaved-thinking-2025-05-14"), false),
        (json!({"reasoning": false}), None, false),
        (json!({"id": "claude-opus-4-7"}), None, false),
        (
            json!({"compat": {"forceAdaptiveThinking": true}}),
            None,
            false,
        ),
        (
            json!({"id": "claude-opus-4-7", "compat": {"forceAdaptiveThinking": false}}),
            Some("interleaved-thinking-2025-05-14"),
            false,
        ),
        (
            json!({"compat": {"supportsEagerToolInputStreaming": false, "sendSessionAffinityHeaders": true}}),
            Some("fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14"),
            true,
        ),
        (
            json!({"provider": "fireworks", "id": "kimi", "reasoning": false}),
            Some("fine-grained-tool-streaming-2025-05-14"),
            true,
        ),
        (
            json!({"provider": "github-copilot", "id": "claude-sonnet-4.6"}),
            Some("fine-grained-tool-streaming-2025-05-14"),
            false,
        ),
        (
            json!({"baseUrl": "https://gateway.ai.cloudflare.com/v1/a/g/anthropic", "reasoning": false}),
            None,
            true,
        ),
    ];
    for (changes, betas, affinity) in rows {
        let mut request = request(changes.clone());
        let given = lines(&Messages, &request);
        let value = |name: &str| given.iter().find_map(|line| line.strip_prefix(name));
        assert_eq!(value("anthropic-beta: "), betas, "{changes}");
        assert_eq!(
            value("x-session-affinity: "),
            affinity.then_some("s1"),
            "{changes}"
        );
        request.options.cache = CacheRetention::None;
        let given = lines(&Messages, &request);
        assert!(
            !given.iter().any(|line| line.starts_with("x-session")),
            "{changes}"
        );
    }
}

#[test]
fn a_token_of_another_vendors_client_is_refused_before_anything_is_sent() {
    let token = "sk-ant-oat01-planted";
    let as_key = RequestAuth {
        api_key: Some(Secret::new(token)),
        ..RequestAuth::default()
    };
    let as_header = RequestAuth {
        headers: vec![(
            "Authorization".into(),
            Secret::new(format!("Bearer {token}")),
        )],
        ..RequestAuth::default()
    };
    for auth in [as_key, as_header] {
        for dialect in [&Messages as &dyn Dialect, &VertexMessages] {
            let mut request = request(json!({}));
            request.auth = auth.clone();
            let error = dialect
                .headers(&request, &mut HeaderMap::new())
                .unwrap_err();
            assert_eq!(error.kind, StreamErrorKind::Authentication);
            assert!(error.message.contains("ANTHROPIC_API_KEY"), "{error}");
            assert!(!error.message.contains("planted"), "{error}");
        }
    }
}
