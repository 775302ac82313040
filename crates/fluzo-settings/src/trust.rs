//! Whether what a project brings may act: its `.pi` folder and the skills in its `.agents`.

use std::fmt;

/// The decision on one project, handed to everything that reads what the project brings.
/// Context files (`AGENTS.md`, `CLAUDE.md`) do not depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectTrust {
    reason: TrustReason,
}

/// Why a project is trusted or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustReason {
    /// A flag says so, for this run.
    Approved,
    /// An answer was saved.
    Saved,
    /// The user's settings trust every project.
    Always,
    /// A flag forbids it, for this run.
    Refused,
    /// The answer that was saved is no.
    SavedNo,
    /// The user's settings trust no project.
    Never,
    /// An answer was saved, and what the project brings has changed since.
    Changed,
    /// Nobody was asked yet.
    Unanswered,
    /// Nobody was asked, and there is nothing to ask about.
    NothingToTrust,
}

/// What was answered before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SavedAnswer {
    /// Nothing.
    None,
    /// The project is trusted with what it brings now.
    Yes,
    /// It was trusted with what it brought then, which was something else.
    YesForOther,
    /// It is not trusted.
    No,
}

/// What the decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct TrustInputs<'a> {
    /// Whether the project brings anything that would act.
    pub brings_something: bool,
    /// `--approve` or `--no-approve`.
    pub flag: Option<bool>,
    /// The answer that was saved.
    pub saved: SavedAnswer,
    /// `defaultProjectTrust` of the user's own settings.
    pub default: Option<&'a str>,
}

impl ProjectTrust {
    /// Decides: a flag first, then the saved answer, then the user's settings. What is left
    /// is not trusted before somebody was asked.
    pub fn decide(inputs: TrustInputs<'_>) -> Self {
        let reason = match (inputs.flag, inputs.saved, inputs.default) {
            (Some(true), ..) => TrustReason::Approved,
            (Some(false), ..) => TrustReason::Refused,
            (None, SavedAnswer::Yes, _) => TrustReason::Saved,
            (None, SavedAnswer::No, _) => TrustReason::SavedNo,
            (None, _, Some("always")) => TrustReason::Always,
            _ if !inputs.brings_something => TrustReason::NothingToTrust,
            (None, _, Some("never")) => TrustReason::Never,
            (None, SavedAnswer::YesForOther, _) => TrustReason::Changed,
            (None, SavedAnswer::None, _) => TrustReason::Unanswered,
        };
        Self { reason }
    }

    /// Whether what the project brings may act.
    pub fn is_trusted(self) -> bool {
        use TrustReason::{Always, Approved, Saved};
        matches!(self.reason, Approved | Saved | Always)
    }

    /// Why.
    pub fn reason(self) -> TrustReason {
        self.reason
    }

    /// Whether a person should be asked, where one can be.
    pub fn should_ask(self) -> bool {
        matches!(self.reason, TrustReason::Unanswered | TrustReason::Changed)
    }

    /// What a user who was not asked should know about `brought`, in one line. Who has said
    /// no for this run or for good knows.
    pub fn notice(self, brought: &[String]) -> Option<String> {
        let why = match self.reason {
            TrustReason::Unanswered | TrustReason::Never => "this project is not trusted",
            TrustReason::Changed => "it has changed since this project was trusted",
            _ => return None,
        };
        let names = match brought {
            [] => return None,
            [one] => format!("`{one}` was"),
            several => format!("`{}` were", several.join("`, `")),
        };
        Some(format!(
            "{names} passed over: {why} (--approve trusts it for one run)"
        ))
    }
}

impl fmt::Display for TrustReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approved => "trusted for this run",
            Self::Saved => "trusted",
            Self::Always => "trusted as every project is",
            Self::Refused => "not trusted for this run",
            Self::SavedNo => "not trusted",
            Self::Never => "not trusted as no project is",
            Self::Changed => "not trusted any more: it has changed",
            Self::Unanswered => "not trusted yet",
            Self::NothingToTrust => "brings nothing that must be trusted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_answer_and_setting_decide_in_this_order() {
        use SavedAnswer::{No, None as NoAnswer, Yes, YesForOther};
        use TrustReason as R;
        let rows = [
            // Something there, flag, answer, setting, reason, trusted, told.
            (true, Some(true), No, "never", R::Approved, true, false),
            (true, Some(false), Yes, "always", R::Refused, false, false),
            (true, None, Yes, "never", R::Saved, true, false),
            (true, None, No, "always", R::SavedNo, false, false),
            (true, None, NoAnswer, "always", R::Always, true, false),
            (true, None, YesForOther, "always", R::Always, true, false),
            (true, None, NoAnswer, "never", R::Never, false, true),
            (true, None, YesForOther, "ask", R::Changed, false, true),
            (true, None, NoAnswer, "ask", R::Unanswered, false, true),
            (
                false,
                None,
                NoAnswer,
                "ask",
                R::NothingToTrust,
                false,
                false,
            ),
            (false, Some(true), NoAnswer, "ask", R::Approved, true, false),
        ];
        for (brings_something, flag, saved, default, reason, trusted, told) in rows {
            let trust = ProjectTrust::decide(TrustInputs {
                brings_something,
                flag,
                saved,
                default: Some(default),
            });
            assert_eq!(trust.reason(), reason);
            assert_eq!(trust.is_trusted(), trusted, "{reason}");
            let notice = trust.notice(&["/p/.pi".to_owned()]);
            assert_eq!(notice.is_some(), told, "{reason}");
        }
    }

    #[test]
    fn the_notice_is_one_line() {
        let trust = |saved| {
            ProjectTrust::decide(TrustInputs {
                brings_something: true,
                flag: None,
                saved,
                default: None,
            })
        };
        let both = ["/p/.pi".to_owned(), "/p/.agents/skills".to_owned()];
        let rows = [
            (
                SavedAnswer::None,
                &both[..1],
                "`/p/.pi` was passed over: this project is not trusted (--approve trusts it for one run)",
            ),
            (
                SavedAnswer::YesForOther,
                &both[..],
                "`/p/.pi`, `/p/.agents/skills` were passed over: it has changed since this project was trusted (--approve trusts it for one run)",
            ),
        ];
        for (saved, brought, text) in rows {
            assert_eq!(trust(saved).notice(brought).as_deref(), Some(text));
        }
    }
}
