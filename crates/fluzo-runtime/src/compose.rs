//! The one place where effects are put together.

use std::sync::Arc;

use fluzo_agent::Effects;

use crate::drive::ManualDrive;
use crate::journal::{RecordedModel, RecordedTools};
use crate::provider_attempts::ProviderAttempts;
use crate::retry::RetryPolicy;
use crate::spans::traced;

/// Which wrappers a profile wants.
#[derive(Clone, Default)]
pub struct Layers {
    /// Records intents and outcomes in the journal.
    pub record: bool,
    /// Parks every effect until a test releases it.
    pub drive: Option<ManualDrive>,
    /// Further attempts of one request.
    pub attempts: Option<RetryPolicy>,
}

/// Wraps `base`, from the inside out: manual drive, intents and outcomes, spans, attempts of
/// one request.
///
/// Parking stands innermost, so that an intent is a parked append of its own and an
/// effect that is dropped has its intent stored and no outcome. Attempts stand outermost, so
/// that each is recorded and traced as a request of its own.
pub fn compose(base: Effects, layers: &Layers) -> Effects {
    let mut effects = match &layers.drive {
        Some(drive) => drive.wrap(base),
        None => base,
    };
    if layers.record {
        let journal = &effects.journal;
        effects.model = Arc::new(RecordedModel::new(effects.model, Arc::clone(journal)));
        effects.tools = Arc::new(RecordedTools::new(effects.tools, Arc::clone(journal)));
    }
    let mut effects = traced(effects);
    if let Some(policy) = layers.attempts {
        let time = Arc::clone(&effects.time);
        effects.model = Arc::new(ProviderAttempts::new(effects.model, time, policy));
    }
    effects
}
