//! Paths by their text alone: no file is looked at.

use std::path::{Component, Path, PathBuf};

/// `path` without `.` and `..`. A `..` takes the part before it away, whatever a link there
/// leads to, and nothing at the root.
pub fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_go_with_what_they_take_away() {
        let rows = [
            ("/a/./b/../c", "/a/c"),
            ("/../a", "/a"),
            ("a/../../b", "b"),
            ("/a/b/", "/a/b"),
            ("/", "/"),
        ];
        for (path, expected) in rows {
            assert_eq!(plain(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
