//! Addresses and headers of requests.

use std::sync::Arc;

use fluzo_llm::{RequestAuth, RequestOptions, Secret, Transcript};
use serde_json::{Value, json};

use super::*;

fn request(api: &str, base_url: &str, compat: Value) -> ModelRequest {
    let model = json!({
        "id": "m", "name": "m", "api": api, "provider": "p", "baseUrl": base_url,
        "input": ["text"], "contextWindow": 1, "maxTokens": 1, "compat": compat,
    });
    ModelRequest {
        model: Arc::new(serde_json::from_value(model).unwrap()),
        system_prompt: "".into(),
        transcript: Transcript::default(),
        tools: [].into(),
        options: RequestOptions {
            session_id: Some("s1".into()),
            ..RequestOptions::default()
        },
        auth: RequestAuth {
            api_key: Some(Secret::new("k")),
            ..RequestAuth::default()
        },
    }
}

#[test]
fn endpoints() {
    let rows: [(&dyn Dialect, &str, Option<&str>); 13] = [
        (&Responses, "https://h/v1", Some("https://h/v1/responses")),
        (
            &Responses,
            "https://h/v1/?a=1",
            Some("https://h/v1/responses?a=1"),
        ),
        (&Responses, "h", None),
        (
            &Azure,
            "https://r.openai.azure.com/openai/v1",
            Some("https://r.openai.azure.com/openai/v1/responses"),
        ),
        (
            &Azure,
            "https://r.openai.azure.com/openai/v1/",
            Some("https://r.openai.azure.com/openai/v1/responses"),
        ),
        (
            &Azure,
            "https://r.openai.azure.com",
            Some("https://r.openai.azure.com/openai/v1/responses"),
        ),
        (
            &Azure,
            "https://r.openai.azure.com/openai/",
            Some("https://r.openai.azure.com/openai/v1/responses"),
        ),
        (
            &Azure,
            "https://r.openai.azure.com?api-version=preview",
            Some("https://r.openai.azure.com/openai/v1/responses?api-version=preview"),
        ),
        (
            &Azure,
            "https://r/openai/v1?api-version=preview",
            Some("https://r/openai/v1/responses?api-version=preview"),
        ),
        (
            &Azure,
            "https://r/openai/responses?api-version=2025-04-01-preview",
            Some("https://r/openai/responses?api-version=2025-04-01-preview"),
        ),
        (
            &Azure,
            "https://gateway/team/v1",
            Some("https://gateway/team/v1/responses"),
        ),
        (&Azure, "ftp://r", None),
        (&Azure, "", None),
    ];
    for (dialect, base, expected) in rows {
        let url = dialect.endpoint(&request("a", base, json!({})));
        assert_eq!(url.ok().as_ref().map(Url::as_str), expected, "{base}");
    }
}

/// The headers that a request carries, as `name: value` in order of names.
fn headers(dialect: &dyn Dialect, request: &ModelRequest) -> Vec<String> {
    let mut headers = HeaderMap::new();
    dialect.headers(request, &mut headers).unwrap();
    assert!(
        headers
            .values()
            .all(reqwest::header::HeaderValue::is_sensitive)
    );
    let line = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
        format!("{name}: {}", value.to_str().unwrap())
    };
    let mut lines: Vec<String> = headers.iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn the_key_goes_where_the_server_looks_for_it_and_the_session_beside_it() {
    let session = ["session_id: s1", "x-client-request-id: s1"];
    let plain = headers(&Responses, &request(API, "https://h", json!({})));
    assert_eq!(plain, ["authorization: Bearer k", session[0], session[1]]);
    let azure = headers(&Azure, &request(AZURE_API, "https://h", json!({})));
    assert_eq!(azure, ["api-key: k", session[0], session[1]]);
    let compat = json!({"sendSessionIdHeader": false});
    let without = headers(&Responses, &request(API, "https://h", compat));
    assert_eq!(without, ["authorization: Bearer k", session[1]]);
    let mut uncached = request(API, "https://h", json!({}));
    uncached.options.cache = CacheRetention::None;
    assert_eq!(headers(&Responses, &uncached), ["authorization: Bearer k"]);
    let mut bare = request(API, "https://h", json!({}));
    (bare.auth.api_key, bare.options.session_id) = (None, None);
    assert!(headers(&Responses, &bare).is_empty());
    assert!(headers(&Azure, &bare).is_empty());
}

#[test]
fn a_value_that_cannot_be_sent_is_an_error_without_it() {
    let mut request = request(API, "https://h", json!({}));
    request.options.session_id = Some("secret\nsession".into());
    let error = Responses.headers(&request, &mut HeaderMap::new());
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("session_id") && !text.contains("secret"),
        "{text}"
    );
}
