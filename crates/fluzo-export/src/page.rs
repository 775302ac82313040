//! The page: head, facts, contents, the tree, and what is said at its end.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use fluzo_llm::tool::ToolSpec;
use fluzo_session::stats::grouped;
use fluzo_session::{Entry, EntryKind, Index, SessionStore, Stats, StoreError};

use crate::entry::{self, Around, Placed, Renderer};
use crate::escape;
use crate::layout::{self, Kind, Place, Step};
use crate::markdown::pre;
use crate::{media, tool};

/// What a page shows besides the session.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extras<'a> {
    /// The system prompt.
    pub system_prompt: Option<&'a str>,
    /// The tools that the model is offered.
    pub tools: &'a [ToolSpec],
}

/// What went into a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Entries that are shown.
    pub entries: usize,
    /// Entries that could not be read.
    pub unreadable: usize,
    /// Pieces of code that are shown without colours because they are too long.
    pub without_colours: usize,
}

/// Why a page could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The session cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The page cannot be written.
    #[error("cannot write the page")]
    Write(#[from] io::Error),
}

const HEAD: &str = concat!(
    "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n",
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n",
    "<meta name=referrer content=no-referrer>\n",
    "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n<style>",
    include_str!("style.css"),
    "</style>\n<title>",
);

/// Writes the session in `store` as one HTML page: the path to `leaf` as a list, and what
/// leaves it as lists inside.
///
/// The page refers to nothing outside itself and needs no script. One entry at a time is
/// held in memory, a response together with the results of its calls. Entries that cannot
/// be read are named on the page.
///
/// # Errors
///
/// When `out` refuses, or the store fails as a whole. What was written by then is a part
/// of a page.
pub fn write_page(
    store: &dyn SessionStore,
    leaf: Option<&str>,
    extras: &Extras<'_>,
    out: &mut dyn io::Write,
) -> Result<Report, ExportError> {
    let steps = store
        .look(|index| layout::steps(index, leaf))
        .unwrap_or_default();
    let around = Surroundings::of(store);
    let mut page = Page {
        store,
        steps: &steps,
        renderer: Renderer::new(&around, leaf),
        report: Report::default(),
    };
    let mut head = String::from(HEAD);
    page.head(&mut head, leaf, extras)?;
    out.write_all(head.as_bytes())?;
    page.contents(out)?;
    page.tree(out)?;
    page.report.without_colours = page.renderer.highlighter.plain;
    let mut foot = String::new();
    page.foot(&mut foot);
    out.write_all(foot.as_bytes())?;
    out.flush()?;
    Ok(page.report)
}

struct Page<'a> {
    store: &'a dyn SessionStore,
    steps: &'a [Step],
    renderer: Renderer<'a>,
    report: Report,
}

/// Labels and anchors of all entries.
struct Surroundings<'a> {
    store: &'a dyn SessionStore,
    labels: HashMap<String, String>,
}

impl<'a> Surroundings<'a> {
    fn of(store: &'a dyn SessionStore) -> Self {
        let labels = |index: &Index| {
            let labels = index.labels().into_iter();
            labels
                .map(|(_, target, label)| (target.to_owned(), label.to_owned()))
                .collect()
        };
        Self {
            store,
            labels: store.look(labels).unwrap_or_default(),
        }
    }
}

impl Around for Surroundings<'_> {
    fn label(&self, id: &str) -> Option<&str> {
        self.labels.get(id).map(String::as_str)
    }

    fn number(&self, id: &str) -> Option<usize> {
        self.store.look(|index| index.position(id)).flatten()
    }
}

impl Page<'_> {
    fn head(
        &mut self,
        out: &mut String,
        leaf: Option<&str>,
        extras: &Extras<'_>,
    ) -> Result<(), ExportError> {
        let title = escape::escaped(&self.title()?);
        out.push_str(&format!(
            "{title}</title>\n<body>\n<header>\n<h1>{title}</h1>\n<dl>"
        ));
        let header = self.store.header();
        fact(out, "Session", &header.id);
        out.push_str("<dt>Begun<dd>");
        entry::time(out, &header.timestamp);
        fact(out, "Folder", &header.cwd);
        if let Some(parent) = &header.parent_session {
            fact(out, "Forked from", parent);
        }
        let on_path = Stats::on_path(self.store, leaf)?;
        let has_branches = self.has_branches();
        let all = has_branches
            .then(|| Stats::of_all(self.store))
            .transpose()?;
        statistics(out, &on_path, all.as_ref());
        out.push_str("</dl>\n");
        if let Some(prompt) = extras.system_prompt {
            out.push_str("<details class=t><summary>System prompt</summary>");
            pre(out, &escape::escaped(prompt));
            out.push_str("</details>\n");
        }
        if !extras.tools.is_empty() {
            let count = extras.tools.len();
            out.push_str(&format!(
                "<details class=t><summary>Tools <small>{count}</small></summary>"
            ));
            for each in extras.tools {
                out.push_str("<h3>");
                escape::text(out, &each.name);
                out.push_str("</h3>");
                media::written(out, &each.description);
                tool::json(out, &each.parameters, &mut self.renderer.highlighter);
            }
            out.push_str("</details>\n");
        }
        out.push_str("</header>\n<main>\n");
        Ok(())
    }

    /// The name of the session, else the beginning of its first message.
    fn title(&self) -> Result<String, ExportError> {
        let name = |index: &Index| index.name().map(str::to_owned);
        if let Some(name) = self
            .store
            .look(name)
            .flatten()
            .filter(|name| !name.is_empty())
        {
            return Ok(escape::snippet(&name, 200));
        }
        let first = self.steps.iter().find_map(|step| match step {
            Step::Entry(place) if place.kind == Kind::User => Some(place),
            _ => None,
        });
        let text = first.map(|place| self.snippet(&place.id)).transpose()?;
        let text = text.filter(|text| !text.is_empty());
        Ok(text.unwrap_or_else(|| "Session".to_owned()))
    }

    /// What a person would know the entry by.
    fn snippet(&self, id: &str) -> Result<String, ExportError> {
        let Some(entry) = self.read(id)? else {
            return Ok(String::new());
        };
        let text = match &entry.kind {
            EntryKind::Message(message) => match &**message {
                fluzo_llm::Message::User(user) => user.content.text(),
                fluzo_llm::Message::Assistant(response) => {
                    fluzo_llm::content::joined_text(&response.content)
                }
                fluzo_llm::Message::BashExecution(shell) => format!("$ {}", shell.command),
                _ => String::new(),
            },
            EntryKind::BranchSummary { summary, .. } => summary.clone(),
            EntryKind::CustomMessage { content, .. } => content.text(),
            _ => String::new(),
        };
        Ok(escape::snippet(&text, 72))
    }

    fn read(&self, id: &str) -> Result<Option<Arc<Entry>>, StoreError> {
        match self.store.payload(id) {
            Ok(entry) => Ok(Some(entry)),
            Err(StoreError::Unreadable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The outline: messages of the user, compactions, labels, and branches as lists inside.
    fn contents(&mut self, out: &mut dyn io::Write) -> Result<(), ExportError> {
        let listed = |step: &&Step| matches!(step, Step::Entry(place) if place.kind == Kind::User);
        let count = self.steps.iter().filter(listed).count();
        if count < 2 {
            return Ok(());
        }
        let open = if count <= 12 { " open" } else { "" };
        write!(
            out,
            "<nav aria-label=Contents>\n<details{open}><summary><h2>Contents</h2></summary>\n<ul>\n"
        )?;
        for step in self.steps {
            let line = self.line(step)?;
            out.write_all(line.as_bytes())?;
        }
        out.write_all(b"</ul>\n</details>\n</nav>\n")?;
        Ok(())
    }

    fn line(&self, step: &Step) -> Result<String, ExportError> {
        let mut out = String::new();
        match step {
            Step::Open { entries, flat, .. } => {
                let entries = plural(*entries, "entry", "entries");
                let list = if *flat { "</li>" } else { "<ul>" };
                out.push_str(&format!("<li>Branch of {entries}{list}\n"));
            }
            Step::Close { flat: false } => out.push_str("</ul></li>\n"),
            Step::Close { flat: true } => {}
            Step::Entry(place) => {
                let label = self.renderer.around.label(&place.id);
                let text = match place.kind {
                    Kind::User => self.snippet(&place.id)?,
                    Kind::Compaction => "Compaction".to_owned(),
                    _ if label.is_some() => String::new(),
                    _ => return Ok(out),
                };
                out.push_str(&format!("<li><a href=#n{}>", place.number));
                escape::text(&mut out, if text.is_empty() { "Entry" } else { &text });
                out.push_str("</a>");
                if let Some(label) = label {
                    out.push_str(" <mark>");
                    escape::text(&mut out, &escape::snippet(label, 60));
                    out.push_str("</mark>");
                }
                out.push_str("</li>\n");
            }
        }
        Ok(out)
    }

    fn has_branches(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| matches!(step, Step::Open { .. }))
    }

    fn tree(&mut self, out: &mut dyn io::Write) -> Result<(), ExportError> {
        out.write_all(b"<h2>Conversation</h2>\n")?;
        if self.has_branches() {
            out.write_all(b"<p class=e>This is the current path. A branch off it is folded where it leaves.</p>\n")?;
        }
        out.write_all(b"<ol class=p>\n")?;
        let mut steps = self.steps;
        while let Some((step, rest)) = steps.split_first() {
            steps = rest;
            let html = match step {
                Step::Open {
                    first,
                    entries,
                    after,
                    flat,
                } => self.branch(first, *entries, *after, *flat)?,
                Step::Close { flat: false } => "</ol></details></li>\n".to_owned(),
                Step::Close { flat: true } => {
                    "<li class=q><p class=e>End of the branch</p></li>\n".to_owned()
                }
                Step::Entry(place) => {
                    let results = results_of(place, rest);
                    steps = rest.get(results.len()..).unwrap_or_default();
                    self.item(place, &results)?
                }
            };
            out.write_all(html.as_bytes())?;
        }
        out.write_all(b"</ol>\n")?;
        Ok(())
    }

    fn item(&mut self, place: &Place, results: &[&Place]) -> Result<String, ExportError> {
        let mut lost = String::new();
        let mut read = Vec::with_capacity(results.len());
        for place in results {
            match self.placed(place)? {
                Some(placed) => read.push(placed),
                None => lost.push_str(&missing(place)),
            }
        }
        Ok(match self.placed(place)? {
            Some(placed) => self.renderer.item(&placed, &read) + &lost,
            None => missing(place) + &lost,
        })
    }

    fn placed(&mut self, place: &Place) -> Result<Option<Placed>, ExportError> {
        let entry = self.read(&place.id)?;
        match &entry {
            Some(_) => self.report.entries += 1,
            None => self.report.unreadable += 1,
        }
        Ok(entry.map(|entry| (place.clone(), entry)))
    }

    fn branch(
        &self,
        first: &str,
        entries: usize,
        after: Option<usize>,
        flat: bool,
    ) -> Result<String, ExportError> {
        let entries = plural(entries, "entry", "entries");
        let text = self.snippet(first)?;
        let mut out = String::from("<li class=h>");
        out.push_str(if flat {
            "<p class=e>"
        } else {
            "<details><summary>"
        });
        out.push_str(&format!("Branch of {entries}"));
        if !text.is_empty() {
            out.push_str(": ");
            escape::text(&mut out, &text);
        }
        if let Some(number) = after.filter(|_| flat) {
            out.push_str(&format!(" (<a href=#n{number}>leaves here</a>)"));
        }
        out.push_str(if flat {
            "</p></li>\n"
        } else {
            "</summary><ol class=p>\n"
        });
        Ok(out)
    }

    fn foot(&self, out: &mut String) {
        out.push_str("</main>\n<footer>\n");
        let damage = self.store.damage();
        let notes = [
            (self.report.unreadable > 0).then(|| {
                format!(
                    "{} cannot be read and are missing here.",
                    plural(self.report.unreadable, "entry", "entries")
                )
            }),
            (self.report.without_colours > 0).then(|| {
                format!(
                    "{} too long for colours.",
                    plural(
                        self.report.without_colours,
                        "piece of code is",
                        "pieces of code are"
                    )
                )
            }),
            (!damage.is_empty()).then(|| format!("The session file is damaged: {damage}.")),
        ];
        for note in notes.into_iter().flatten() {
            out.push_str("<p>");
            escape::text(out, &note);
            out.push_str("</p>\n");
        }
        out.push_str("<p>Times are UTC. Written by Fluzo; nothing on this page is loaded from elsewhere.</p>\n</footer>\n</body>\n</html>\n");
    }
}

/// The tool results right behind a response, which are shown with their calls.
fn results_of<'a>(place: &Place, rest: &'a [Step]) -> Vec<&'a Place> {
    if place.kind != Kind::Assistant {
        return Vec::new();
    }
    rest.iter()
        .map_while(|step| match step {
            Step::Entry(place) if place.kind == Kind::ToolResult => Some(place),
            _ => None,
        })
        .collect()
}

fn missing(place: &Place) -> String {
    format!(
        "<li id=n{} class=q><p class=z>This entry cannot be read</p></li>\n",
        place.number
    )
}

fn statistics(out: &mut String, on_path: &Stats, all: Option<&Stats>) {
    let messages = |stats: &Stats| {
        format!(
            "{} of the user, {}, {}",
            grouped(stats.user_messages as u64),
            plural(stats.assistant_messages, "response", "responses"),
            plural(stats.tool_calls, "tool call", "tool calls"),
        )
    };
    fact(out, "Messages", &messages(on_path));
    fact(out, "Tokens", &tokens(on_path));
    if on_path.cost > 0.0 {
        fact(out, "Cost", &format!("{:.4}", on_path.cost));
    }
    if let Some(all) = all {
        let cost = if all.cost > 0.0 {
            format!(", cost {:.4}", all.cost)
        } else {
            String::new()
        };
        let text = format!(
            "{}; {} tokens{cost}",
            messages(all),
            grouped(all.tokens.total)
        );
        fact(out, "With all branches", &text);
    }
}

fn tokens(stats: &Stats) -> String {
    let tokens = &stats.tokens;
    let parts = [
        ("input", tokens.input),
        ("output", tokens.output),
        ("read from cache", tokens.cache_read),
        ("written to cache", tokens.cache_write),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{} {what}", grouped(*count)))
        .collect();
    let total = grouped(tokens.total);
    if parts.is_empty() {
        total
    } else {
        format!("{total} ({})", parts.join(", "))
    }
}

fn fact(out: &mut String, what: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    out.push_str(&format!("<dt>{what}<dd>"));
    escape::text(out, value);
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(count as u64),
        if count == 1 { one } else { many }
    )
}
