//! The model table, `models.tsv`: read where it is asked for, never at start.

use std::collections::BTreeMap;

use fluzo_llm::model::Prices;
use fluzo_llm::{Extra, InputKind, Model, ThinkingLevel};
use serde_json::Value;

use crate::host::Host;
use crate::hosts::host;

const TABLE: &str = include_str!("models.tsv");

/// A model that is known without configuration.
#[derive(Debug, Clone, Copy)]
pub struct ModelRow {
    /// Who serves it.
    pub host: &'static Host,
    /// Id sent to the host.
    pub id: &'static str,
    /// Name shown to people.
    pub name: &'static str,
    /// Dialect that the host speaks for it.
    pub api: &'static str,
    /// Base URL of the dialect, perhaps with places for variables.
    pub base_url: &'static str,
    /// Whether it can think.
    pub reasoning: bool,
    /// Whether it takes images.
    pub images: bool,
    /// Context window in tokens.
    pub context_window: u64,
    /// Most output tokens of one response.
    pub max_tokens: u64,
    /// Prices in USD per million tokens, when they are published.
    pub prices: Option<Prices>,
    /// Day on which the facts were taken, as `YYYY-MM-DD`.
    pub date: &'static str,
    /// What is uncertain about the facts; mostly empty.
    pub note: &'static str,
    levels: &'static str,
    compat: &'static str,
}

/// All models, those of a host together, the hosts in their own order.
pub fn models() -> impl Iterator<Item = ModelRow> {
    rows(TABLE)
}

/// The models of the host with this id. Reads only their rows.
pub fn models_of(host: &str) -> impl Iterator<Item = ModelRow> {
    rows(section(host))
}

/// The model with this id at the host with this id. Reads only its row.
pub fn model(host: &str, id: &str) -> Option<ModelRow> {
    if [host, id]
        .iter()
        .any(|part| part.is_empty() || part.contains(['\t', '\n']))
    {
        return None;
    }
    let rest = from(&format!("\n{host}\t{id}\t"))?;
    ModelRow::parse(rest.lines().next()?, None)
}

/// The lines of one host.
fn section(host: &str) -> &'static str {
    if host.is_empty() || host.contains(['\t', '\n']) {
        return "";
    }
    let Some(rest) = from(&format!("\n{host}\t")) else {
        return "";
    };
    let of_host = |line: &&str| {
        let after = line.strip_prefix(host);
        after.is_some_and(|after| after.starts_with('\t'))
    };
    let length = rest
        .split_inclusive('\n')
        .take_while(of_host)
        .map(str::len)
        .sum();
    &rest[..length]
}

/// The table from the line on that begins with what stands behind the line end in `beginning`.
fn from(beginning: &str) -> Option<&'static str> {
    let at = memchr::memmem::find(TABLE.as_bytes(), beginning.as_bytes())?;
    TABLE.get(at + 1..)
}

fn rows(text: &'static str) -> impl Iterator<Item = ModelRow> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut last = None;
    lines.filter_map(move |line| {
        let row = ModelRow::parse(line, last)?;
        last = Some(row.host);
        Some(row)
    })
}

impl ModelRow {
    /// Reads a line of the table; `likely` is the host of the line above.
    fn parse(line: &'static str, likely: Option<&'static Host>) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let id = next()?;
        let host = likely.filter(|host| host.id == id).or_else(|| host(id))?;
        let (id, name, api) = (next()?, next()?, next()?);
        let api = if api.is_empty() { host.api() } else { api };
        let row = Self {
            host,
            id,
            name,
            api,
            base_url: host.base_url_for(api)?,
            reasoning: yes_or_no(next()?)?,
            images: inputs(next()?)?,
            context_window: next()?.parse().ok()?,
            max_tokens: next()?.parse().ok()?,
            prices: prices([next()?, next()?, next()?, next()?])?,
            levels: next()?,
            compat: next()?,
            date: next()?,
            note: next()?,
        };
        next().is_none().then_some(row)
    }

    /// The model as requests know it. A price that is not published counts as zero.
    pub fn model(&self) -> Model {
        let input = if self.images {
            vec![InputKind::Text, InputKind::Image]
        } else {
            vec![InputKind::Text]
        };
        Model {
            id: self.id.to_owned(),
            name: self.name.to_owned(),
            api: self.api.to_owned(),
            provider: self.host.id.to_owned(),
            base_url: self.base_url.to_owned(),
            reasoning: self.reasoning,
            input,
            cost: self.prices.unwrap_or_default(),
            context_window: self.context_window,
            max_tokens: self.max_tokens,
            headers: self.host.header_map(),
            thinking_level_map: self.thinking_levels(),
            compat: self.compat_settings(),
        }
    }

    /// Wire names of thinking levels; none marks a level as unsupported.
    fn thinking_levels(&self) -> BTreeMap<ThinkingLevel, Option<String>> {
        let pairs = pairs(self.levels);
        let levels = pairs.filter_map(|(level, wire)| {
            let wire = (!wire.is_empty()).then(|| wire.to_owned());
            Some((ThinkingLevel::parse(level)?, wire))
        });
        levels.collect()
    }

    fn compat_settings(&self) -> Extra {
        let pairs = pairs(self.compat);
        let settings = pairs.map(|(name, value)| {
            let value = match value {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                text => Value::String(text.to_owned()),
            };
            (name.to_owned(), value)
        });
        settings.collect()
    }
}

fn pairs(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    text.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
}

fn yes_or_no(text: &str) -> Option<bool> {
    match text {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// Whether images are among the kinds of input.
fn inputs(text: &str) -> Option<bool> {
    match text {
        "text" => Some(false),
        "text+image" => Some(true),
        _ => None,
    }
}

/// `None` for a price that is no number; the inner `None` for prices that are not published.
fn prices(fields: [&str; 4]) -> Option<Option<Prices>> {
    if fields.iter().all(|field| field.is_empty()) {
        return Some(None);
    }
    let price = |field: &str| {
        if field.is_empty() {
            return Some(0.0);
        }
        field.parse::<f64>().ok().filter(|price| *price >= 0.0)
    };
    Some(Some(Prices {
        input: price(fields[0])?,
        output: price(fields[1])?,
        cache_read: price(fields[2])?,
        cache_write: price(fields[3])?,
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::HOSTS;

    fn lines() -> impl Iterator<Item = &'static str> {
        TABLE.lines().filter(|line| !line.starts_with('#'))
    }

    #[test]
    fn every_row_parses_and_is_the_only_one_of_its_kind() {
        let mut seen = HashSet::new();
        for line in lines() {
            let row = ModelRow::parse(line, None).unwrap_or_else(|| panic!("{line}"));
            assert!(seen.insert((row.host.id, row.id)), "{line}");
            assert!(!row.id.is_empty() && !row.name.is_empty(), "{line}");
            assert!(row.context_window > 0 && row.max_tokens > 0, "{line}");
        }
        assert_eq!(models().count(), lines().count());
        assert!(seen.len() >= 300, "{}", seen.len());
    }

    /// A mark of the table that no code reads would be lost without a word.
    #[test]
    fn levels_and_settings_are_read_whole() {
        for row in models() {
            let marks = row.levels.split(' ').filter(|mark| !mark.is_empty());
            assert_eq!(row.thinking_levels().len(), marks.count(), "{}", row.id);
            assert!(row.levels.is_empty() || row.reasoning, "{}", row.id);
            let marks = row.compat.split(' ').filter(|mark| !mark.is_empty());
            assert_eq!(row.compat_settings().len(), marks.count(), "{}", row.id);
            let model = row.model();
            assert!(
                !row.reasoning || ThinkingLevel::ALL[1..].iter().any(|l| model.supports(*l)),
                "{}: no level of thinking is left",
                row.id
            );
        }
    }

    #[test]
    fn every_row_has_the_date_of_its_facts_and_says_when_prices_are_missing() {
        for row in models() {
            let digits = |range| {
                row.date
                    .get(range)
                    .is_some_and(|d: &str| d.parse::<u16>().is_ok())
            };
            assert!(
                row.date.len() == 10 && digits(0..4) && digits(5..7) && digits(8..10),
                "{}",
                row.id
            );
            assert!(row.prices.is_some() || !row.note.is_empty(), "{}", row.id);
        }
    }

    #[test]
    fn rows_stand_in_the_order_of_their_hosts() {
        let mut hosts: Vec<&str> = models().map(|row| row.host.id).collect();
        hosts.dedup();
        let order = HOSTS.iter().map(|host| host.id);
        let expected: Vec<&str> = order.filter(|id| hosts.contains(id)).collect();
        assert_eq!(hosts, expected);
    }

    #[test]
    fn the_default_model_of_every_host_is_there() {
        for host in HOSTS {
            if let Some(id) = host.default_model {
                let row = model(host.id, id).unwrap_or_else(|| panic!("{}: {id}", host.id));
                assert_eq!((row.host.id, row.id), (host.id, id));
            }
        }
    }

    #[test]
    fn servers_of_ones_own_have_no_models() {
        for host in HOSTS.iter().filter(|host| !host.needs_key) {
            assert_eq!(models_of(host.id).count(), 0, "{}", host.id);
        }
    }

    #[test]
    fn the_models_of_one_host_are_those_of_the_whole_table() {
        for host in HOSTS {
            let alone: Vec<&str> = models_of(host.id).map(|row| row.id).collect();
            let all = models().filter(|row| row.host.id == host.id);
            assert_eq!(
                alone,
                all.map(|row| row.id).collect::<Vec<_>>(),
                "{}",
                host.id
            );
            for id in alone {
                assert_eq!(model(host.id, id).unwrap().id, id);
            }
        }
        for (host, id) in [
            ("nosuch", "x"),
            ("openai", "gpt-"),
            ("", ""),
            ("openai", ""),
            ("open", "gpt-5"),
        ] {
            assert!(model(host, id).is_none(), "{host} {id}");
        }
    }

    #[test]
    fn a_row_becomes_a_model() {
        let opus = model("anthropic", "claude-opus-4-7").unwrap().model();
        assert_eq!(
            (opus.api.as_str(), opus.base_url.as_str()),
            ("anthropic-messages", "https://api.anthropic.com")
        );
        assert!(opus.takes_images() && opus.supports(ThinkingLevel::Xhigh));
        assert_eq!(
            opus.compat.get("forceAdaptiveThinking"),
            Some(&Value::Bool(true))
        );
        assert!((opus.cost.input - 5.0).abs() < 1e-9 && (opus.cost.cache_read - 0.5).abs() < 1e-9);
        let copilot = model("github-copilot", "claude-sonnet-4.6")
            .unwrap()
            .model();
        assert_eq!(copilot.api, "anthropic-messages");
        assert!(copilot.headers.contains_key("Editor-Version"));
        let chat = model("openai", "gpt-5").unwrap().model();
        assert_eq!(chat.api, "openai-responses");
        assert!(!chat.supports(ThinkingLevel::Off));
        let unpriced = model("kimi-coding", "kimi-for-coding").unwrap();
        assert!(unpriced.prices.is_none());
        assert_eq!(unpriced.model().cost, Prices::default());
    }
}
