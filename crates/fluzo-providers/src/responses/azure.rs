//! Where Azure serves Responses, and under which name a model is deployed there.

use fluzo_llm::{ModelRequest, StreamError};
use reqwest::Url;
use serde_json::Value;

use crate::provider;

/// The address of `request`. A base URL may name the resource alone, its `openai` or its
/// `openai/v1`; any other path is taken as one under which the API lies. A query, such as
/// `api-version`, is kept.
///
/// # Errors
///
/// When the base URL cannot be used.
pub(crate) fn endpoint(request: &ModelRequest) -> Result<Url, StreamError> {
    let base = provider::endpoint(request, &[])?;
    let path: Vec<&str> = base.path().split('/').filter(|s| !s.is_empty()).collect();
    let added: &[&str] = match path.as_slice() {
        [] => &["openai", "v1", "responses"],
        [.., "openai"] => &["v1", "responses"],
        [.., "responses"] => return Ok(base),
        _ => &["responses"],
    };
    provider::endpoint(request, added)
}

/// The name of the deployment of the model: the `deployment` of its `compat` settings, or what
/// the credentials name, or its id.
pub(crate) fn deployment(request: &ModelRequest) -> &str {
    let model = &request.model;
    let named = model.compat.get("deployment").and_then(Value::as_str);
    named
        .filter(|name| !name.is_empty())
        .or(request.auth.deployment.as_deref())
        .unwrap_or(model.id.as_str())
}
