//! `cargo xtask`: the checks over the repository, from the command line.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers: it reads its arguments and prints"
)]

use std::path::Path;
use std::process::ExitCode;
use xtask::repo::{Repo, SourceFile};
use xtask::table::Table;
use xtask::test_index::TestIndex;
use xtask::tripwire::Tripwire;
use xtask::{Error, documents, layers, metadata, owned, register, sizes, supply};

const HELP: &str = "usage: cargo xtask COMMAND

  check             every check below; prints what it finds and fails
  layers            which crate knows which, and who owns which side door
  sizes [--check]   lines per crate, long files and functions
  supply            banned crates and foreign sources in Cargo.lock
  register          write docs/conformance.tsv from docs/conformance.d/
  documents         tests that the register, README and other pages name
  test-command      the test command of README.md
  tripwire LOG PORT_FILE   listen on loopback and log every connection";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&Repo::here(), &words) {
        Ok(findings) if findings.is_empty() => ExitCode::SUCCESS,
        Ok(findings) => {
            for finding in findings {
                println!("{finding}");
            }
            ExitCode::from(1)
        }
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(cause) = std::error::Error::source(&error) {
                eprintln!("  {cause}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(repo: &Repo, words: &[&str]) -> Result<Vec<String>, Error> {
    match words {
        ["check"] => Ok([
            check_supply(repo)?,
            check_layers(repo)?,
            check_sizes(repo)?,
            check_documents(repo)?,
        ]
        .concat()),
        ["layers"] => check_layers(repo),
        ["sizes"] => {
            print!("{}", sizes::measure(&sources(repo)?).report());
            Ok(Vec::new())
        }
        ["sizes", "--check"] => check_sizes(repo),
        ["register"] => {
            println!("{} rows in {}", register::write(repo)?, register::MERGED);
            Ok(Vec::new())
        }
        ["supply"] => check_supply(repo),
        ["documents"] => check_documents(repo),
        ["test-command"] => {
            let readme = repo.read(documents::README)?;
            let found = documents::test_command(&readme);
            println!("{}", found.ok_or_else(missing_command)?);
            Ok(Vec::new())
        }
        ["tripwire", log, port] => {
            let log = Path::new(log);
            let tripwire = Tripwire::bind(log, Path::new(port))?;
            tripwire.run().map_err(|e| Error::io(log, e))?;
            Ok(Vec::new())
        }
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(Vec::new())
        }
        other => Err(Error::Usage(other.join(" "))),
    }
}

fn missing_command() -> Error {
    let reason = format!("no code block after `{}`", documents::TEST_COMMAND);
    Error::format(documents::README, reason)
}

fn sources(repo: &Repo) -> Result<Vec<SourceFile>, Error> {
    xtask::code_files(repo)
}

fn check_layers(repo: &Repo) -> Result<Vec<String>, Error> {
    let table = Table::read(repo)?;
    let mut findings = layers::check(&table, &metadata::packages(repo)?);
    findings.extend(owned::check(&table, &xtask::product_files(repo)?));
    Ok(findings)
}

fn check_supply(repo: &Repo) -> Result<Vec<String>, Error> {
    supply::check(&repo.read(supply::LOCK)?, &repo.read(supply::RULES)?)
}

fn check_sizes(repo: &Repo) -> Result<Vec<String>, Error> {
    Ok(sizes::measure(&sources(repo)?).check(&Table::read(repo)?))
}

fn check_documents(repo: &Repo) -> Result<Vec<String>, Error> {
    let index = TestIndex::read(repo, &metadata::packages(repo)?)?;
    let rows = register::read(repo)?;
    let known = register::known_ids(repo)?;
    if known.is_none() {
        println!("the requirement texts are absent: ids are not checked");
    }
    let mut findings = register::check(&rows, &index, known.as_ref());
    findings.extend(register::check_merged(repo, &rows)?);
    for page in documents::pages(repo)? {
        findings.extend(documents::check_mentions(&page, &index));
    }
    let readme = repo.read_if_exists(documents::README)?.unwrap_or_default();
    findings.extend(documents::check_table(&readme, &index));
    findings.extend(documents::check_intended(
        &repo.read(documents::INTENDED)?,
        &index,
    ));
    Ok(findings)
}
