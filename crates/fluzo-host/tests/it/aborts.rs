//! What a run, a compaction, the summary of a branch, a wait and a command of the user's are
//! ended by: each by its own command, while what goes on beside it ends well.

use std::sync::Arc;

use fluzo_llm::StreamErrorKind;
use fluzo_protocol::{Command, Event};
use fluzo_runtime::retry::RetryPolicy;
use fluzo_testkit::Switch;
use fluzo_testkit::reply::{failing, text};

use crate::doubles::FakeShell;
use crate::life::{Kind, Place, Setup};
use crate::races::{compact, entry, filling, long, manual};
use crate::stage::Stage;

/// What is going on when a command comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    Run,
    Compaction,
    AutomaticCompaction,
    BranchSummary,
    Wait,
}

const ABORTS: [Command; 5] = [
    Command::Abort,
    Command::AbortCompaction,
    Command::AbortBranchSummary,
    Command::AbortRetry,
    Command::AbortBash,
];

impl Going {
    const ALL: [Self; 5] = [
        Self::Run,
        Self::Compaction,
        Self::AutomaticCompaction,
        Self::BranchSummary,
        Self::Wait,
    ];

    /// What ends it.
    fn ended_by(self) -> &'static [Command] {
        match self {
            Self::Run => &[Command::Abort],
            Self::Compaction => &[Command::AbortCompaction],
            Self::AutomaticCompaction => &[Command::Abort, Command::AbortCompaction],
            Self::BranchSummary => &[Command::AbortBranchSummary],
            Self::Wait => &[Command::Abort, Command::AbortRetry],
        }
    }

    /// A session in which it goes on.
    fn begin(self, place: &Place, setup: Setup<'static>) -> Stage {
        match self {
            Self::Run => {
                let mut stage = long(place, [text(["ok"])], setup);
                stage.prompt("go");
                stage.until("stream:done");
                stage
            }
            Self::Compaction => {
                let mut stage = long(place, [text(["SUMMARY"])], setup);
                stage.start(compact());
                stage.until("stream:done");
                stage
            }
            Self::AutomaticCompaction => {
                let mut stage = filling(place, vec![text(["SUMMARY"])], setup);
                stage.until("append:assistant");
                stage.release("append:assistant");
                stage.until("stream:done");
                stage
            }
            Self::BranchSummary => {
                let mut stage = long(place, [text(["second"]), text(["SUMMARY"])], setup);
                let entry_id = entry(&mut stage, "assistant");
                stage.prompt("go");
                stage.run_out();
                stage.start(Command::NavigateTree {
                    entry_id,
                    summarize: true,
                    custom_instructions: None,
                    replace_instructions: false,
                    label: None,
                });
                stage.until("stream:done");
                stage
            }
            Self::Wait => {
                let failure = failing(StreamErrorKind::Transient, "503 overloaded");
                let mut stage = long(place, [failure, text(["ok"])], setup);
                stage.prompt("go");
                stage.until("sleep");
                stage
            }
        }
    }

    /// Whether it was ended before its time.
    fn was_ended(self, stage: &Stage) -> bool {
        let events = stage.life.log.events();
        match self {
            Self::Run => {
                let last = stage.reports.last().unwrap().last.clone().unwrap();
                last.as_assistant().unwrap().failed()
            }
            Self::Compaction => match stage.answer("compact") {
                Ok(_) => false,
                Err(error) => {
                    assert_eq!(error, "Compaction cancelled");
                    true
                }
            },
            Self::AutomaticCompaction => {
                let ended = |e: &Event| match e {
                    Event::CompactionEnd { aborted, .. } => Some(*aborted),
                    _ => None,
                };
                events.iter().find_map(ended).unwrap()
            }
            Self::BranchSummary => {
                let moved = stage.answer("navigate_tree").unwrap();
                assert_eq!(moved["aborted"] == true, moved["cancelled"] == true);
                moved["aborted"] == true
            }
            Self::Wait => {
                let ended = |e: &Event| match e {
                    Event::AutoRetryEnd {
                        success,
                        final_error,
                        ..
                    } => {
                        let cancelled = final_error.as_deref() == Some("Retry cancelled");
                        assert_eq!(cancelled, !success);
                        Some(!success)
                    }
                    _ => None,
                };
                events.iter().find_map(ended).unwrap()
            }
        }
    }
}

#[test]
fn each_is_ended_by_its_own_command_alone_and_what_goes_on_beside_it_ends_well() {
    for going in Going::ALL {
        for abort in ABORTS {
            let place = Place::new(Kind::Jsonl);
            let ready = Switch::new();
            let shell = FakeShell {
                ready: ready.clone(),
            };
            let setup = Setup {
                shell: Arc::new(shell),
                retry: RetryPolicy::default(),
                ..manual([])
            };
            let mut stage = going.begin(&place, setup);
            stage.start(Command::Bash {
                command: "ls".into(),
                exclude_from_context: false,
            });
            stage.start(abort.clone());
            ready.flip();
            stage.run_out();
            let context = format!("{going:?}, {abort:?}");
            let expected = going.ended_by().contains(&abort);
            assert_eq!(going.was_ended(&stage), expected, "{context}");
            let shell = stage.answer("bash").unwrap();
            assert_eq!(shell["cancelled"], abort == Command::AbortBash, "{context}");
            let stored = Stage::roles(&place);
            assert!(
                stored.contains(&"bashExecution".to_owned()),
                "{context}: {stored:?}"
            );
            if going == Going::AutomaticCompaction && expected {
                // It is made up for before the next prompt.
                stage.life.world.model.push(text(["SUMMARY"]));
            }
            stage.check(&place);
        }
    }
}

#[test]
fn everything_ends_at_once_when_the_session_is_shut_down() {
    for going in Going::ALL {
        let place = Place::new(Kind::Jsonl);
        let shell = FakeShell {
            ready: Switch::new(),
        };
        let setup = Setup {
            shell: Arc::new(shell),
            retry: RetryPolicy::default(),
            ..manual([])
        };
        let mut stage = going.begin(&place, setup);
        stage.start(Command::Bash {
            command: "ls".into(),
            exclude_from_context: false,
        });
        stage.life.session.shut_down();
        stage.run_out();
        assert!(going.was_ended(&stage), "{going:?}");
        assert_eq!(
            stage.answer("bash").unwrap()["cancelled"],
            true,
            "{going:?}"
        );
        assert_eq!(
            stage.refusal("more").as_deref(),
            Some("the session is ending")
        );
    }
}
