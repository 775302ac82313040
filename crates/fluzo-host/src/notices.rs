//! What the user is told about the store of a session, in words.

use fluzo_session::{Change, DamageReport, Notice};

/// A notice as text.
pub(crate) fn text(notice: &Notice) -> String {
    match notice {
        Notice::ForkedBecauseBusy { from, to } => format!(
            "the session `{}` is in use by another process; this conversation continues in `{}`",
            from.display(),
            to.display()
        ),
        Notice::TurnLeftOut { from, entries } => format!(
            "`{}` has an unfinished turn of that process ({entries} entries); it is not part of this conversation",
            from.display()
        ),
        Notice::ForkedBecauseChanged {
            from,
            to,
            change,
            lost,
        } => {
            let lost = if *lost > 0 {
                format!(", {lost} entries were gone")
            } else {
                String::new()
            };
            format!(
                "the session `{}` was {} by someone else{lost}; this conversation continues in `{}`",
                from.display(),
                changed(*change),
                to.display()
            )
        }
        Notice::TailMoved { to, bytes } => {
            format!(
                "the session's last line was cut off ({bytes} bytes); it was moved to `{}`",
                to.display()
            )
        }
        Notice::NewerVersion { path, version } => format!(
            "the session `{}` is in format {version}, which is newer than this program; parts of it may not be understood",
            path.display()
        ),
        Notice::NulBytesCut { bytes } => {
            format!("the session's file ended with {bytes} NUL bytes; they were cut off")
        }
        Notice::Migrated {
            from_version,
            backup,
        } => format!(
            "the session was in format {from_version} and has been rewritten; the old file is `{}`",
            backup.display()
        ),
        Notice::LockUnavailable { path, reason } => format!(
            "no lock can be had on `{}` ({reason}); do not use this session in two places",
            path.display()
        ),
    }
}

fn changed(change: Change) -> &'static str {
    match change {
        Change::Removed => "removed",
        Change::Replaced => "replaced",
        Change::Resized | Change::Touched => "changed",
    }
}

/// A damage report as text; `None` when nothing is damaged.
pub(crate) fn damage(report: &DamageReport) -> Option<String> {
    let lines = report.items.first().map(|first| {
        let lines = if report.total == 1 {
            "line is"
        } else {
            "lines are"
        };
        format!(
            "{} {lines} not readable and left as found; the first is line {} (byte {}): {}",
            report.total, first.line, first.offset, first.reason
        )
    });
    let joined = (report.joined > 0).then(|| {
        let entries = if report.joined == 1 {
            "entry names"
        } else {
            "entries name"
        };
        format!(
            "{} {entries} an entry that is not there, and the conversation goes on from the one before it",
            report.joined
        )
    });
    let parts: Vec<String> = lines.into_iter().chain(joined).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}
