//! Random trees, the same over both stores.

use std::collections::HashMap;
use std::sync::Arc;

use fluzo_llm::Message;
use fluzo_llm::message::UserContent;
use fluzo_session::conformance::Factory;
use fluzo_session::{
    Compaction, Entry, EntryKind, Index, NodeKind, SessionStore, context, fork, tree,
};
use proptest::prelude::*;

use crate::support::{Files, Memory, assistant, entry, header, random_ids, text};

/// One entry: which kind, which parent, which other entry it names.
type Choice = (u8, Option<prop::sample::Index>, prop::sample::Index);

fn kind(number: u8, at: usize, other: String) -> EntryKind {
    let name = format!("n{at}");
    match number {
        0..=4 => EntryKind::Message(text(&name)),
        5..=7 => EntryKind::Message(assistant(&name)),
        8 => EntryKind::ThinkingLevelChange { level: name },
        9 => EntryKind::ModelChange {
            provider: "x".to_owned(),
            model_id: name,
        },
        10 => EntryKind::Compaction(Compaction {
            summary: name,
            first_kept_entry_id: other,
            ..Compaction::default()
        }),
        11 => EntryKind::BranchSummary {
            from_id: other,
            summary: name,
            details: None,
            from_hook: None,
        },
        12 => EntryKind::Custom {
            custom_type: name,
            data: None,
        },
        13 => EntryKind::CustomMessage {
            custom_type: name,
            content: UserContent::Text("c".to_owned()),
            display: false,
            details: None,
        },
        14 => EntryKind::Label {
            target_id: other,
            label: Some(name),
        },
        15 => EntryKind::SessionInfo { name },
        _ => EntryKind::Unknown {
            type_name: "later".to_owned(),
        },
    }
}

fn entries(choices: &[Choice]) -> Vec<Entry> {
    // Ids of entries that are not there, itself and later ones make orphans and cycles.
    let id = |index: &prop::sample::Index| format!("e{}", index.index(choices.len() + 2));
    let of = |(at, (number, parent, other)): (usize, &Choice)| {
        let parent = parent.as_ref().map(id);
        entry(
            &format!("e{at}"),
            parent.as_deref(),
            kind(*number, at, id(other)),
        )
    };
    choices.iter().enumerate().map(of).collect()
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let parent = prop::option::weighted(0.9, any::<prop::sample::Index>());
    prop::collection::vec((0u8..18, parent, any::<prop::sample::Index>()), 1..40)
}

fn nodes(store: &dyn SessionStore) -> Vec<(String, Option<String>, NodeKind)> {
    let of = |index: &Index| {
        let own = |node: &fluzo_session::Node| {
            (
                node.id.to_string(),
                node.parent.as_deref().map(str::to_owned),
                node.kind.clone(),
            )
        };
        index.iter().map(own).collect()
    };
    store.look(of).unwrap()
}

fn same_everywhere(one: &Arc<dyn SessionStore>, two: &Arc<dyn SessionStore>) {
    assert_eq!(nodes(&**one), nodes(&**two));
    for (id, ..) in nodes(&**one) {
        let contexts = [one, two].map(|store| context::build(&**store, Some(&id)).unwrap());
        assert_eq!(contexts[0], contexts[1]);
    }
}

/// The parent of each entry that has one. Where the named one is not there, or is the entry
/// itself, it is the nearest entry before it whose way to the root is known and leads
/// backwards only, the same for all that name the same parent.
fn joined(entries: &[Entry]) -> HashMap<&str, &str> {
    let mut parents: HashMap<&str, &str> = HashMap::new();
    let mut targets: HashMap<&str, &str> = HashMap::new();
    let place = |id: &str| entries.iter().position(|entry| entry.id == id);
    for (at, entry) in entries.iter().enumerate() {
        let Some(named) = entry.parent_id.as_deref() else {
            continue;
        };
        if place(named).is_some_and(|parent| parent != at) {
            parents.insert(&entry.id, named);
            continue;
        }
        let is_grounded = |from: &&Entry| {
            let mut now = &*from.id;
            while let Some(next) = parents.get(now) {
                if place(next) >= place(now) {
                    return false;
                }
                now = next;
            }
            true
        };
        let nearest = entries[..at].iter().rev().find(is_grounded);
        let target = targets
            .get(named)
            .copied()
            .or(nearest.map(|entry| &*entry.id));
        if let Some(target) = target {
            targets.insert(named, target);
            parents.insert(&entry.id, target);
        }
    }
    parents
}

/// The context as the requirement text tells it, step by step: roles with the summary or
/// text of each message, the level, the model.
fn as_told(entries: &[Entry], leaf: &str) -> (Vec<String>, String, Option<String>) {
    let by_id: HashMap<&str, &Entry> = entries.iter().map(|entry| (&*entry.id, entry)).collect();
    let parents = joined(entries);
    let mut path: Vec<&Entry> = Vec::new();
    let mut next = by_id.get(leaf);
    while let Some(entry) = next.filter(|entry| path.iter().all(|old| old.id != entry.id)) {
        path.insert(0, entry);
        next = parents.get(&*entry.id).and_then(|parent| by_id.get(parent));
    }
    let (mut level, mut model, mut compacted) = ("off".to_owned(), None, None);
    for (at, entry) in path.iter().enumerate() {
        match &entry.kind {
            EntryKind::ThinkingLevelChange { level: new } => level.clone_from(new),
            EntryKind::ModelChange { provider, model_id } => {
                model = Some(format!("{provider}/{model_id}"));
            }
            EntryKind::Message(message) => {
                if let Some(assistant) = message.as_assistant() {
                    model = Some(format!("{}/{}", assistant.provider, assistant.model));
                }
            }
            EntryKind::Compaction(_) => compacted = Some(at),
            _ => {}
        }
    }
    let mut told = Vec::new();
    let mut tell = |entry: &Entry| match &entry.kind {
        EntryKind::Message(message) => told.push(message.role().to_owned()),
        EntryKind::CustomMessage { custom_type, .. } => told.push(custom_type.clone()),
        EntryKind::BranchSummary { summary, .. } => told.push(summary.clone()),
        EntryKind::Compaction(compaction) => told.push(compaction.summary.clone()),
        _ => {}
    };
    let is_compaction = |entry: &&&Entry| matches!(entry.kind, EntryKind::Compaction(_));
    if let Some(at) = compacted {
        tell(path[at]);
        let EntryKind::Compaction(compaction) = &path[at].kind else {
            panic!("compaction")
        };
        let first = path[..at]
            .iter()
            .position(|e| e.id == compaction.first_kept_entry_id);
        let kept = first.map_or(&[][..], |first| &path[first..at]);
        kept.iter()
            .filter(|entry| !is_compaction(entry))
            .for_each(|entry| tell(entry));
    }
    path[compacted.map_or(0, |at| at + 1)..]
        .iter()
        .for_each(|entry| tell(entry));
    (told, level, model)
}

fn as_built(store: &dyn SessionStore, leaf: &str) -> (Vec<String>, String, Option<String>) {
    let context = context::build(store, Some(leaf)).unwrap();
    let of = |message: &Arc<Message>| match &**message {
        Message::Custom(custom) => custom.custom_type.clone(),
        Message::BranchSummary(branch) => branch.summary.clone(),
        Message::CompactionSummary(compaction) => compaction.summary.clone(),
        other => other.role().to_owned(),
    };
    let told = context.messages.iter().map(of).collect();
    (
        told,
        context.thinking_level,
        context
            .model
            .map(|(provider, id)| format!("{provider}/{id}")),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn both_stores_give_the_same_contexts(choices in choices()) {
        let entries = entries(&choices);
        let memory = Memory.create(header(), entries.clone());
        let files = Files::new();
        let mut all = vec![crate::support::user("first", None, "first")];
        all.extend(entries);
        let file = files.reopen(files.create(header(), all.clone()));
        same_everywhere(&Memory.create(header(), all), &file);
        // Every entry is reached from exactly one root.
        let reached = memory.look(|index| {
            let forest = tree::Forest::of(index);
            let mut open = forest.roots.clone();
            let mut count = 0;
            while let Some(node) = open.pop() {
                count += 1;
                open.extend(forest.children(&node.id));
            }
            (count, index.len())
        });
        let (reached, len) = reached.unwrap();
        prop_assert_eq!(reached, len);
    }

    #[test]
    fn a_context_is_what_the_text_tells(choices in choices()) {
        let entries = entries(&choices);
        let store = Memory.create(header(), entries.clone());
        for entry in &entries {
            prop_assert_eq!(as_built(&*store, &entry.id), as_told(&entries, &entry.id));
        }
    }

    #[test]
    fn a_fork_has_the_context_of_its_source(choices in choices()) {
        let source = Memory.create(header(), entries(&choices));
        for (id, ..) in nodes(&*source) {
            let entries = fork::branch_entries(&*source, &id, &*random_ids()).unwrap();
            let last = entries.last().map(|entry| entry.id.clone());
            let forked = Memory.create(header(), entries);
            let want = context::build(&*source, Some(&id)).unwrap();
            prop_assert_eq!(context::build(&*forked, last.as_deref()).unwrap(), want);
        }
    }

    #[test]
    fn any_bytes_open_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let text = [crate::support::HEADER.as_bytes(), b"\n", &bytes].concat();
        std::fs::write(&path, &text).unwrap();
        let session = crate::support::session(&path);
        session.append_message(crate::support::text("more"), 0).unwrap();
        prop_assert_eq!(crate::support::texts(&session).pop().unwrap(), "more");
        drop(session);
        let again = crate::support::session(&path);
        prop_assert_eq!(crate::support::texts(&again).pop().unwrap(), "more");
    }
}
