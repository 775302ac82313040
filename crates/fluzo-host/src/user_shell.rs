//! Commands of the user's: run beside everything else, kept in the session when no run
//! is active.

use std::sync::{Arc, Mutex, PoisonError};

use fluzo_llm::Message;
use fluzo_llm::message::BashExecutionMessage;
use fluzo_session::StoreError;

use crate::abort_slot::AbortSlot;
use crate::core::Core;
use crate::services::UserShell;

/// Why a second command is refused.
const BUSY: &str =
    "A command is already running. Wait for it, or end it with `abort_bash`, before the next one.";

/// Runs one command at a time and keeps what came of it until it can be stored.
pub(crate) struct UserCommands {
    shell: Arc<dyn UserShell>,
    active: AbortSlot,
    /// What a run has kept from being stored.
    waiting: Mutex<Vec<Arc<Message>>>,
}

impl UserCommands {
    pub(crate) fn new(shell: Arc<dyn UserShell>) -> Self {
        Self {
            shell,
            active: AbortSlot::default(),
            waiting: Mutex::default(),
        }
    }

    /// Runs `command`. What came of it waits to be stored by [`flush`](Self::flush).
    pub(crate) async fn run(
        &self,
        command: &str,
        exclude: bool,
        core: &Core,
    ) -> Result<BashExecutionMessage, String> {
        let active = self.active.occupy(()).ok_or(BUSY)?;
        let mut result = self.shell.run(command, &active.abort).await?;
        result.exclude_from_context = exclude.then_some(true);
        result.timestamp = core.now();
        let message = Arc::new(Message::BashExecution(result.clone()));
        lock(&self.waiting).push(message);
        Ok(result)
    }

    /// Stores what waits. To be called by who has the session's claim.
    ///
    /// # Errors
    ///
    /// When the session cannot be written; what was not stored waits on.
    pub(crate) fn flush(&self, core: &Core) -> Result<(), StoreError> {
        let mut waiting = lock(&self.waiting);
        while let Some(message) = waiting.first() {
            core.add(Arc::clone(message))?;
            waiting.remove(0);
        }
        Ok(())
    }

    /// Whether a command is running.
    pub(crate) fn is_active(&self) -> bool {
        self.active.is_occupied()
    }

    /// Ends the command that is running, if there is one.
    pub(crate) fn cancel(&self) {
        self.active.cancel();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
