//! What the program means by its exit codes and reads from its surroundings. Help, man page
//! and tests derive from these tables.

use fluzo_catalogue::HOSTS;

use crate::variables::VARIABLES;

/// A name and what it stands for.
type Row = (&'static str, &'static str);

/// Exit codes, in ascending order.
pub(crate) const EXIT_STATUS: &[Row] = &[
    ("0", "done"),
    ("1", "failed: an option, file, model or answer"),
    (
        "2",
        "wrong use of `fluzo`, or not available in this version",
    ),
    ("3", "demo: the scenario or a program it needs is missing"),
    ("5", "demo: permission denied"),
    ("6", "demo: budget exhausted"),
    ("8", "demo: the provider failed"),
    ("9", "demo: the result was not verified"),
    ("129", "ended by SIGHUP"),
    ("130", "interrupted"),
    ("143", "ended by SIGTERM"),
];

/// Files of `fluzo pi`.
pub(crate) const FILES: &[Row] = &[
    ("~/.pi/agent/settings.json", "settings"),
    ("~/.pi/agent/models.json", "further models and providers"),
    ("~/.pi/agent/auth.json", "keys and sign-ins"),
    (
        "~/.pi/agent/sessions/",
        "sessions, a folder for each working folder",
    ),
    ("~/.pi/agent/npm/, git/", "installed packages"),
    (
        "~/.pi/agent/AGENTS.md, SYSTEM.md, APPEND_SYSTEM.md",
        "parts of the system prompt, as in a project",
    ),
    (
        "~/.pi/agent/skills/, prompts/, themes/",
        "skills (also ~/.agents/skills), prompt templates, themes",
    ),
    (
        "~/.pi/agent/trust.json",
        "which projects are trusted; trust-content.json: with what in them",
    ),
    (
        "AGENTS.override.md, AGENTS.md, CLAUDE.md",
        "instructions of this folder and those above, always read",
    ),
    (
        ".pi/, .agents/skills/",
        "settings.json and all else that a project brings, read when it is trusted",
    ),
];

/// All tables with their headings; the variables of providers come from their table.
pub(crate) fn sections() -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let owned = |rows: &[Row]| rows.iter().map(|(n, m)| (*n, (*m).to_owned())).collect();
    let variables = VARIABLES.iter();
    let mut environment: Vec<_> = variables.map(|v| (v.names, v.meaning())).collect();
    environment.extend(provider_variables());
    vec![
        ("Exit status", owned(EXIT_STATUS)),
        ("Files", owned(FILES)),
        ("Environment", environment),
    ]
}

/// What providers read from the environment.
fn provider_variables() -> Vec<(&'static str, String)> {
    let mut rows: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for host in HOSTS {
        let keys = host.keys.iter().map(|name| (*name, "key for"));
        let urls = host
            .url_variables()
            .into_iter()
            .chain(host.base_url_variable);
        let query = host
            .query_variable
            .map(|(name, _)| (name, "API version of"));
        let names = host.deployments_variable.map(|name| {
            let meaning = "names of deployments (MODEL=NAME, divided by commas) at";
            (name, meaning)
        });
        let all = keys.chain(urls.map(|name| (name, "endpoint of")));
        let all = all.chain(query).chain(names);
        for (name, meaning) in all {
            match rows.iter_mut().find(|row| row.0 == name) {
                Some(row) => row.2.push(host.id),
                None => rows.push((name, meaning, vec![host.id])),
            }
        }
    }
    let text = |meaning, hosts: Vec<&str>| format!("{meaning} {}", hosts.join(", "));
    rows.into_iter()
        .map(|(name, meaning, hosts)| (name, text(meaning, hosts)))
        .collect()
}

/// The tables as text.
pub(crate) fn text() -> String {
    let sections = sections();
    let rows = sections.iter().flat_map(|(_, rows)| rows);
    let width = rows.map(|(name, _)| name.len()).max().unwrap_or_default();
    let section = |(title, rows): &(&str, Vec<(&str, String)>)| {
        let lines = rows
            .iter()
            .map(|(name, meaning)| format!("\n  {name:width$}  {meaning}"));
        format!("{title}:{}", lines.collect::<String>())
    };
    sections
        .iter()
        .map(section)
        .collect::<Vec<_>>()
        .join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_codes_ascend() {
        let codes: Vec<u8> = EXIT_STATUS
            .iter()
            .map(|(c, _)| c.parse().unwrap())
            .collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        let mut names = std::collections::HashSet::new();
        for (name, _) in sections().into_iter().flat_map(|(_, rows)| rows) {
            assert!(names.insert(name), "{name}");
        }
        assert!(names.contains("OPENAI_API_KEY") && names.contains("AWS_REGION"));
    }
}
