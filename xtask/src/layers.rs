//! Which crate may know which: `cargo metadata` against the layer table.

use crate::metadata::{Dependency, Package};
use crate::table::{Rule, Table};
use std::collections::BTreeSet;

/// Crates that any crate may use in its tests, unless its rule says otherwise.
const TEST_CRATES: [&str; 2] = ["fluzo-testkit", "fluzo-sim"];

/// Everything in the declared dependencies that the table does not allow.
pub fn check(table: &Table, packages: &[Package]) -> Vec<String> {
    let mut findings = check_names(table, packages);
    for package in packages {
        let Some(rule) = table.crates.get(&package.name) else {
            continue;
        };
        for dependency in &package.dependencies {
            let arrow = Arrow {
                table,
                from: &package.name,
                rule,
                dependency,
            };
            findings.extend(arrow.check());
        }
    }
    findings
}

/// The table and the workspace name the same crates, and the rules are complete.
fn check_names(table: &Table, packages: &[Package]) -> Vec<String> {
    let names: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut findings = Vec::new();
    for name in &names {
        if !table.crates.contains_key(*name) {
            findings.push(format!("`{name}` has no rule in layers.toml"));
        }
    }
    for (name, rule) in &table.crates {
        if !names.contains(name.as_str()) {
            findings.push(format!(
                "layers.toml has a rule for `{name}`, which is no crate of the workspace"
            ));
        }
        if rule.level.is_none() && rule.knows.is_none() {
            findings.push(format!("the rule of `{name}` needs `level` or `knows`"));
        }
    }
    findings
}

/// One declared dependency under judgement.
struct Arrow<'a> {
    table: &'a Table,
    from: &'a str,
    rule: &'a Rule,
    dependency: &'a Dependency,
}

impl Arrow<'_> {
    fn check(&self) -> Vec<String> {
        match self.table.crates.get(&self.dependency.name) {
            Some(to) if self.dependency.is_dev() => self.check_dev(to),
            Some(to) => self.check_ours(to),
            None if self.dependency.is_dev() => Vec::new(),
            None => self.check_foreign(),
        }
    }

    fn finding(&self, why: &str) -> String {
        format!(
            "`{}` must not know `{}`: {why}",
            self.from, self.dependency.name
        )
    }

    fn check_ours(&self, to: &Rule) -> Vec<String> {
        let name = &self.dependency.name;
        let mut findings = Vec::new();
        if self
            .rule
            .knows
            .as_ref()
            .is_some_and(|known| !known.contains(name))
        {
            findings.push(self.finding("it is not in its `knows`"));
        }
        if to
            .known_by
            .as_ref()
            .is_some_and(|by| !by.iter().any(|b| b == self.from))
        {
            findings.push(self.finding("it is not in the other's `known_by`"));
        }
        if let (Some(from), Some(level)) = (self.rule.level, to.level) {
            let beside = from == level && self.rule.beside.contains(name);
            if level >= from && !beside {
                findings.push(self.finding(&format!("level {level} is not below level {from}")));
            }
        }
        if to.level.is_none() && to.known_by.is_none() {
            findings.push(self.finding("it is a side crate that names nobody in `known_by`"));
        }
        findings
    }

    fn check_dev(&self, to: &Rule) -> Vec<String> {
        let name = self.dependency.name.as_str();
        let allowed = match &self.rule.dev {
            Some(dev) => dev.iter().any(|d| d == name),
            None if TEST_CRATES.contains(&name) => true,
            None => match (self.rule.level, to.level) {
                (Some(from), Some(to)) => to <= from,
                (None, Some(_)) => self
                    .rule
                    .knows
                    .as_ref()
                    .is_some_and(|k| k.iter().any(|k| k == name)),
                (_, None) => false,
            },
        };
        if allowed {
            Vec::new()
        } else {
            vec![self.finding("not even in its tests")]
        }
    }

    fn check_foreign(&self) -> Vec<String> {
        let name = self.dependency.name.as_str();
        let mut findings = Vec::new();
        if self
            .rule
            .external
            .as_ref()
            .is_some_and(|e| !e.iter().any(|e| e == name))
        {
            findings.push(self.finding("it is not in its `external`"));
        }
        for forbidden in &self.rule.forbids {
            if self.table.expand(forbidden).contains(&name) {
                findings.push(self.finding(&format!("it forbids `{forbidden}`")));
            }
        }
        findings.extend(self.check_features());
        findings
    }

    fn check_features(&self) -> Option<String> {
        let allowed = self.rule.features.get(&self.dependency.name)?;
        let default = self.dependency.uses_default_features.then_some("default");
        let declared = self
            .dependency
            .features
            .iter()
            .map(String::as_str)
            .chain(default);
        let extra: Vec<&str> = declared
            .filter(|f| !allowed.iter().any(|a| a == f))
            .collect();
        (!extra.is_empty()).then(|| {
            let (from, name) = (self.from, &self.dependency.name);
            format!(
                "`{from}` must not use these features of `{name}`: {}",
                extra.join(", ")
            )
        })
    }
}
