//! The tree of a session as nested lists: what stands where on the page.
//!
//! A path is one list, however long; what leaves it is a list inside, right behind the
//! entry where it does. So only branches of branches nest.

use std::collections::HashSet;
use std::sync::Arc;

use fluzo_session::tree::{Forest, path};
use fluzo_session::{Index, Node, NodeKind, Role};

/// One thing on the page, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// An entry.
    Entry(Place),
    /// A branch begins.
    Open {
        /// Its first message of the user, else its first entry.
        first: Arc<str>,
        /// Its number of entries, branches inside included.
        entries: usize,
        /// Number of the entry that it leaves; none at the root.
        after: Option<usize>,
        /// It is not nested any deeper, but stands in the list where it would hang.
        flat: bool,
    },
    /// The branch that was opened last ends.
    Close {
        /// As it was opened.
        flat: bool,
    },
}

/// An entry on the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its id.
    pub(crate) id: Arc<str>,
    /// Its number in the order entries were written, which makes its anchor.
    pub(crate) number: usize,
    /// What it is, as far as the page's order needs it.
    pub(crate) kind: Kind,
}

/// Kinds of entries that are told apart without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    User,
    Assistant,
    ToolResult,
    Compaction,
    Other,
}

/// Browsers flatten what is nested much deeper.
const DEPTH: usize = 24;

/// Where everything stands. The outermost list is the path to `leaf` and nothing else.
pub(crate) fn steps(index: &Index, leaf: Option<&str>) -> Vec<Step> {
    let on_path: HashSet<&str> = leaf
        .map(|leaf| path(index, leaf))
        .unwrap_or_default()
        .into_iter()
        .map(|node| &*node.id)
        .collect();
    let forest = Forest::of(index);
    let mut walk = Walk {
        index,
        forest: &forest,
        on_path,
        steps: Vec::with_capacity(index.len()),
        open: Vec::new(),
        seen: HashSet::new(),
    };
    walk.run();
    walk.steps
}

struct Walk<'a> {
    index: &'a Index,
    forest: &'a Forest<'a>,
    on_path: HashSet<&'a str>,
    steps: Vec<Step>,
    /// Positions of the branches that are open.
    open: Vec<usize>,
    seen: HashSet<&'a str>,
}

enum Task<'a> {
    /// A list goes on with this entry.
    Chain(&'a Node, usize),
    /// A branch with this first entry, behind the entry of this number.
    Branch(&'a Node, usize, Option<usize>),
    Close,
}

impl<'a> Walk<'a> {
    fn run(&mut self) {
        let mut tasks = Vec::new();
        let roots = self.forest.roots.clone();
        self.fork(&mut tasks, &roots, 0, None);
        while let Some(task) = tasks.pop() {
            match task {
                Task::Chain(node, depth) => self.chain(&mut tasks, node, depth),
                Task::Branch(first, depth, after) => {
                    self.open.push(self.steps.len());
                    self.steps.push(Step::Open {
                        first: Arc::clone(&first.id),
                        entries: 0,
                        after,
                        flat: depth > DEPTH,
                    });
                    tasks.push(Task::Close);
                    tasks.push(Task::Chain(first, depth));
                }
                Task::Close => self.close(),
            }
        }
    }

    fn chain(&mut self, tasks: &mut Vec<Task<'a>>, from: &'a Node, depth: usize) {
        let mut node = from;
        loop {
            if !self.seen.insert(&node.id) {
                return;
            }
            let number = self.index.position(&node.id).unwrap_or_default();
            self.steps.push(Step::Entry(Place {
                id: Arc::clone(&node.id),
                number,
                kind: Kind::of(node),
            }));
            match self.forest.children(&node.id) {
                [] => return,
                // On the path only what is on it goes on; elsewhere an only child does.
                [only] if depth > 0 || self.on_path.contains(&*only.id) => node = only,
                children => return self.fork(tasks, children, depth, Some(number)),
            }
        }
    }

    /// Goes on with one of `nodes` and hangs the others in as branches.
    fn fork(
        &self,
        tasks: &mut Vec<Task<'a>>,
        nodes: &[&'a Node],
        depth: usize,
        after: Option<usize>,
    ) {
        let on_path = nodes
            .iter()
            .copied()
            .find(|node| self.on_path.contains(&*node.id));
        // Within a branch the latest is taken for what was gone on with.
        let next = on_path.or_else(|| nodes.last().copied().filter(|_| depth > 0));
        tasks.extend(next.map(|node| Task::Chain(node, depth)));
        for node in nodes.iter().rev() {
            if next.is_none_or(|next| next.id != node.id) {
                tasks.push(Task::Branch(node, depth + 1, after));
            }
        }
    }

    fn close(&mut self) {
        let Some(at) = self.open.pop() else {
            return;
        };
        let inside = self.steps.get(at..).unwrap_or_default();
        let places = || {
            inside.iter().filter_map(|step| match step {
                Step::Entry(place) => Some(place),
                _ => None,
            })
        };
        let count = places().count();
        let user = places().find(|place| place.kind == Kind::User);
        let user = user.map(|place| Arc::clone(&place.id));
        if let Some(Step::Open {
            entries,
            flat,
            first,
            ..
        }) = self.steps.get_mut(at)
        {
            *entries = count;
            if let Some(user) = user {
                *first = user;
            }
            let flat = *flat;
            self.steps.push(Step::Close { flat });
        }
    }
}

impl Kind {
    fn of(node: &Node) -> Self {
        match node.kind {
            NodeKind::Message(Role::User) => Self::User,
            NodeKind::Message(Role::Assistant) => Self::Assistant,
            NodeKind::Message(Role::ToolResult) => Self::ToolResult,
            NodeKind::Compaction(_) => Self::Compaction,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use fluzo_session::{Entry, EntryKind, Header, MemoryStore, SessionStore};

    use super::*;

    /// The steps over entries given as `id<parent`, as a text: `[` and `]` for branches.
    fn shape(entries: &[(&str, Option<&str>)], leaf: Option<&str>) -> String {
        let entry = |(id, parent): &(&str, Option<&str>)| {
            let kind = EntryKind::SessionInfo {
                name: String::new(),
            };
            Entry::new(*id, parent.map(str::to_owned), "", kind)
        };
        let entries = entries.iter().map(entry).collect();
        let store = MemoryStore::with_entries(Header::new("s", "", ""), entries);
        let store: &dyn SessionStore = &store;
        let steps = store.look(|index| steps(index, leaf)).unwrap();
        let text = |step: &Step| match step {
            Step::Entry(place) => place.id.to_string(),
            Step::Open { entries, flat, .. } => {
                format!("{}{entries}:", if *flat { "{" } else { "[" })
            }
            Step::Close { flat } => if *flat { "}" } else { "]" }.to_owned(),
        };
        steps.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn branches_hang_where_they_leave() {
        let tree = [
            ("a", None),
            ("b", Some("a")),
            ("c", Some("b")),
            ("d", Some("b")),
            ("e", Some("d")),
            ("f", Some("a")),
            ("g", Some("c")),
        ];
        let rows = [
            (Some("g"), "a [1: f ] b [2: d e ] c g"),
            (Some("e"), "a [1: f ] b [2: c g ] d e"),
            // What follows the leaf is on no path.
            (Some("b"), "a [1: f ] b [2: c g ] [2: d e ]"),
            (Some("f"), "a [5: b [2: c g ] d e ] f"),
            (None, "[7: a [5: b [2: c g ] d e ] f ]"),
            (Some("none"), "[7: a [5: b [2: c g ] d e ] f ]"),
        ];
        for (leaf, want) in rows {
            assert_eq!(shape(&tree, leaf), want, "{leaf:?}");
        }
        assert_eq!(shape(&[("a", None), ("b", None)], Some("b")), "[1: a ] b");
        assert_eq!(shape(&[], None), "");
    }

    #[test]
    fn branches_of_branches_end_somewhere() {
        // Each odd entry has two children, the earlier of which is the longer.
        let names: Vec<String> = (0..2_000).map(|n| format!("n{n}")).collect();
        let mut tree = vec![("n0", None)];
        for pair in 0..names.len() / 2 - 1 {
            let parent = names[pair * 2].as_str();
            tree.push((&names[pair * 2 + 2], Some(parent)));
            tree.push((&names[pair * 2 + 1], Some(parent)));
        }
        let shape = shape(&tree, None);
        let mut depth = 0_i32;
        let mut deepest = 0;
        for c in shape.chars() {
            depth += i32::from(c == '[') - i32::from(c == ']');
            deepest = deepest.max(depth);
        }
        assert_eq!(depth, 0);
        assert!(deepest <= 24, "{deepest}");
        assert!(shape.contains('{'));
        assert_eq!(shape.matches('n').count(), tree.len());
    }

    #[test]
    fn a_cycle_is_shown_once() {
        assert_eq!(
            shape(&[("a", Some("b")), ("b", Some("a"))], Some("b"))
                .matches('a')
                .count(),
            1
        );
    }
}
