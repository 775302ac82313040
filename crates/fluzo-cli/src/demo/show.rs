//! Shows a run as it happens.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fluzo_llm::{BoxFuture, StreamEvent, content::joined_text};
use fluzo_protocol::{Event, EventSink};
use fluzo_stdx::sanitize::terminal_text;

/// Lines of a result that are shown.
const MOST_LINES: usize = 24;
/// Characters of a line that are shown.
const LONGEST_LINE: usize = 160;

/// Turns events into text and keeps it until it is taken.
#[derive(Debug, Default)]
pub(crate) struct Show(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    text: String,
    /// What each open call works on: calls of one turn end in any order.
    subjects: BTreeMap<String, String>,
}

impl Show {
    /// What has come up since the last time.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut self.state().text)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Show {
    fn on_event<'a>(&'a self, event: &'a Event) -> BoxFuture<'a, ()> {
        let mut state = self.state();
        let shown = text(event, &mut state.subjects);
        state.text.push_str(&shown);
        Box::pin(std::future::ready(()))
    }
}

/// What is shown for an event; nothing for most.
fn text(event: &Event, subjects: &mut BTreeMap<String, String>) -> String {
    match event {
        Event::MessageUpdate { delta } => match delta {
            StreamEvent::TextStart { .. } => "\n".to_owned(),
            StreamEvent::TextDelta { delta, .. } => terminal_text(delta),
            StreamEvent::TextEnd { .. } => "\n".to_owned(),
            _ => String::new(),
        },
        Event::ToolExecutionStart {
            call_id,
            tool_name,
            args,
        } => {
            let subject = ["command", "path"]
                .iter()
                .find_map(|key| args.get(*key)?.as_str())
                .unwrap_or_default();
            let subject = line(subject);
            let shown = format!("\n> {} {subject}\n", line(tool_name));
            subjects.insert(call_id.clone(), subject);
            shown
        }
        Event::ToolExecutionEnd {
            call_id,
            tool_name,
            result,
            is_error,
        } => {
            let subject = subjects.remove(call_id).unwrap_or_default();
            let outcome = if *is_error { "failed" } else { "done" };
            let details = result.details.as_ref();
            let diff = details.and_then(|details| details.get("diff")?.as_str());
            let output = joined_text(&result.content);
            format!(
                "{}< {} {subject} {outcome}\n",
                block(diff.unwrap_or(&output)),
                line(tool_name)
            )
        }
        Event::MessageEnd { message } => {
            let error = message
                .as_assistant()
                .and_then(|message| message.error_message.as_deref());
            error.map_or_else(String::new, |error| format!("\n! {}\n", line(error)))
        }
        _ => String::new(),
    }
}

/// Text of several lines, indented; of a long one the end is shown, where the results stand.
fn block(text: &str) -> String {
    let text = terminal_text(text);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let left_out = lines.len().saturating_sub(MOST_LINES);
    let mut shown = String::new();
    if left_out > 0 {
        shown.push_str(&format!("  | … {left_out} lines before\n"));
    }
    for text in &lines[left_out..] {
        shown.push_str(&format!("  | {}\n", line(text)));
    }
    shown
}

/// Text as one line of bounded length.
pub(crate) fn line(text: &str) -> String {
    let text = terminal_text(text).replace(['\n', '\t'], " ");
    match text.char_indices().nth(LONGEST_LINE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use fluzo_llm::ToolOutput;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_tools_and_models_say_cannot_reach_the_terminal() {
        let delta = Event::MessageUpdate {
            delta: StreamEvent::TextDelta {
                index: 0,
                delta: "a\u{1b}[2Jb".to_owned(),
            },
        };
        let mut subjects = BTreeMap::new();
        let mut shown = |event: &Event| text(event, &mut subjects);
        assert_eq!(shown(&delta), "ab");
        let start = Event::ToolExecutionStart {
            call_id: "1".to_owned(),
            tool_name: "bash".to_owned(),
            args: json!({"command": "a\n\u{1b}[31mb"})
                .as_object()
                .unwrap()
                .clone(),
        };
        assert_eq!(shown(&start), "\n> bash a b\n");
        let end = Event::ToolExecutionEnd {
            call_id: "1".to_owned(),
            tool_name: "bash".to_owned(),
            result: ToolOutput::text("\u{1b}]0;x\u{7}one\r\n\ntwo"),
            is_error: true,
        };
        assert_eq!(shown(&end), "  | one\n  | two\n< bash a b failed\n");
    }

    #[test]
    fn calls_that_end_in_another_order_can_be_told_apart() {
        let mut subjects = BTreeMap::new();
        for (id, path) in [("1", "a.rs"), ("2", "b.rs")] {
            let start = Event::ToolExecutionStart {
                call_id: id.to_owned(),
                tool_name: "read".to_owned(),
                args: json!({ "path": path }).as_object().unwrap().clone(),
            };
            text(&start, &mut subjects);
        }
        for (id, path) in [("2", "b.rs"), ("1", "a.rs")] {
            let end = Event::ToolExecutionEnd {
                call_id: id.to_owned(),
                tool_name: "read".to_owned(),
                result: ToolOutput::text(""),
                is_error: false,
            };
            let shown = text(&end, &mut subjects);
            assert_eq!(shown, format!("< read {path} done\n"));
        }
        assert!(subjects.is_empty());
    }

    #[test]
    fn long_text_is_cut() {
        let many: String = (0..30).map(|n| format!("{n}\n")).collect();
        let shown = block(&many);
        assert!(shown.starts_with("  | … 6 lines before\n  | 6\n"));
        assert!(shown.ends_with("  | 29\n"));
        assert_eq!(line(&"ä".repeat(200)).chars().count(), LONGEST_LINE + 1);
    }
}
