//! Calls that a crash left without a result.

use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_llm::transcript::missing_result;
use fluzo_session::{Session, StoreError};

/// What the model is told of such a call.
const TEXT: &str = "interrupted, outcome unknown: the program ended while this call was running. Check what it did before running it again.";

/// Gives every call of the unfinished last turn a result, so that the session can go on.
/// Returns the results.
///
/// # Errors
///
/// When the session cannot be read or written.
pub(crate) fn settle(session: &Session, now_ms: i64) -> Result<Vec<Arc<Message>>, StoreError> {
    let mut added = Vec::new();
    for open in session.unanswered_calls()? {
        let message = Arc::new(missing_result(open.call.id, open.call.name, TEXT, now_ms));
        session.append_message(Arc::clone(&message), now_ms)?;
        added.push(message);
    }
    Ok(added)
}
