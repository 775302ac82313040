//! Names that were perhaps meant.

/// Those of `names` that are closest to `word`: the fewest letters differ, and not too many,
/// else those that begin with it or it with them.
pub fn close<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let allowed = (word.chars().count() / 3).max(1);
    let measured: Vec<(usize, &str)> = names.map(|name| (distance(name, word), name)).collect();
    let least = measured.iter().map(|(letters, _)| *letters).min();
    let begins = |name: &str| {
        let shorter = word.len().min(name.len());
        shorter > 2 && (name.starts_with(word) || word.starts_with(name))
    };
    let fits = |letters: usize, name: &str| match least {
        Some(least) if least <= allowed => letters == least,
        _ => begins(name),
    };
    let close = measured.into_iter();
    close
        .filter(|(letters, name)| fits(*letters, name))
        .map(|(_, name)| name)
        .collect()
}

/// How many letters must be put in, taken out, changed or swapped with the next to make one
/// word of the other.
fn distance(one: &str, other: &str) -> usize {
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    let mut before = vec![0; other.len() + 1];
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for i in 0..one.len() {
        let mut row = vec![i + 1];
        for j in 0..other.len() {
            let change = above[j] + usize::from(one[i] != other[j]);
            let mut least = change.min(row[j] + 1).min(above[j + 1] + 1);
            if i > 0 && j > 0 && one[i] == other[j - 1] && one[i - 1] == other[j] {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let rows = [
            ("demo", "demo", 0),
            ("demo", "dmeo", 1),
            ("run", "", 3),
            ("", "é", 1),
            ("pi", "ip", 1),
            ("mode", "nope", 2),
        ];
        for (one, other, letters) in rows {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }

    #[test]
    fn close_names() {
        let names = ["model", "mode", "session", "session-dir", "no-tools", "pi"];
        let rows: [(&str, &[&str]); 7] = [
            ("modle", &["model", "mode"]),
            ("nope", &[]),
            ("seesion", &["session"]),
            ("sess", &["session", "session-dir"]),
            ("no-tool", &["no-tools"]),
            ("p", &["pi"]),
            ("", &[]),
        ];
        for (word, close_ones) in rows {
            assert_eq!(close(word, names.into_iter()), close_ones, "{word}");
        }
    }
}
