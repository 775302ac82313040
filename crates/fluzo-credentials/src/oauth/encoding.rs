//! Forms and queries.

use std::fmt::Write;

/// `name=value` pairs as a query or a form.
pub fn encode<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        escape(name, &mut text);
        text.push('=');
        escape(value, &mut text);
    }
    text
}

/// The pairs of a query; what is no UTF-8 is replaced.
pub(crate) fn decode(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (unescape(name), unescape(value))
        })
        .collect()
}

fn escape(text: &str, to: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            to.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(to, "%{byte:02X}");
        }
    }
}

fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                match (digit(high), digit(low)) {
                    (Some(high), Some(low)) => {
                        // Two hexadecimal digits fit into a byte.
                        bytes.push((high * 16 + low) as u8);
                        rest = after;
                    }
                    _ => bytes.push(b'%'),
                }
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let pairs = [("a b", "ü&=+%"), ("c", ""), ("d", "x-._~9")];
        let text = encode(pairs);
        assert_eq!(text, "a%20b=%C3%BC%26%3D%2B%25&c=&d=x-._~9");
        let decoded = decode(&text);
        let decoded: Vec<_> = decoded.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(decoded, pairs);
        let odd = [
            ("a+b=%zz%4", ("a b", "%zz%4")),
            ("%", ("%", "")),
            ("x=%ff", ("x", "\u{fffd}")),
        ];
        for (text, (name, value)) in odd {
            assert_eq!(
                decode(text),
                [(name.to_owned(), value.to_owned())],
                "{text}"
            );
        }
    }
}
