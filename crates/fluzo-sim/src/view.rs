//! What a request says, whatever its dialect.

/// The parts of a request that expectations speak of.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// The system or developer text.
    pub system: String,
    /// The text of the last user message that is more than tool results.
    pub last_user: String,
    /// Tool results after the last words of the model.
    pub fresh_results: Vec<String>,
    /// Names of the offered tools, in order.
    pub tools: Vec<String>,
}
