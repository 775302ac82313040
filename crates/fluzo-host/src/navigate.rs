//! The tree of a session: moving in it, labels, names, and looking at its entries.

use std::sync::Arc;

use fluzo_protocol::{Command, Event, Executed};
use fluzo_runtime::branch_summary::{BranchSummaryError, BranchSummaryRequest};
use fluzo_session::tree::Forest;
use fluzo_session::{Entry, EntryKind, Index, Node, Session, StoreError};
use fluzo_stdx::error::with_causes;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::hooks::NavigationAction;
use crate::session::{Inner, said, unsaved};

/// Why the leaf is not moved during a run.
const BUSY: &str = "Wait for the current response to finish before moving in the tree.";

/// A move in the tree.
struct Move {
    entry_id: String,
    summarize: bool,
    instructions: Option<String>,
    replace: bool,
    label: Option<String>,
}

/// A summary of what is left behind, who made it, and what it is about.
type Summary = (String, Option<serde_json::Value>, Option<bool>);

/// What came of a move.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    #[serde(skip_serializing_if = "Option::is_none")]
    editor_text: Option<String>,
    cancelled: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    aborted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_entry: Option<Arc<Entry>>,
}

impl Inner {
    pub(crate) async fn execute_on_tree(
        self: &Arc<Self>,
        command: Command,
    ) -> Result<Executed, String> {
        match command {
            Command::NavigateTree {
                entry_id,
                summarize,
                custom_instructions,
                replace_instructions,
                label,
            } => {
                self.move_to(Move {
                    entry_id,
                    summarize,
                    instructions: custom_instructions,
                    replace: replace_instructions,
                    label,
                })
                .await
            }
            Command::SetLabel { entry_id, label } => {
                self.claimed()?;
                let session = &self.core.session;
                let label = label.as_deref().map(str::trim);
                session
                    .append_label(&entry_id, label, self.core.now())
                    .map_err(|error| with_causes(&error))?;
                Ok(Executed::done())
            }
            Command::SetSessionName { name } => self.rename(&name).await,
            Command::GetEntries { since } => entries(&self.core.session, since.as_deref()),
            Command::GetTree => tree(&self.core.session),
            _ => fork_messages(&self.core.session),
        }
    }

    async fn rename(&self, name: &str) -> Result<Executed, String> {
        if name.trim().is_empty() {
            return Err("Session name cannot be empty".to_owned());
        }
        self.claimed()?;
        let session = &self.core.session;
        session
            .append_session_info(name, self.core.now())
            .map_err(|error| unsaved(&error))?;
        let name = session.name();
        self.core
            .broadcast
            .show(Event::SessionInfoChanged { name })
            .await;
        Ok(Executed::done())
    }

    /// Moves, and goes on with what was queued meanwhile.
    async fn move_to(self: &Arc<Self>, to: Move) -> Result<Executed, String> {
        let claim = self.claims.take().ok_or_else(|| BUSY.to_owned())?;
        // What has waited before waits for the next prompt.
        let waited = self.core.broadcast.anything_queued();
        let moved = self.navigate(to).await;
        let run = (!waited).then(|| self.go_on(claim)).flatten();
        match moved {
            Err(error) if run.is_none() => Err(error),
            Err(error) => Ok(Executed {
                error: Some(error),
                run,
                ..Executed::default()
            }),
            Ok(moved) => Ok(Executed {
                run,
                ..Executed::with(&moved)?
            }),
        }
    }

    async fn navigate(&self, to: Move) -> Result<Moved, String> {
        let text = |error: StoreError| with_causes(&error);
        let session = &self.core.session;
        let leaf = session.leaf_id();
        if leaf.as_deref() == Some(&*to.entry_id) {
            return Ok(Moved::default());
        }
        let target = session.navigation_target(&to.entry_id).map_err(text)?;
        self.begin()?;
        let hooked = self.hooks.before_navigation(&to.entry_id).await;
        let summary = match self.told("session_before_tree", hooked).await {
            Some(NavigationAction::Cancel) => {
                return Ok(Moved {
                    cancelled: true,
                    ..Moved::default()
                });
            }
            Some(NavigationAction::Use { summary, details }) => {
                Some((summary, details, Some(true)))
            }
            _ if to.summarize => match self.branch_summary(&to, leaf.as_deref()).await? {
                Some(summary) => summary,
                None => {
                    return Ok(Moved {
                        cancelled: true,
                        aborted: true,
                        ..Moved::default()
                    });
                }
            },
            _ => None,
        };
        self.go_to(to, target.leaf.as_deref(), target.edit, summary)
    }

    /// Moves the leaf, which stores the summary if there is one.
    fn go_to(
        &self,
        to: Move,
        leaf: Option<&str>,
        edit: bool,
        summary: Option<Summary>,
    ) -> Result<Moved, String> {
        let text = |error: StoreError| with_causes(&error);
        let (session, now) = (&self.core.session, self.core.now());
        let editor_text = match edit.then(|| session.entry(&to.entry_id)) {
            Some(entry) => editor_text(&*entry.map_err(text)?),
            None => None,
        };
        let mut summary_entry = None;
        match (summary, leaf) {
            (Some((summary, details, hook)), leaf) => {
                let entry = session.branch_with_summary(leaf, &summary, details, hook, now);
                summary_entry = Some(entry.map_err(text)?);
            }
            (None, Some(leaf)) => session.branch(leaf).map_err(text)?,
            (None, None) => session.reset_leaf(),
        }
        if let Some(label) = to.label.as_deref().map(str::trim).filter(|l| !l.is_empty()) {
            let target = summary_entry.as_ref().map_or(&*to.entry_id, |e| &*e.id);
            session
                .append_label(target, Some(label), now)
                .map_err(text)?;
        }
        self.core.rebuild().map_err(text)?;
        self.flush();
        Ok(Moved {
            editor_text,
            summary_entry,
            ..Moved::default()
        })
    }

    /// The summary of what is left behind; `None` within when there is nothing to tell, and
    /// no value at all when it was ended.
    async fn branch_summary(
        &self,
        to: &Move,
        leaf: Option<&str>,
    ) -> Result<Option<Option<Summary>>, String> {
        let Some(leaf) = leaf else {
            return Ok(Some(None));
        };
        let Some(active) = self.branch_summary.occupy(()) else {
            return Err(BUSY.to_owned());
        };
        let request = BranchSummaryRequest {
            custom_instructions: to.instructions.clone(),
            replace_instructions: to.replace,
            ..self.compacting.branch_request()
        };
        let session = &self.core.session;
        let summary = self
            .compacting
            .compactor
            .summarise_branch(session, leaf, Some(&to.entry_id), &request, &active.abort)
            .await;
        match summary {
            Ok(summary) => Ok(Some(Some((summary.summary, Some(summary.details), None)))),
            Err(BranchSummaryError::Cancelled) => Ok(None),
            Err(BranchSummaryError::NothingToSummarise) => Ok(Some(None)),
            Err(error) => Err(with_causes(&error)),
        }
    }
}

/// What of an entry goes back into the editor.
fn editor_text(entry: &Entry) -> Option<String> {
    match &entry.kind {
        EntryKind::Message(message) => Some(said(message)),
        EntryKind::CustomMessage { content, .. } => Some(content.text()),
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entries {
    entries: Vec<Arc<Entry>>,
    leaf_id: Option<String>,
}

fn entries(session: &Session, since: Option<&str>) -> Result<Executed, String> {
    let ids = |index: &Index| -> Option<Vec<Arc<str>>> {
        let ids = index.iter().map(|node| Arc::clone(&node.id));
        match since {
            None => Some(ids.collect()),
            Some(since) if index.contains(since) => {
                Some(ids.skip_while(|id| &**id != since).skip(1).collect())
            }
            Some(_) => None,
        }
    };
    let ids = session.store().look(ids).flatten();
    let ids = ids.ok_or_else(|| format!("Entry {} not found", since.unwrap_or_default()))?;
    let mut entries = Vec::with_capacity(ids.len());
    for id in ids {
        entries.push(session.entry(&id).map_err(|error| with_causes(&error))?);
    }
    let leaf_id = session.leaf_id();
    Executed::with(&Entries { entries, leaf_id })
}

fn fork_messages(session: &Session) -> Result<Executed, String> {
    let users = |index: &Index| -> Vec<Arc<str>> {
        let user = |node: &&Node| node.kind.is_user();
        let users = index.iter().filter(user);
        users.map(|node| Arc::clone(&node.id)).collect()
    };
    let mut messages = Vec::new();
    for id in session.store().look(users).unwrap_or_default() {
        let entry = session.entry(&id).map_err(|error| with_causes(&error))?;
        if let Some(text) = editor_text(&entry).filter(|text| !text.is_empty()) {
            messages.push(json!({ "entryId": entry.id, "text": text }));
        }
    }
    Executed::with(&json!({ "messages": messages }))
}

/// The entries as trees. A branch may be as deep as the session is long, so the text is made
/// without recursion.
fn tree(session: &Session) -> Result<Executed, String> {
    let shape = |index: &Index| shape(index);
    let steps = session.store().look(shape).unwrap_or_default();
    let mut text = String::from("{\"tree\":[");
    for step in steps {
        match step {
            Step::Open { id, first } => {
                if !first {
                    text.push(',');
                }
                let entry = session.entry(&id).map_err(|error| with_causes(&error))?;
                let line = serde_json::to_string(&*entry).map_err(|error| error.to_string())?;
                text.push_str("{\"entry\":");
                text.push_str(&line);
                text.push_str(",\"children\":[");
            }
            Step::Close { label } => {
                text.push(']');
                if let Some(label) = label {
                    text.push_str(",\"label\":");
                    text.push_str(&json!(label).to_string());
                }
                text.push('}');
            }
        }
    }
    text.push_str("],\"leafId\":");
    text.push_str(&json!(session.leaf_id()).to_string());
    text.push('}');
    let data = RawValue::from_string(text).map_err(|error| error.to_string())?;
    Ok(Executed {
        data: Some(data),
        ..Executed::default()
    })
}

/// A step of a walk through the trees.
enum Step {
    Open { id: Arc<str>, first: bool },
    Close { label: Option<String> },
}

fn shape(index: &Index) -> Vec<Step> {
    let forest = Forest::of(index);
    let mut steps = Vec::new();
    let mut open: Vec<(&Node, bool, bool)> = Vec::new();
    for (at, root) in forest.roots.iter().enumerate().rev() {
        open.push((root, at == 0, false));
    }
    while let Some((node, first, visited)) = open.pop() {
        if visited {
            let label = index.label(&node.id).map(str::to_owned);
            steps.push(Step::Close { label });
            continue;
        }
        let id = Arc::clone(&node.id);
        steps.push(Step::Open { id, first });
        open.push((node, first, true));
        for (at, child) in forest.children(&node.id).iter().enumerate().rev() {
            open.push((child, at == 0, false));
        }
    }
    steps
}
