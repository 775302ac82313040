//! The one place where effects are put together.

use std::sync::Arc;

use fluzo_agent::Effects;

use crate::drive::ManualDrive;
use crate::journal::{RecordedModel, RecordedTools};
use crate::spans::traced;

/// Which wrappers a profile wants.
#[derive(Clone, Default)]
pub struct Layers {
    /// Records intents and outcomes in the journal.
    pub record: bool,
    /// Parks every effect until a test releases it.
    pub drive: Option<ManualDrive>,
}

/// Wraps `base`, from the inside out: manual drive, intents and outcomes, spans.
///
/// Parking stands innermost, so that an intent is a parked append of its own and an
/// effect that is dropped has its intent stored and no outcome.
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
    traced(effects)
}
