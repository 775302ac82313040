//! The table of hosts in `docs/providers.md`.

use std::fmt::Write;

use fluzo_catalogue::{HOSTS, Host};

const BEGIN: &str = "<!-- hosts: written from crates/fluzo-catalogue/src/hosts.rs -->\n";
const END: &str = "<!-- end of hosts -->\n";

fn table() -> String {
    let mut out = String::from(
        "| id | name | dialects and base URLs | key from | default model | note |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    HOSTS.iter().for_each(|host| row(&mut out, host));
    out
}

fn row(out: &mut String, host: &Host) {
    let endpoint = |(api, url): &(&str, &str)| format!("`{api}` {}", code(url));
    let endpoints: Vec<String> = host.endpoints.iter().map(endpoint).collect();
    let mut keys: Vec<String> = host.keys.iter().map(|key| code(key)).collect();
    if !host.needs_key {
        keys.push("none needed".to_owned());
    }
    let mut notes: Vec<String> = host.note.map(str::to_owned).into_iter().collect();
    if let Some(variable) = host.base_url_variable {
        notes.push(format!("{} may hold the base URL", code(variable)));
    }
    let model = host.default_model.map(code).unwrap_or_default();
    if let Some((variable, name)) = host.query_variable {
        notes.push(format!("{} gives {}", code(variable), code(name)));
    }
    if let Some(variable) = host.deployments_variable {
        notes.push(format!(
            "{} names deployments: `MODEL=NAME`, divided by commas",
            code(variable)
        ));
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {model} | {} |",
        code(host.id),
        host.name,
        endpoints.join("<br>"),
        keys.join(", "),
        notes.join("; ")
    );
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

/// When the rows have changed, the new page is written beside the test's other files and the
/// failure says where.
#[test]
fn the_page_shows_the_rows() {
    let written = include_str!("../../../../../docs/providers.md");
    let (before, rest) = written.split_once(BEGIN).unwrap();
    let (shown, after) = rest.split_once(END).unwrap();
    let table = table();
    if shown != table {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/providers.md");
        std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        panic!("docs/providers.md is not what the rows say; copy {path} there");
    }
}
