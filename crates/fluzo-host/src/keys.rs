//! What the user is told when a request cannot be authorised.

use fluzo_llm::CredentialError;

/// The error, and how a key can be given.
pub(crate) fn help(error: &CredentialError) -> String {
    let variable = match error {
        CredentialError::Missing { variable, .. } | CredentialError::SignIn { variable, .. } => {
            variable.as_ref()
        }
        CredentialError::Endpoint { variable, .. } => {
            return format!("{error}\nhint: `export {variable}=VALUE`");
        }
        // These say themselves what to mend.
        CredentialError::Command { .. } | CredentialError::Header { .. } => {
            return error.to_string();
        }
        CredentialError::Unresolved { .. } => None,
    };
    match variable {
        Some(variable) => format!(
            "{error}\nhint: set the environment variable `{variable}` (`export {variable}=KEY`), or give `--api-key KEY`"
        ),
        None => format!(
            "{error}\nhint: add an \"apiKey\" to the provider in models.json, or give `--api-key KEY`"
        ),
    }
}
