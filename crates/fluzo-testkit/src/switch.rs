//! A condition that a test brings about.

use fluzo_llm::AbortSignal;

/// Starts off; a test flips it on once, and everything that waits for it goes on.
#[derive(Debug, Clone, Default)]
pub struct Switch(AbortSignal);

impl Switch {
    /// A switch that is off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns it on for good.
    pub fn flip(&self) {
        self.0.cancel();
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns when it is on.
    pub async fn wait(&self) {
        self.0.cancelled().await;
    }
}
