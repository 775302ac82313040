//! The first results in path order, collected from several threads in any order.
//!
//! Once enough results are in hand, the path of the last one that is needed becomes a cutoff: whatever lies beyond it cannot
//! matter and need not be looked at. What is kept at the end is the same whatever the threads' timing was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Collects values by path until the paths in front hold `limit` results.
#[derive(Debug)]
pub(crate) struct FirstInOrder<T> {
    limit: usize,
    full: AtomicBool,
    kept: RwLock<Kept<T>>,
}

#[derive(Debug)]
struct Kept<T> {
    values: BTreeMap<PathBuf, (usize, T)>,
    count: usize,
}

impl<T> FirstInOrder<T> {
    pub(crate) fn new(limit: usize) -> Self {
        let kept = Kept {
            values: BTreeMap::new(),
            count: 0,
        };
        Self {
            limit: limit.max(1),
            full: AtomicBool::new(false),
            kept: RwLock::new(kept),
        }
    }

    /// Whether results at `path`, or anywhere below it, may still be needed.
    pub(crate) fn wants(&self, path: &Path) -> bool {
        if !self.full.load(Ordering::Acquire) {
            return true;
        }
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        // A directory sorts before all that is in it, so one beyond the cutoff has nothing before it.
        kept.values
            .last_key_value()
            .is_none_or(|(last, _)| path < last.as_path())
    }

    /// Takes the `count` results that `path` holds.
    pub(crate) fn add(&self, path: PathBuf, count: usize, value: T) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.count += count;
        kept.values.insert(path, (count, value));
        while let Some(last) = kept.values.last_entry() {
            let without = last.get().0;
            if kept.count - without < self.limit {
                break;
            }
            kept.values.pop_last();
            kept.count -= without;
        }
        if kept.count >= self.limit {
            self.full.store(true, Ordering::Release);
        }
    }

    /// All values in order, and whether they hold at least `limit` results. The last value may hold more than is needed.
    pub(crate) fn finish(self) -> (Vec<(PathBuf, T)>, bool) {
        let kept = self
            .kept
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let full = kept.count >= self.limit;
        (
            kept.values
                .into_iter()
                .map(|(path, (_, value))| (path, value))
                .collect(),
            full,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds in the given order and in reverse: the outcome must be the same.
    fn check(limit: usize, found: &[(&str, usize)], expected: &[&str], full: bool) {
        for reversed in [false, true] {
            let mut found = found.to_vec();
            if reversed {
                found.reverse();
            }
            let first = FirstInOrder::new(limit);
            for (path, count) in &found {
                if first.wants(Path::new(path)) {
                    first.add(PathBuf::from(path), *count, ());
                }
            }
            let (values, is_full) = first.finish();
            let paths: Vec<_> = values
                .iter()
                .map(|(path, ())| path.to_str().unwrap_or("?"))
                .collect();
            assert_eq!((paths.as_slice(), is_full), (expected, full), "{found:?}");
        }
    }

    #[test]
    fn keeps_the_first_whatever_the_order_of_arrival() {
        check(3, &[("a", 1), ("b", 1)], &["a", "b"], false);
        check(2, &[("c", 1), ("a", 1), ("b", 1)], &["a", "b"], true);
        check(
            3,
            &[("c", 9), ("a", 2), ("b", 2), ("d", 1)],
            &["a", "b"],
            true,
        );
        check(0, &[("b", 1), ("a", 1)], &["a"], true);
        check(1, &[("a/z", 1), ("a.b", 1), ("a/b/c", 1)], &["a/b/c"], true);
    }

    #[test]
    fn prunes_directories_beyond_the_cutoff_only() {
        let first = FirstInOrder::new(1);
        assert!(first.wants(Path::new("z")));
        first.add(PathBuf::from("m/n/o"), 1, ());
        let check =
            |path: &str, wanted: bool| assert_eq!(first.wants(Path::new(path)), wanted, "{path}");
        check("m", true);
        check("m/n", true);
        check("m/n/a", true);
        check("a", true);
        check("m/n/o", false);
        check("m/o", false);
        check("z", false);
    }
}
