//! Where foreign crates come from and which are banned: the lock file against `deny.toml`.
//!
//! `cargo deny` checks more (licences, advisories) but is a program of its own; this much holds in
//! every test run.

use crate::Error;
use serde::Deserialize;
use std::collections::BTreeSet;

/// The lock file, relative to the root.
pub const LOCK: &str = "Cargo.lock";
/// The rules, relative to the root.
pub const RULES: &str = "deny.toml";

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Rules {
    bans: Bans,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Banned>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
}

/// Banned crates in the lock file, and crates from anywhere but one registry.
///
/// # Errors
/// When one of the texts is not what its name says.
pub fn check(lock: &str, rules: &str) -> Result<Vec<String>, Error> {
    let lock: Lock = toml::from_str(lock).map_err(|e| Error::format(LOCK, e))?;
    let rules: Rules = toml::from_str(rules).map_err(|e| Error::format(RULES, e))?;
    let mut findings = Vec::new();
    let mut registries = BTreeSet::new();
    for package in &lock.package {
        if rules.bans.deny.iter().any(|b| b.name == package.name) {
            findings.push(format!("`{}` is banned by {RULES}", package.name));
        }
        match &package.source {
            Some(source) if source.starts_with("registry+") => {
                registries.insert(source);
            }
            Some(source) => findings.push(format!("`{}` comes from `{source}`", package.name)),
            None => {}
        }
    }
    if registries.len() > 1 {
        findings.push(format!("{LOCK} names {} registries", registries.len()));
    }
    Ok(findings)
}
