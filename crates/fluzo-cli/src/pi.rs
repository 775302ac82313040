//! `fluzo pi`: the open profile.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fluzo_host::{ModelRegistry, SessionHost};
use fluzo_modes::PrintOutput;
use fluzo_protocol::{Endpoint, Prompt};
use fluzo_session::SessionStore;
use fluzo_settings::key;
use fluzo_stdx::ids::{IdSource, RandomIds};

use crate::access::Renewals;
use crate::arguments::Typed;
use crate::choose::{self, Places};
use crate::commands::Commands;
use crate::flags::Id;
    if let Some(source) = typed.value(Id::Export) {
        let target = typed
            .messages
            .first()
            .map(|target| surroundings.path(target));
        let target = export::session_file(&surroundings.path(source), target.as_deref())?;
        // What was typed is what is said.
        let shown = typed.messages.first().cloned();
        let shown = shown.unwrap_or_else(|| target.display().to_string());
        return Ok(out(&format!("Exported to: {shown}\n")));
    }
