//! `fluzo pi --list-models`: what can be used, as a table.

use std::path::Path;

use fluzo_host::{ModelRegistry, Usable};
use fluzo_llm::Model;

const HEADINGS: [&str; 6] = [
    "provider", "model", "context", "max-out", "thinking", "images",
];

/// The table of the models of `usable` providers that match `search`, sorted by provider and
/// id; or the line that says why there is none.
pub(crate) fn text(
    models: &ModelRegistry,
    usable: Usable<'_>,
    search: &str,
    models_json: &Path,
) -> String {
    let providers = models.providers().into_iter().filter(|id| usable(id));
    let at_hand: Vec<_> = providers.flat_map(|id| models.models_of(id)).collect();
    if at_hand.is_empty() {
        return format!("{}\n", none(models_json));
    }
    let matching = at_hand.iter().filter(|model| matches(model, search));
    let mut rows: Vec<[String; 6]> = matching.map(|model| row(model)).collect();
    if rows.is_empty() {
        return format!("No models matching \"{search}\"\n");
    }
    rows.sort();
    rows.insert(0, HEADINGS.map(str::to_owned));
    table(&rows)
}

/// What a person reads when no provider can be used.
pub(crate) fn none(models_json: &Path) -> String {
    format!(
        "No models available.\nhint: set the key of a provider, such as `export ANTHROPIC_API_KEY=KEY` or `export OPENAI_API_KEY=KEY`, or name providers in {}; `fluzo help` lists the variables",
        models_json.display()
    )
}

/// Whether the letters of each word of `search` stand in the model's provider and id, in order.
fn matches(model: &Model, search: &str) -> bool {
    let text = format!("{}/{}", model.provider, model.id).to_lowercase();
    let search = search.to_lowercase();
    let in_order = |word: &str| {
        let mut letters = text.chars();
        word.chars()
            .all(|wanted| letters.any(|letter| letter == wanted))
    };
    search.split_whitespace().all(in_order)
}

fn row(model: &Model) -> [String; 6] {
    let yes = |on: bool| if on { "yes" } else { "no" }.to_owned();
    [
        model.provider.clone(),
        model.id.clone(),
        tokens(model.context_window),
        tokens(model.max_tokens),
        yes(model.reasoning),
        yes(model.takes_images()),
    ]
}

fn table(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        cells.join("  ") + "\n"
    };
    rows.iter().map(line).collect()
}

/// `128K`, `4.1K`, `1M`: whole multiples without decimals, else one.
fn tokens(count: u64) -> String {
    let (unit, sign) = match count {
        0..1_000 => return count.to_string(),
        1_000..1_000_000 => (1_000, "K"),
        _ => (1_000_000, "M"),
    };
    if count.is_multiple_of(unit) {
        return format!("{}{sign}", count / unit);
    }
    let tenths = (count * 10 + unit / 2) / unit;
    format!("{}.{}{sign}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let rows = [
            (999, "999"),
            (4096, "4.1K"),
            (128_000, "128K"),
            (1_000_000, "1M"),
            (1_048_576, "1.0M"),
        ];
        for (count, text) in rows {
            assert_eq!(tokens(count), text);
        }
    }

    #[test]
    fn searches() {
        let models = ModelRegistry::new(None);
        let list = |search: &str, keys: &[&str]| {
            text(
                &models,
                &|id| keys.contains(&id),
                search,
                Path::new("/a/models.json"),
            )
        };
        let all = list("", &["groq", "cerebras"]);
        let lines: Vec<&str> = all.lines().collect();
        assert!(lines[0].starts_with("provider  model"), "{all}");
        assert!(
            lines[1].starts_with("cerebras  ") && all.contains("\ngroq      "),
            "{all}"
        );
        // In order, not side by side; each word for itself; in any case.
        for search in [
            "gqoss120",
            "OSS groq",
            "groq/openai/gpt-oss-120b",
            "120 gpt",
        ] {
            assert!(
                list(search, &["groq"]).contains("openai/gpt-oss-120b"),
                "{search}"
            );
        }
        assert_eq!(list("zzzz", &["groq"]), "No models matching \"zzzz\"\n");
        let none = list("gpt", &[]);
        assert!(none.starts_with("No models available.\nhint: "), "{none}");
        assert!(none.contains("/a/models.json"), "{none}");
    }
}
