//! Keys that nobody knows: they are kept, and the user is asked about those that were
//! perhaps meant otherwise.

use fluzo_stdx::similar;
use serde_json::Value;

use crate::legacy::OLD_KEYS;
use crate::registry::SettingDef;

/// Keys of `layer` that are not in `registry` and are close to one that is, each with the
/// closest ones.
pub(crate) fn slips(registry: &[SettingDef], layer: &Value) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    below(registry, layer, "", &mut found);
    found
}

fn below(
    registry: &[SettingDef],
    layer: &Value,
    prefix: &str,
    found: &mut Vec<(String, Vec<String>)>,
) {
    let Some(object) = layer.as_object() else {
        return;
    };
    let names: Vec<&str> = names(registry, prefix);
    for (name, value) in object {
        let key = format!("{prefix}{name}");
        if names.contains(&name.as_str()) {
            if registry.iter().all(|def| def.key != key) {
                below(registry, value, &format!("{key}."), found);
            }
        } else if !(prefix.is_empty() && OLD_KEYS.contains(&name.as_str())) {
            let close: Vec<String> = close(name, &names)
                .into_iter()
                .filter(|close| !object.contains_key(*close))
                .map(|close| format!("{prefix}{close}"))
                .collect();
            if !close.is_empty() {
                found.push((key, close));
            }
        }
    }
}

/// Names at the level of `prefix`, each once.
fn names<'a>(registry: &'a [SettingDef], prefix: &str) -> Vec<&'a str> {
    let here = registry.iter().filter_map(|def| {
        let rest = def.key.strip_prefix(prefix)?;
        rest.split('.').next()
    });
    let mut names: Vec<&str> = here.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Names that differ from `word` in case or in few letters only.
fn close<'a>(word: &str, names: &[&'a str]) -> Vec<&'a str> {
    let length = word.chars().count();
    let alike = |name: &&str| name.chars().count().abs_diff(length) <= (length / 3).max(1);
    let same = |name: &&str| name.eq_ignore_ascii_case(word);
    if let Some(name) = names.iter().copied().find(same) {
        return vec![name];
    }
    let close = similar::close(word, names.iter().copied());
    close.into_iter().filter(alike).collect()
}
