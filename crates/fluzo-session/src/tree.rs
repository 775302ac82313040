//! The shape of a session: paths, branches, roots, and where navigation leads.
//!
//! Pure functions over the [`Index`]. Every walk ends, also when parents form a cycle.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::store::StoreError;
use crate::{Index, Node, NodeKind};

/// All entries as trees.
#[derive(Debug, Default)]
pub struct Forest<'a> {
    /// Entries without a known parent, in the order they were written. Of a cycle the
    /// entry that was written first is a root.
    pub roots: Vec<&'a Node>,
    children: HashMap<&'a str, Vec<&'a Node>>,
}

/// Where navigation to an entry leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The new leaf; none stands before the first entry.
    pub leaf: Option<Arc<str>>,
    /// Whether the text of the chosen entry goes back into the editor.
    pub edit: bool,
}

impl<'a> Forest<'a> {
    /// The trees that the entries of `index` form.
    pub fn of(index: &'a Index) -> Self {
        let mut forest = Self::default();
        let mut reached = HashSet::new();
        for node in index.iter() {
            match known_parent(index, node) {
                Some(parent) => forest.children.entry(&parent.id).or_default().push(node),
                None => forest.roots.push(node),
            }
        }
        for root in forest.roots.clone() {
            forest.reach(root, &mut reached);
        }
        forest.root_cycles(index, &mut reached);
        forest
    }

    /// The entries that follow `id` directly, in the order they were written.
    pub fn children(&self, id: &str) -> &[&'a Node] {
        self.children.get(id).map_or(&[], Vec::as_slice)
    }

    fn reach(&self, from: &'a Node, reached: &mut HashSet<&'a str>) {
        let mut open = vec![from];
        while let Some(node) = open.pop() {
            if reached.insert(&node.id) {
                open.extend(self.children(&node.id));
            }
        }
    }

    /// Makes the first entry of each cycle a root and cuts the link that led back to it.
    fn root_cycles(&mut self, index: &'a Index, reached: &mut HashSet<&'a str>) {
        for node in index.iter() {
            if reached.contains(&*node.id) {
                continue;
            }
            let first = cycle_of(index, node);
            if let Some(siblings) = first
                .parent
                .as_deref()
                .and_then(|p| self.children.get_mut(p))
            {
                siblings.retain(|child| child.id != first.id);
            }
            self.roots.push(first);
            self.reach(first, reached);
        }
    }
}

/// The entries from the root to `leaf`. Empty when there is no such entry. An unknown
/// parent ends the walk, a cycle does so where it closes.
pub fn path<'a>(index: &'a Index, leaf: &str) -> Vec<&'a Node> {
    let mut path = ancestors(index, leaf);
    path.reverse();
    path
}

/// The entries from `leaf` to the root.
pub fn ancestors<'a>(index: &'a Index, leaf: &str) -> Vec<&'a Node> {
    up(index, leaf).collect()
}

/// The entries from `leaf` to the root, one by one.
pub fn up<'a>(index: &'a Index, leaf: &str) -> Up<'a> {
    let seen = (!index.is_regular()).then(HashSet::new);
    Up {
        index,
        next: index.position(leaf),
        seen,
    }
}

/// A walk towards the root.
#[derive(Debug)]
pub struct Up<'a> {
    index: &'a Index,
    next: Option<usize>,
    /// Positions that were passed, where parents may form a cycle.
    seen: Option<HashSet<usize>>,
}

impl<'a> Iterator for Up<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next.take()?;
        if self.seen.as_mut().is_some_and(|seen| !seen.insert(at)) {
            return None;
        }
        self.next = self.index.parent_position(at);
        self.index.raw().get(at)
    }
}

/// The last entry that the paths to `a` and `b` share.
pub fn common_ancestor<'a>(index: &'a Index, a: &str, b: &str) -> Option<&'a Node> {
    let of_a: HashSet<&str> = ancestors(index, a)
        .into_iter()
        .map(|node| &*node.id)
        .collect();
    ancestors(index, b)
        .into_iter()
        .find(|node| of_a.contains(&*node.id))
}

/// The entries that are left behind when the leaf moves from `from` to `to`: those after
/// their common ancestor, oldest first.
pub fn abandoned<'a>(index: &'a Index, from: &str, to: Option<&str>) -> Vec<&'a Node> {
    let kept = to
        .and_then(|to| common_ancestor(index, to, from))
        .map(|node| &*node.id);
    let mut left: Vec<&Node> = ancestors(index, from);
    if let Some(at) = left.iter().position(|node| Some(&*node.id) == kept) {
        left.truncate(at);
    }
    left.reverse();
    left
}

/// Where choosing `id` in the tree leads: before a message that a person or an
/// extension wrote, whose text can then be changed, and onto anything else.
///
/// # Errors
///
/// When there is no such entry.
pub fn navigation_target(index: &Index, id: &str) -> Result<Target, StoreError> {
    let node = index
        .get(id)
        .ok_or_else(|| StoreError::EntryNotFound { id: id.to_owned() })?;
    if node.kind.is_user() || node.kind == NodeKind::CustomMessage {
        let leaf = known_parent(index, node).map(|parent| Arc::clone(&parent.id));
        return Ok(Target { leaf, edit: true });
    }
    Ok(Target {
        leaf: Some(Arc::clone(&node.id)),
        edit: false,
    })
}

/// The parent, when there is one and it is known.
pub fn known_parent<'a>(index: &'a Index, node: &Node) -> Option<&'a Node> {
    node.parent.as_deref().and_then(|parent| index.get(parent))
}

/// The entry of the cycle above `node` that was written first.
fn cycle_of<'a>(index: &'a Index, node: &'a Node) -> &'a Node {
    let above = ancestors(index, &node.id);
    let closes = above.last().and_then(|last| known_parent(index, last));
    let Some(start) = closes.and_then(|c| above.iter().position(|n| n.id == c.id)) else {
        return node;
    };
    let cycle = above.get(start..).unwrap_or_default();
    cycle
        .iter()
        .copied()
        .min_by_key(|n| index.position(&n.id))
        .unwrap_or(node)
}
