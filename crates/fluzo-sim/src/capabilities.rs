//! What the addressed model takes, and what it said before.

use std::collections::{BTreeMap, BTreeSet};

/// What the addressed model takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelCapabilities {
    /// The model's id. Signatures are bound to it.
    pub id: String,
    /// Whether requests may hold images.
    pub images: bool,
    /// Whether requests may ask for thinking and may hold its signatures.
    pub reasoning: bool,
    /// Tool names that the history may call although the request does not offer them: a server that made up a
    /// tool name itself has to accept its own call back.
    pub own_tools: BTreeSet<String>,
    /// What this model signed, with the signature that it gave (empty for none): thinking by its text, a tool call by
    /// name, a space, and the arguments as compact JSON with sorted keys. Such content has to come back with that signature.
    pub own_signatures: BTreeSet<(String, String)>,
    /// Ids of calls that this model made without thinking first, so that no thinking is owed with them.
    pub unthought_calls: BTreeSet<String>,
    /// What this model thought before its calls, by the id of each call.
    pub thought_calls: BTreeMap<String, String>,
}

impl ModelCapabilities {
    /// Whether the model gave this signature to this content.
    pub(crate) fn gave(&self, content: &str, signature: &str) -> bool {
        self.own_signatures
            .iter()
            .any(|(known, given)| known == content && given == signature)
    }

    /// Whether the model signed this content.
    pub(crate) fn signed(&self, content: &str) -> bool {
        self.own_signatures
            .iter()
            .any(|(known, given)| known == content && !given.is_empty())
    }
}
