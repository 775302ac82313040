//! Gemini (`google-generative-ai`, and `google-vertex` for the same bodies on Vertex AI): one
//! POST to `BASE/models/ID:streamGenerateContent?alt=sse`, answered by a stream of events, by
//! a JSON array of them, or by one JSON object.
//!
//! The forms are those of the public references of `generateContent` at ai.google.dev and
//! docs.cloud.google.com. The base URL of Vertex ends in `/publishers/google`.

mod contents;
mod end;
mod family;
mod request;
mod response;
mod usage;
mod wire;

use fluzo_llm::{ModelRequest, StreamError};
use reqwest::Url;
use reqwest::header::HeaderMap;

use crate::failure::Context;
use crate::provider::{self, Dialect};
use crate::reader::Meaning;
use response::Response;

/// The name of this dialect.
pub(crate) const API: &str = "google-generative-ai";

/// The name of this dialect on Vertex AI.
pub(crate) const VERTEX_API: &str = "google-vertex";

/// How API keys of Google begin; what begins otherwise is an access token.
const API_KEY_PREFIXES: [&str; 2] = ["AIza", "AQ."];

/// Gemini.
pub(crate) enum Gemini {
    /// The Gemini API, which takes API keys.
    Api,
    /// Vertex AI, which takes access tokens as well.
    Vertex,
}

impl Dialect for Gemini {
    fn endpoint(&self, request: &ModelRequest) -> Result<Url, StreamError> {
        let id = request.model.id.as_str();
        // Tuned models are no models to the path.
        let path = match id.starts_with("tunedModels/") || id.starts_with("models/") {
            true => format!("{id}:streamGenerateContent"),
            false => format!("models/{id}:streamGenerateContent"),
        };
        let segments: Vec<&str> = path.split('/').collect();
        let mut url = provider::endpoint(request, &segments)?;
        if url.query_pairs().all(|(name, _)| name != "alt") {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        Ok(url)
    }

    fn headers(&self, request: &ModelRequest, headers: &mut HeaderMap) -> Result<(), StreamError> {
        let Some(key) = &request.auth.api_key else {
            return Ok(());
        };
        let is_key = |prefix: &&str| key.reveal().starts_with(*prefix);
        match self {
            Self::Vertex if !API_KEY_PREFIXES.iter().any(is_key) => {
                provider::bearer(request, headers)
            }
            Self::Api | Self::Vertex => {
                provider::secret_header("x-goog-api-key", key.reveal(), headers)
            }
        }
    }

    fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, serde_json::Error> {
        request::body(request)
    }

    fn meaning(&self, request: &ModelRequest, context: Context) -> Box<dyn Meaning> {
        Box::new(Response::new(request, context))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fluzo_llm::{RequestAuth, RequestOptions, Secret, Transcript};
    use serde_json::json;

    use super::*;

    fn request(base_url: &str, id: &str, key: &str) -> ModelRequest {
        let model = json!({
            "id": id, "name": "m", "api": API, "provider": "p", "baseUrl": base_url,
            "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        });
        ModelRequest {
            model: Arc::new(serde_json::from_value(model).unwrap()),
            system_prompt: "".into(),
            transcript: Transcript::default(),
            tools: [].into(),
            options: RequestOptions::default(),
            auth: RequestAuth {
                api_key: (!key.is_empty()).then(|| Secret::new(key)),
                ..RequestAuth::default()
            },
        }
    }

    #[test]
    fn endpoints() {
        let rows = [
            (
                "https://h/v1beta",
                "gemini-2.5-pro",
                "https://h/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
            ),
            (
                "https://h/v1/projects/p/locations/l/publishers/google/",
                "gemini-3-flash-preview",
                "https://h/v1/projects/p/locations/l/publishers/google/models/gemini-3-flash-preview:streamGenerateContent?alt=sse",
            ),
            (
                "https://h/v1?x=1&alt=json",
                "models/m",
                "https://h/v1/models/m:streamGenerateContent?x=1&alt=json",
            ),
            (
                "https://h",
                "tunedModels/a b",
                "https://h/tunedModels/a%20b:streamGenerateContent?alt=sse",
            ),
        ];
        for (base, id, expected) in rows {
            let url = Gemini::Api.endpoint(&request(base, id, "")).unwrap();
            assert_eq!(url.as_str(), expected);
        }
    }

    #[test]
    fn how_keys_and_tokens_are_sent() {
        let rows = [
            (Gemini::Api, "AIzaX", Some(("x-goog-api-key", "AIzaX"))),
            (Gemini::Api, "own", Some(("x-goog-api-key", "own"))),
            (Gemini::Vertex, "AIzaX", Some(("x-goog-api-key", "AIzaX"))),
            (Gemini::Vertex, "AQ.X", Some(("x-goog-api-key", "AQ.X"))),
            (
                Gemini::Vertex,
                "ya29.X",
                Some(("authorization", "Bearer ya29.X")),
            ),
            (Gemini::Vertex, "", None),
        ];
        for (dialect, key, expected) in rows {
            let mut headers = HeaderMap::new();
            dialect
                .headers(&request("https://h", "m", key), &mut headers)
                .unwrap();
            let sent = headers.iter().map(|(name, value)| {
                assert!(value.is_sensitive());
                (name.as_str(), value.to_str().unwrap())
            });
            assert_eq!(
                sent.collect::<Vec<_>>(),
                expected.into_iter().collect::<Vec<_>>()
            );
        }
    }
}
