//! Checks over the repository: layers, owners of side doors, sizes, registers.
//!
//! Each check takes what it judges as values (a layer table, package descriptions, source text) and
//! returns findings, one line each; an empty list means that the rule holds. Reading the repository
//! is separate ([`repo`], [`metadata`]), so that the rules are tested on small made-up inputs and
//! then run once over the real tree. The checks read source text and need no build.

#![allow(
    clippy::disallowed_methods,
    reason = "a repository tool reads the tree and runs cargo"
)]

pub mod documents;
pub mod error;
pub mod layers;
pub mod lexer;
pub mod metadata;
pub mod owned;
pub mod register;
pub mod repo;
pub mod sizes;
pub mod supply;
pub mod syntax;
pub mod table;
pub mod test_index;
pub mod tripwire;

pub use error::Error;

use repo::{Repo, SourceFile};

/// The Rust files that make the product: `crates/CRATE/src/…`.
///
/// # Errors
/// When one cannot be read.
pub fn product_files(repo: &Repo) -> Result<Vec<SourceFile>, Error> {
    let mut files = repo.files("crates", "rs")?;
    files.retain(|f| f.path.split('/').nth(2) == Some("src"));
    Ok(files)
}

/// All Rust files that people maintain: sources, tests, benchmarks and examples of every crate.
/// Fixtures, which are programs for tests to work on, are not among them.
///
/// # Errors
/// When one cannot be read.
pub fn code_files(repo: &Repo) -> Result<Vec<SourceFile>, Error> {
    let mut files = repo.files("crates", "rs")?;
    let ours = ["src", "tests", "benches", "examples"];
    files.retain(|f| {
        f.path
            .split('/')
            .nth(2)
            .is_some_and(|part| ours.contains(&part))
    });
    files.extend(repo.files("xtask", "rs")?);
    Ok(files)
}
