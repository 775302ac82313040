//! Arguments of a prompt template: splitting them, and putting them into its text.

/// Splits at white space outside quotes. `'…'` and `"…"` group and are left out; there are no escapes. A quote that is not
/// closed runs to the end; nothing between quotes is no argument.
pub fn split_arguments(text: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current = String::new();
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => current.push(c),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() => {
                if !current.is_empty() {
                    arguments.push(std::mem::take(&mut current));
                }
            }
            None => current.push(c),
        }
    }
    if !current.is_empty() {
        arguments.push(current);
    }
    arguments
}

/// Puts `arguments` into `text`, once: what an argument says is never looked at again.
///
/// | in the text | becomes |
/// | --- | --- |
/// | `$1`, `$2`, … | that argument, nothing when it is missing; `$0` is nothing |
/// | `${1:-default}` | that argument, or the default when it is missing or empty |
/// | `$@`, `$ARGUMENTS` | all arguments, joined by spaces |
/// | `${@:N}`, `${@:N:L}` | arguments from the N-th on, at most L of them; 0 counts as 1 |
pub fn substitute(text: &str, arguments: &[String]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match place(after) {
            Some((place, length)) => {
                place.fill(arguments, &mut out);
                &after[length..]
            }
            None => {
                out.push('$');
                after
            }
        };
    }
    out.push_str(rest);
    out
}

/// What stands after a `$`.
enum Place<'a> {
    One(usize),
    OneOr(usize, &'a str),
    All,
    From { first: usize, count: usize },
}

impl Place<'_> {
    fn fill(&self, arguments: &[String], out: &mut String) {
        let one = |number: usize| number.checked_sub(1).and_then(|at| arguments.get(at));
        match *self {
            Self::One(number) => out.push_str(one(number).map_or("", String::as_str)),
            Self::OneOr(number, default) => {
                let given = one(number).filter(|text| !text.is_empty());
                out.push_str(given.map_or(default, String::as_str));
            }
            Self::All => out.push_str(&arguments.join(" ")),
            Self::From { first, count } => {
                let from = first.saturating_sub(1).min(arguments.len());
                let end = from.saturating_add(count).min(arguments.len());
                out.push_str(&arguments[from..end].join(" "));
            }
        }
    }
}

/// The place that `text` begins with, and its length.
fn place(text: &str) -> Option<(Place<'_>, usize)> {
    if text.starts_with('@') {
        return Some((Place::All, 1));
    }
    if text.starts_with("ARGUMENTS") {
        return Some((Place::All, "ARGUMENTS".len()));
    }
    if let Some((number, length)) = number(text) {
        return Some((Place::One(number), length));
    }
    let inside = text.strip_prefix('{')?;
    let end = inside.find('}')?;
    let (inside, length) = (&inside[..end], end + 2);
    if let Some(slice) = inside.strip_prefix("@:") {
        let (first, count) = slice.split_once(':').unwrap_or((slice, ""));
        let all = slice.len() == first.len();
        let count = if all { usize::MAX } else { whole(count)? };
        let first = whole(first)?;
        return Some((Place::From { first, count }, length));
    }
    let (position, default) = inside.split_once(":-")?;
    Some((Place::OneOr(whole(position)?, default), length))
}

/// The number that `text` is.
fn whole(text: &str) -> Option<usize> {
    let (number, length) = number(text)?;
    (length == text.len()).then_some(number)
}

/// The number that `text` begins with, and its length; one that is too large is beyond every argument.
fn number(text: &str) -> Option<(usize, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| (text[..digits].parse().unwrap_or(usize::MAX), digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(split_arguments(text), expected, "{text}");
        };
        check("", &[]);
        check("  a\tb\nc ", &["a", "b", "c"]);
        check("'a b' \"c d\"", &["a b", "c d"]);
        check("x'a b'y", &["xa by"]);
        check("'it\"s' \"it's\"", &["it\"s", "it's"]);
        check("\"open to the end", &["open to the end"]);
        check("'' a", &["a"]);
        check(r"a\ b \n", &["a\\", "b", "\\n"]);
    }

    #[test]
    fn substituting() {
        let check = |text: &str, arguments: &[&str], expected: &str| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            assert_eq!(
                substitute(text, &arguments),
                expected,
                "{text} {arguments:?}"
            );
        };
        let abc = &["a", "b", "c"];
        check("plain", abc, "plain");
        check("$1-$2-$3-$4.", abc, "a-b-c-.");
        check("$0|$10|$12x", abc, "||x");
        check("$@ = $ARGUMENTS", abc, "a b c = a b c");
        check("${@:2}", abc, "b c");
        check("${@:0}", abc, "a b c");
        check("${@:2:1}|${@:1:2}|${@:9}|${@:1:0}", abc, "b|a b||");
        check("${@:2:99999999999999999999999}", abc, "b c");
        check("$99999999999999999999999.", abc, ".");
        check("${1:-x} ${4:-x y} ${5:-}", abc, "a x y ");
        check("${1:-$2}", &[""], "$2");
        check("$ $$ ${ ${x} ${1} $x", abc, "$ $$ ${ ${x} ${1} $x");
        check(
            "${@} ${@:} ${@:x} ${@:1:}",
            abc,
            "${@} ${@:} ${@:x} ${@:1:}",
        );
        check("$$1", abc, "$a");
        check("é$1é", &["ü"], "éüé");
    }

    #[test]
    fn an_argument_is_never_looked_at_again() {
        for argument in ["$@", "$ARGUMENTS", "$1", "${@:1}", "${1:-x}"] {
            let arguments = vec![argument.to_owned()];
            for place in ["$1", "$@", "$ARGUMENTS", "${@:1}", "${1:-d}"] {
                assert_eq!(substitute(place, &arguments), argument, "{place}");
            }
        }
    }
}
