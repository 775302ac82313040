//! Reading a body as JSON, as strict as a careful server could be.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::http::Incoming;
use crate::verdict::{Violation, ViolationKind};

/// Reads the body, or says why it is not acceptable JSON.
pub(crate) fn parse_body(request: &Incoming) -> Result<Value, Violation> {
    let bad = |what: String| Err(Violation::new(ViolationKind::BodyNotJson, what));
    let media = request
        .header("content-type")
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    if !media.eq_ignore_ascii_case("application/json") {
        return bad(format!("`content-type` is `{media}`, not application/json"));
    }
    let body: Value = match serde_json::from_slice(&request.raw) {
        Ok(body @ Value::Object(_)) => body,
        Ok(_) => return bad("the body is JSON, but no object".to_owned()),
        Err(error) => return bad(format!("the body is not JSON: {error}")),
    };
    // The text is known to be JSON here, so that the only error left is a repeated key.
    match serde_json::from_slice::<UniqueKeys>(&request.raw) {
        Ok(_) => Ok(body),
        Err(error) => Err(Violation::new(
            ViolationKind::DuplicateKey,
            error.to_string(),
        )),
    }
}

/// Any JSON value in which no object names a key twice.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> DeserializeSeed<'de> for UniqueVisitor {
    type Value = UniqueKeys;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<UniqueKeys, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueKeys, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Self)?;
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key `{key}` occurs twice in one object"
                )));
            }
            seen.insert(key);
        }
        Ok(UniqueKeys)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<UniqueKeys, A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(UniqueKeys)
    }

    fn visit_bool<E>(self, _: bool) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_i64<E>(self, _: i64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_u64<E>(self, _: u64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_f64<E>(self, _: f64) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_str<E>(self, _: &str) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }

    fn visit_unit<E>(self) -> Result<UniqueKeys, E> {
        Ok(UniqueKeys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_body(content_type: &str, raw: &str, expected: Option<ViolationKind>) {
        let headers = vec![("content-type".to_owned(), content_type.to_owned())];
        let request = Incoming {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            headers,
            raw: raw.as_bytes().to_vec(),
        };
        assert_eq!(
            parse_body(&request).err().map(|violation| violation.kind),
            expected,
            "{content_type} {raw}"
        );
    }

    #[test]
    fn bodies_are_json_objects_without_repeated_keys() {
        use ViolationKind::{BodyNotJson, DuplicateKey};
        check_body(
            "application/json",
            r#"{"a":1,"b":[{"a":null},{"a":1.5}]}"#,
            None,
        );
        check_body("Application/JSON; charset=utf-8", "{}", None);
        check_body("text/plain", "{}", Some(BodyNotJson));
        check_body("application/json", "[]", Some(BodyNotJson));
        check_body("application/json", "{", Some(BodyNotJson));
        check_body("application/json", "", Some(BodyNotJson));
        check_body(
            "application/json",
            r#"{"stream":true,"stream":false}"#,
            Some(DuplicateKey),
        );
        check_body(
            "application/json",
            r#"{"a":[{"b":{"c":1,"c":1}}]}"#,
            Some(DuplicateKey),
        );
    }
}
