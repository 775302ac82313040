//! The body of a request, shown without sending it.

use fluzo_llm::{ModelRequest, Secret};
use serde_json::{Map, Value};

use crate::UnknownDialect;
use crate::dialect::spoken;
use crate::redact::Redactor;

/// What stands where a secret stood.
const MASK: &str = "[secret]";

/// Why a request has no body to show.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// Nobody speaks the dialect.
    #[error(transparent)]
    Dialect(#[from] UnknownDialect),
    /// A value has no JSON form.
    #[error("the request cannot be written as JSON")]
    Json(#[source] serde_json::Error),
}

/// The JSON that the dialect `api` would send for `request`, fields in their order: written
/// again without spaces it gives the very bytes of the body, once secrets are left out. It
/// holds no header. The forms that `request` names are those it is shown in.
///
/// The values of `secrets`, and the key and header values of `request`, are shown as
/// `[secret]` wherever they stand, if they have at least eight characters. Other text that
/// looks like a key stays: it is what would be sent.
///
/// # Errors
///
/// When nobody speaks the dialect, or a value has no JSON form.
pub fn preview(
    api: &str,
    request: &ModelRequest,
    secrets: &[Secret],
) -> Result<Value, PreviewError> {
    let body = spoken(api)?.body(request).map_err(PreviewError::Json)?;
    let body = serde_json::from_slice(&body).map_err(PreviewError::Json)?;
    let redactor = Redactor::new(&request.auth).with_secrets(secrets);
    Ok(masked(body, &redactor))
}

fn masked(value: Value, redactor: &Redactor) -> Value {
    match value {
        Value::String(text) => Value::String(masked_text(text, redactor)),
        Value::Array(items) => {
            let items = items.into_iter().map(|item| masked(item, redactor));
            Value::Array(items.collect())
        }
        Value::Object(fields) => {
            let field = |(name, value)| (masked_text(name, redactor), masked(value, redactor));
            Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
        }
        other => other,
    }
}

fn masked_text(text: String, redactor: &Redactor) -> String {
    redactor.replace(text, MASK)
}
