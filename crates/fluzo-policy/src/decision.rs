//! Decisions of a policy.

use crate::Access;

/// What is asked of a policy.
#[derive(Debug, Clone, Copy)]
pub struct AccessRequest<'a> {
    /// Name of the tool.
    pub tool: &'a str,
    /// Everything the call touches. Empty means it touches nothing outside the agent.
    pub accesses: &'a [Access],
}

/// What a policy answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may run.
    Allow,
    /// A person decides.
    Ask {
        /// Why, for the person.
        reason: String,
    },
    /// It may not run.
    Deny {
        /// Why, for the model and the person.
        reason: String,
    },
}

/// Decides about accesses. Implementations are pure: the same request under the same
/// revision gets the same answer.
pub trait Policy: Send + Sync {
    /// The decision about `request`.
    fn evaluate(&self, request: &AccessRequest<'_>) -> Decision;

    /// Changes whenever an answer might; a permit of an older revision is judged again.
    fn revision(&self) -> u64 {
        0
    }
}

/// The policy of the open profile: everything may run.
#[derive(Debug, Default, Clone, Copy)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn evaluate(&self, _request: &AccessRequest<'_>) -> Decision {
        Decision::Allow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_policy_allows_even_what_touches_anything() {
        let request = AccessRequest {
            tool: "x",
            accesses: &[Access::Anything],
        };
        assert_eq!(AllowAll.evaluate(&request), Decision::Allow);
    }
}
