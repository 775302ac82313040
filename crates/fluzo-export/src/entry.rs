//! One entry of the session, or a response with the results of its calls.

use std::sync::Arc;

use fluzo_llm::message::{AssistantMessage, BashExecutionMessage, StopReason, UserContent};
use fluzo_llm::{Content, Message};
use fluzo_session::stats::grouped;
use fluzo_session::{Compaction, Entry, EntryKind};
use fluzo_stdx::time::parse_iso;

use crate::escape;
use crate::highlight::Highlighter;
use crate::layout::Place;
use crate::markdown::{self, pre};
use crate::media;
use crate::tool::{self, Answer};

/// What an entry needs to know of the rest of the session.
pub(crate) trait Around {
    /// The label on an entry.
    fn label(&self, id: &str) -> Option<&str>;
    /// The number of an entry, which makes its anchor.
    fn number(&self, id: &str) -> Option<usize>;
}

/// Renders entries one after the other.
pub(crate) struct Renderer<'a> {
    pub(crate) around: &'a dyn Around,
    pub(crate) highlighter: Highlighter,
    /// Id of the current entry.
    leaf: Option<&'a str>,
    /// The item holds the current entry.
    current: bool,
    /// The model of the response before, which is not named again.
    model: String,
}

/// An entry with its place.
pub(crate) type Placed = (Place, Arc<Entry>);

impl<'a> Renderer<'a> {
    pub(crate) fn new(around: &'a dyn Around, leaf: Option<&'a str>) -> Self {
        Self {
            around,
            highlighter: Highlighter::default(),
            leaf,
            current: false,
            model: String::new(),
        }
    }

    /// The list item of `entry`; `results` are the tool results that follow a response.
    pub(crate) fn item(&mut self, (place, entry): &Placed, results: &[Placed]) -> String {
        let mut out = String::new();
        let out = &mut out;
        let mut ids = results
            .iter()
            .map(|(place, _)| &place.id)
            .chain([&place.id]);
        self.current = ids.any(|id| Some(&**id) == self.leaf);
        match &entry.kind {
            EntryKind::Message(message) => self.message(out, place, entry, message, results),
            EntryKind::CustomMessage {
                custom_type,
                content,
                display,
                ..
            } => self.extension(out, (place, entry), custom_type, content, *display),
            EntryKind::Compaction(compaction) => self.compaction(out, place, entry, compaction),
            EntryKind::BranchSummary { summary, .. } => {
                self.open(out, place, entry, "s", "Summary of a branch that was left");
                self.summary(out, summary);
            }
            kind => self.event(out, place, entry, kind),
        }
        out.push_str("</li>\n");
        std::mem::take(out)
    }

    fn message(
        &mut self,
        out: &mut String,
        place: &Place,
        entry: &Entry,
        message: &Message,
        results: &[Placed],
    ) {
        match message {
            Message::User(user) => {
                self.open(out, place, entry, "u", "User");
                media::user(out, &user.content, &mut self.highlighter);
            }
            Message::Assistant(response) => self.response(out, place, entry, response, results),
            Message::ToolResult(result) => {
                self.quiet(out, place, entry);
                let number = None;
                let answer = Answer { number, result };
                tool::lone_result(out, &answer, &mut self.highlighter);
            }
            Message::BashExecution(shell) => {
                self.open(out, place, entry, "b", "Command of the user");
                command(out, shell);
            }
            Message::Custom(custom) => {
                let placed = (place, entry);
                self.extension(
                    out,
                    placed,
                    &custom.custom_type,
                    &custom.content,
                    custom.display,
                );
            }
            Message::BranchSummary(branch) => {
                self.open(out, place, entry, "s", "Summary of a branch that was left");
                self.summary(out, &branch.summary);
            }
            Message::CompactionSummary(compaction) => {
                self.open(out, place, entry, "s", "Compaction");
                self.summary(out, &compaction.summary);
            }
            Message::Unknown(value) => {
                self.quiet(out, place, entry);
                out.push_str("<details class=e><summary>Message of role <b>");
                escape::text(out, &escape::snippet(message.role(), 60));
                out.push_str("</b></summary>");
                tool::json(out, value, &mut self.highlighter);
                out.push_str("</details>");
            }
        }
    }

    fn response(
        &mut self,
        out: &mut String,
        place: &Place,
        entry: &Entry,
        response: &AssistantMessage,
        results: &[Placed],
    ) {
        self.open(out, place, entry, "a", "Assistant");
        let model = format!("{}/{}", response.provider, response.model);
        if model != self.model {
            out.push_str("<p class=e>");
            escape::text(out, &model);
            out.push_str("</p>");
            self.model = model;
        }
        let mut answers: Vec<Answer<'_>> = results
            .iter()
            .filter_map(|(place, entry)| {
                let result = entry.message()?.as_tool_result()?;
                let number = Some(place.number);
                Some(Answer { number, result })
            })
            .collect();
        for block in &response.content {
            let Content::ToolCall(call) = block else {
                media::block(out, block, &mut self.highlighter);
                continue;
            };
            let at = answers
                .iter()
                .position(|answer| answer.result.tool_call_id == call.id);
            let answer = at.map(|at| answers.remove(at));
            tool::call(out, call, answer.as_ref(), &mut self.highlighter);
        }
        for answer in &answers {
            tool::lone_result(out, answer, &mut self.highlighter);
        }
        ending(out, response);
    }

    fn extension(
        &mut self,
        out: &mut String,
        (place, entry): (&Place, &Entry),
        name: &str,
        content: &UserContent,
        shown: bool,
    ) {
        let name = escape::snippet(name, 60);
        if shown {
            self.open(
                out,
                place,
                entry,
                "x",
                &format!("Message of extension {name}"),
            );
            return media::user(out, content, &mut self.highlighter);
        }
        self.quiet(out, place, entry);
        out.push_str("<details class=e><summary>Hidden message of extension ");
        escape::text(out, &name);
        out.push_str("</summary>");
        media::user(out, content, &mut self.highlighter);
        out.push_str("</details>");
    }

    fn compaction(
        &mut self,
        out: &mut String,
        place: &Place,
        entry: &Entry,
        compaction: &Compaction,
    ) {
        self.open(out, place, entry, "s", "Compaction");
        out.push_str("<p class=e>A summary stands for what came before");
        if compaction.tokens_before > 0 {
            out.push_str(&format!(
                ", about {} tokens",
                grouped(compaction.tokens_before)
            ));
        }
        if let Some(number) = self.around.number(&compaction.first_kept_entry_id) {
            out.push_str(&format!("; kept from <a href=#n{number}>this entry</a> on"));
        }
        out.push_str("</p>");
        self.summary(out, &compaction.summary);
    }

    fn summary(&mut self, out: &mut String, summary: &str) {
        out.push_str("<details><summary>Summary</summary>");
        markdown::render(out, summary, &mut self.highlighter);
        out.push_str("</details>");
    }

    /// An entry that is a line of its own.
    fn event(&mut self, out: &mut String, place: &Place, entry: &Entry, kind: &EntryKind) {
        self.quiet(out, place, entry);
        let mut line = |parts: [&str; 2]| {
            out.push_str("<p class=e>");
            out.push_str(parts[0]);
            escape::text(out, &escape::snippet(parts[1], 200));
            out.push_str("</p>");
        };
        match kind {
            EntryKind::ThinkingLevelChange { level } => line(["Thinking level: ", level]),
            EntryKind::ModelChange { provider, model_id } => {
                line(["Model: ", &format!("{provider}/{model_id}")]);
            }
            EntryKind::SessionInfo { name } if name.is_empty() => line(["Name taken away", ""]),
            EntryKind::SessionInfo { name } => line(["Name: ", name]),
            EntryKind::Label { target_id, label } => {
                let what = label.as_deref().filter(|label| !label.is_empty());
                let word = if what.is_some() {
                    "Label "
                } else {
                    "Label taken away"
                };
                line([word, what.unwrap_or_default()]);
                if let Some(number) = self.around.number(target_id) {
                    out.push_str(&format!(
                        "<p class=e><a href=#n{number}>to the entry</a></p>"
                    ));
                }
            }
            EntryKind::Custom { custom_type, data } => {
                out.push_str("<details class=e><summary>State of extension ");
                escape::text(out, &escape::snippet(custom_type, 60));
                out.push_str("</summary>");
                tool::json(out, data, &mut self.highlighter);
                out.push_str("</details>");
            }
            kind => {
                out.push_str("<details class=e><summary>Entry of type ");
                escape::text(out, &escape::snippet(kind.type_name(), 60));
                out.push_str("</summary>");
                tool::json(out, &entry.extra, &mut self.highlighter);
                out.push_str("</details>");
            }
        }
    }

    /// Begins an item with a heading.
    fn open(&self, out: &mut String, place: &Place, entry: &Entry, class: &str, heading: &str) {
        self.begin(out, place, class);
        out.push_str("<h3>");
        escape::text(out, heading);
        out.push_str("</h3>");
        time(out, &entry.timestamp);
        self.label(out, entry);
    }

    /// Begins an item without one.
    fn quiet(&self, out: &mut String, place: &Place, entry: &Entry) {
        self.begin(out, place, "q");
        self.label(out, entry);
    }

    fn begin(&self, out: &mut String, place: &Place, class: &str) {
        let current = if self.current {
            " aria-current=location"
        } else {
            ""
        };
        out.push_str(&format!("<li id=n{} class={class}{current}>", place.number));
    }

    fn label(&self, out: &mut String, entry: &Entry) {
        if let Some(label) = self.around.label(&entry.id) {
            out.push_str(" <mark>");
            escape::text(out, &escape::snippet(label, 100));
            out.push_str("</mark>");
        }
        if self.current {
            out.push_str(" <mark>current entry</mark>");
        }
    }
}

/// Appends a time in UTC, to the second.
pub(crate) fn time(out: &mut String, timestamp: &str) {
    let shown =
        parse_iso(timestamp).and_then(|_| Some((timestamp.get(..10)?, timestamp.get(11..19)?)));
    if let Some((date, clock)) = shown {
        out.push_str("<time>");
        escape::text(out, &format!("{date} {clock}Z"));
        out.push_str("</time>");
    }
}

fn command(out: &mut String, shell: &BashExecutionMessage) {
    let (open, status) = (shell.output.lines().count() <= 40, status(shell));
    out.push_str(if open {
        "<details class=t open>"
    } else {
        "<details class=t>"
    });
    out.push_str("<summary><b>$</b> <code>");
    let first = escape::snippet(&shell.command, 200);
    escape::text(out, &first);
    out.push_str("</code>");
    for part in &status {
        out.push_str(&format!(" <em>{part}</em>"));
    }
    out.push_str("</summary>");
    if first != shell.command {
        pre(out, &escape::escaped(&shell.command));
    }
    pre(out, &escape::escaped(&shell.output));
    out.push_str("</details>");
}

fn status(shell: &BashExecutionMessage) -> Vec<String> {
    let mut status = Vec::new();
    if shell.cancelled {
        status.push("cancelled".to_owned());
    }
    match shell.exit_code {
        Some(code) if code != 0 => status.push(format!("exit {code}")),
        _ => {}
    }
    if shell.truncated {
        status.push("output cut".to_owned());
    }
    if shell.exclude_from_context == Some(true) {
        status.push("not sent to the model".to_owned());
    }
    status
}

fn ending(out: &mut String, response: &AssistantMessage) {
    let what = match &response.stop_reason {
        StopReason::Stop | StopReason::ToolUse => return,
        StopReason::Length => "Cut off at the output limit",
        StopReason::Error => "Failed",
        StopReason::Aborted => "Aborted",
        StopReason::Other(reason) => reason,
    };
    out.push_str("<p class=z>");
    escape::text(out, what);
    if let Some(message) = &response.error_message {
        out.push_str(": ");
        escape::text(out, message);
    }
    out.push_str("</p>");
}
