//! Summaries of branches that are left.

use std::sync::Arc;

use fluzo_agent::Halt;
use fluzo_agent::compaction::{
    BRANCH_PREAMBLE, BranchItem, BranchSelection, BranchWords, CompactionSettings, FileOperations,
    branch_prompt, branch_summary_cap, parts_of, summary_thinking,
};
use fluzo_llm::{AbortSignal, Message, Model, StreamError, ThinkingLevel, Usage};
use fluzo_session::context::{compaction_summary, context_message};
use fluzo_session::{Entry, EntryKind, Session, StoreError, tree};
use serde_json::Value;

use crate::compact::Compactor;
use crate::summary::{AskError, Asked};

/// What a window is taken for that is not known.
const USUAL_WINDOW: u64 = 128_000;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct BranchSummaryRequest {
    /// The model that summarises.
    pub model: Arc<Model>,
    /// How much the session thinks.
    pub thinking: ThinkingLevel,
    /// What is kept free in the window of the model.
    pub reserve_tokens: u64,
    /// What the summary should look at in particular.
    pub custom_instructions: Option<String>,
    /// Whether those instructions take the place of the usual words.
    pub replace_instructions: bool,
    /// Id of the session, for servers that cache by it.
    pub session_id: Option<String>,
}

/// What is summarised of a branch.
#[derive(Debug, Clone, Default)]
pub struct BranchPreparation {
    /// The messages, oldest first.
    pub messages: Vec<Arc<Message>>,
    /// Their estimated tokens.
    pub tokens: u64,
    /// Files that they read and changed.
    pub file_operations: FileOperations,
}

/// The summary of a branch, not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchSummary {
    /// The summary, lists of files included.
    pub summary: String,
    /// Facts about it.
    pub details: Value,
    /// Tokens and cost of making it.
    pub usage: Usage,
}

/// Why there is none. Nothing was stored and the leaf stands where it stood.
#[derive(Debug, thiserror::Error)]
pub enum BranchSummaryError {
    /// Nothing was said on the branch.
    #[error("No content to summarize")]
    NothingToSummarise,
    /// Somebody stopped it.
    #[error("Branch summary cancelled")]
    Cancelled,
    /// The model gave none.
    #[error("Summarization failed: {0}")]
    Failed(StreamError),
    /// The session could not be read.
    #[error("the session could not be read")]
    Store(#[from] StoreError),
    /// What became of the request could not be recorded, or its owner stopped it.
    #[error(transparent)]
    Halted(#[from] Halt),
}

/// Decides what is summarised of the branch from `from_leaf` back to where it parts from
/// `target`. Reads the newest entries only, as far as they fit.
///
/// # Errors
///
/// When nothing was said there, or the session cannot be read.
pub fn prepare_branch(
    session: &Session,
    from_leaf: &str,
    target: Option<&str>,
    request: &BranchSummaryRequest,
) -> Result<BranchPreparation, BranchSummaryError> {
    let ids: Vec<Arc<str>> = session
        .store()
        .look(|index| {
            let left = tree::abandoned(index, from_leaf, target);
            left.iter().map(|node| Arc::clone(&node.id)).collect()
        })
        .unwrap_or_default();
    let mut selection = BranchSelection::within(request.budget());
    let mut files = FileOperations::default();
    for id in ids.iter().rev() {
        let entry = match session.entry(id) {
            Err(StoreError::Unreadable { .. }) => continue,
            entry => entry?,
        };
        let Some(item) = branch_item(&entry) else {
            continue;
        };
        add_files(&mut files, &entry);
        if !selection.offer(&item) {
            break;
        }
    }
    let (messages, tokens) = selection.finish();
    if messages.is_empty() {
        return Err(BranchSummaryError::NothingToSummarise);
    }
    Ok(BranchPreparation {
        messages,
        tokens,
        file_operations: files,
    })
}

impl BranchSummaryRequest {
    /// Tokens that the summarised messages may have.
    fn budget(&self) -> u64 {
        let window = match self.model.context_window {
            0 => USUAL_WINDOW,
            window => window,
        };
        let settings = CompactionSettings {
            reserve_tokens: self.reserve_tokens,
            ..CompactionSettings::default()
        };
        settings.limit_in(window).unwrap_or(window)
    }

    fn words(&self) -> BranchWords<'_> {
        let instructions = self.custom_instructions.as_deref().map(str::trim);
        match instructions.filter(|text| !text.is_empty()) {
            None => BranchWords::Usual,
            Some(own) if self.replace_instructions => BranchWords::Own(own),
            Some(focus) => BranchWords::Focus(focus),
        }
    }
}

impl Compactor {
    /// Summarises the branch from `from_leaf` back to where it parts from `target` (none: all
    /// of it). Stores nothing and moves no leaf; dropping the future ends it.
    ///
    /// # Errors
    ///
    /// There is nothing to summarise, or no summary came.
    pub async fn summarise_branch(
        &self,
        session: &Session,
        from_leaf: &str,
        target: Option<&str>,
        request: &BranchSummaryRequest,
        abort: &AbortSignal,
    ) -> Result<BranchSummary, BranchSummaryError> {
        let prepared = prepare_branch(session, from_leaf, target, request)?;
        let parts = parts_of(&prepared.messages);
        if parts.is_empty() {
            return Err(BranchSummaryError::NothingToSummarise);
        }
        let cap = branch_summary_cap(&request.model);
        let words = |text: &str| branch_prompt(text, request.words());
        let asked = Asked {
            model: &request.model,
            thinking: summary_thinking(&request.model, request.thinking, cap),
            cap,
            session_id: request.session_id.as_deref(),
            parts,
            words: &words,
        };
        let answer = self.asker().ask(asked, abort).await.map_err(refused)?;
        if abort.is_cancelled() {
            return Err(BranchSummaryError::Cancelled);
        }
        Ok(BranchSummary {
            summary: format!(
                "{BRANCH_PREAMBLE}{}{}",
                answer.text,
                prepared.file_operations.tags()
            ),
            details: prepared.file_operations.details(),
            usage: answer.usage,
        })
    }
}

fn branch_item(entry: &Entry) -> Option<BranchItem> {
    let is_summary = matches!(
        entry.kind,
        EntryKind::BranchSummary { .. } | EntryKind::Compaction(_)
    );
    let message = compaction_summary(entry).or_else(|| context_message(entry))?;
    Some(BranchItem {
        message,
        is_summary,
    })
}

/// Adds what the calls of a message, or the details of a summary that no hook made, name.
fn add_files(files: &mut FileOperations, entry: &Entry) {
    match &entry.kind {
        EntryKind::Message(message) => files.add_message(message),
        EntryKind::BranchSummary {
            details: Some(details),
            from_hook,
            ..
        } if *from_hook != Some(true) => files.add_details(details),
        EntryKind::Compaction(compaction) if compaction.from_hook != Some(true) => {
            if let Some(details) = &compaction.details {
                files.add_details(details);
            }
        }
        _ => {}
    }
}

fn refused(error: AskError) -> BranchSummaryError {
    match error {
        AskError::Cancelled => BranchSummaryError::Cancelled,
        AskError::Halted(halt) => BranchSummaryError::Halted(halt),
        AskError::Failed(error) => BranchSummaryError::Failed(error),
    }
}
