//! What authorises a request to a provider.

use std::fmt;

use crate::{BoxFuture, Model};

/// A secret string: never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The secret itself, to be put on the wire and nowhere else.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is a token that works only for a client which says that it is another
    /// vendor's, as Fluzo never does.
    pub fn is_of_another_client(&self) -> bool {
        self.0.contains("sk-ant-oat")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Key and headers of one request.
#[derive(Debug, Clone, Default)]
pub struct RequestAuth {
    /// The key, sent the way the dialect wants it.
    pub api_key: Option<Secret>,
    /// Headers with resolved values.
    pub headers: Vec<(String, Secret)>,
    /// The endpoint that the credentials name, in place of the model's base URL.
    pub base_url: Option<String>,
    /// The name under which the model is deployed at the endpoint, where it has one of its own.
    pub deployment: Option<String>,
}

/// Why no key is at hand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// Nothing is configured.
    #[error("no API key found for `{provider}`")]
    Missing {
        /// The provider.
        provider: String,
        /// The environment variable that would supply it, when there is one.
        variable: Option<String>,
    },
    /// Something is configured and cannot be resolved.
    #[error("the API key of `{provider}` cannot be resolved: {reason}")]
    Unresolved {
        /// The provider.
        provider: String,
        /// What is wrong, without the secret.
        reason: String,
    },
    /// A command that should give a key or a header gave none. What it wrote is not shown.
    #[error("Failed to resolve {subject} from shell command: {command}")]
    Command {
        /// What it was to give: a key or a header of a provider.
        subject: String,
        /// The command as it is configured.
        command: String,
    },
    /// The value of a header cannot be resolved.
    #[error("Failed to resolve provider \"{provider}\" header \"{header}\": {reason}")]
    Header {
        /// The provider.
        provider: String,
        /// The name of the header.
        header: String,
        /// What is wrong, without the value.
        reason: String,
    },
    /// A stored sign-in cannot be used. It is still stored.
    #[error("the sign-in to `{provider}` cannot be used: {reason}")]
    SignIn {
        /// The provider.
        provider: String,
        /// What is wrong, without the tokens.
        reason: String,
        /// The environment variable with a key to use instead, when there is one.
        variable: Option<String>,
    },
    /// The address of the provider has places that cannot be filled.
    #[error("the address of `{provider}` is not complete: {reason}")]
    Endpoint {
        /// The provider.
        provider: String,
        /// The environment variable that it lacks.
        variable: String,
        /// What is wrong with the variable.
        reason: String,
    },
}

/// Finds what authorises a request. Asked before every request, since tokens
/// expire during long tool phases.
pub trait Credentials: Send + Sync {
    /// Key and headers for a request to `model`. Dropping the future abandons the search.
    ///
    /// # Errors
    ///
    /// When nothing usable is configured; nothing has been sent then.
    fn resolve<'a>(
        &'a self,
        model: &'a Model,
    ) -> BoxFuture<'a, Result<RequestAuth, CredentialError>>;
}
