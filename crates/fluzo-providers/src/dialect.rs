//! Which dialect a model's `api` names.

use std::sync::Arc;

use fluzo_llm::Provider;

use crate::gemini::{self, Gemini};
use crate::provider::{Dialect, HttpProvider};
use crate::responses;
use crate::{Clock, HttpClient, LimitPolicy};
use crate::{anthropic, completions};

/// The dialects that are spoken. One that is added here is spoken everywhere.
pub(crate) const SPOKEN: &[(&str, &dyn Dialect)] = &[
    (completions::API, &completions::Completions),
    (anthropic::API, &anthropic::Messages),
    (anthropic::VERTEX_API, &anthropic::VertexMessages),
    (gemini::API, &Gemini::Api),
    (gemini::VERTEX_API, &Gemini::Vertex),
    (responses::API, &responses::Responses),
    (responses::AZURE_API, &responses::Azure),
];

/// Dialects that are left out on purpose, and what to use instead.
const EXCEPTIONS: &[(&str, &str)] = &[
    (
        "openai-codex-responses",
        "it needs the sign-in of another vendor's client; use an API key with `openai-completions`",
    ),
    (
        "mistral-conversations",
        "use `openai-completions`, which Mistral serves as well",
    ),
    (
        "bedrock-converse-stream",
        "its framing is binary; use an endpoint that speaks `openai-completions`",
    ),
];

/// Why no provider speaks a dialect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownDialect {
    /// Nothing of that name is known.
    #[error("No API provider registered for api: {api}")]
    Unknown {
        /// The name.
        api: String,
    },
    /// The dialect is left out on purpose.
    #[error("`{api}` is not supported: {advice}")]
    Exception {
        /// The name.
        api: String,
        /// What to use instead.
        advice: &'static str,
    },
}

/// The names of the dialects that are spoken.
pub fn dialects() -> impl Iterator<Item = &'static str> {
    SPOKEN.iter().map(|(name, _)| *name)
}

/// The provider that speaks the dialect `api`, sending over `http` within `limits`.
///
/// # Errors
///
/// When the dialect is unknown, or left out on purpose.
pub fn provider_for(
    api: &str,
    http: Arc<HttpClient>,
    limits: LimitPolicy,
    clock: Clock,
) -> Result<Arc<dyn Provider>, UnknownDialect> {
    let dialect = spoken(api)?;
    Ok(Arc::new(HttpProvider::new(dialect, http, limits, clock)))
}

/// The dialect of the name `api`.
pub(crate) fn spoken(api: &str) -> Result<&'static dyn Dialect, UnknownDialect> {
    if let Some((_, dialect)) = SPOKEN.iter().find(|(name, _)| *name == api) {
        return Ok(*dialect);
    }
    Err(match EXCEPTIONS.iter().find(|(name, _)| *name == api) {
        Some((_, advice)) => UnknownDialect::Exception {
            api: api.to_owned(),
            advice,
        },
        None => UnknownDialect::Unknown {
            api: api.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(api: &str) -> Result<Arc<dyn Provider>, UnknownDialect> {
        provider_for(
            api,
            Arc::new(HttpClient::new("t")),
            LimitPolicy::open(),
            Arc::new(|| 0),
        )
    }

    #[test]
    fn known_dialects_give_a_provider() {
        for api in dialects() {
            assert!(ask(api).is_ok(), "{api}");
        }
    }

    #[test]
    fn an_unknown_api_is_named() {
        let error = ask("x").err().unwrap();
        assert_eq!(error.to_string(), "No API provider registered for api: x");
    }

    #[test]
    fn stated_exceptions_say_what_to_use_instead() {
        for (api, advice) in EXCEPTIONS {
            let error = ask(api).err().unwrap();
            assert!(matches!(error, UnknownDialect::Exception { .. }));
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
