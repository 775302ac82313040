//! JSON objects that are changed in place: what is not changed keeps its order and is
//! written as it was read, byte for byte within a value.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object whose values are kept as they were written.
#[derive(Clone, Default)]
pub struct RawObject(Vec<(String, Box<RawValue>)>);

/// Why bytes are no object. Says nothing of their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// They are not JSON.
    Syntax {
        /// Line, from one.
        line: usize,
        /// Column, from one.
        column: usize,
    },
    /// They are JSON of another kind.
    NoObject,
    /// They are no text.
    NoText,
}

/// What leads to a value and is no object itself: its name, with those above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAnObject(pub String);

impl RawObject {
    /// Reads the bytes of a file. One that is empty or blank is an object without entries.
    ///
    /// # Errors
    ///
    /// When they are anything else but a JSON object.
    pub fn parse(bytes: &[u8]) -> Result<Self, Broken> {
        let text = std::str::from_utf8(bytes).map_err(|_| Broken::NoText)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let whole: &RawValue = serde_json::from_str(text).map_err(|e| Broken::Syntax {
            line: e.line(),
            column: e.column(),
        })?;
        serde_json::from_str(whole.get()).map_err(|_| Broken::NoObject)
    }

    /// Names in the order of the text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of `name`; the last one counts, as for JSON parsers in general.
    pub fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().rev().find(|(n, _)| n == name);
        found.map(|(_, value)| &**value)
    }

    /// The value of `name` when it is text.
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// The value of `name` as JSON.
    pub fn value(&self, name: &str) -> Option<Value> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Puts a value in the place of the one that is there, else at the end.
    pub fn put(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().rev().find(|(n, _)| n == name) {
            Some((_, place)) => *place = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Takes out the entries of this name; whether there were any.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|(n, _)| n != name);
        self.0.len() < before
    }

    /// Sets what `path` leads to, a name for each level, and makes the objects on the way.
    /// Nothing is changed when one of the values on the way is no object.
    ///
    /// # Errors
    ///
    /// What leads there and is no object.
    pub fn set_at(&mut self, path: &[&str], value: &Value) -> Result<(), NotAnObject> {
        self.change_at(path, 2, &mut |object, name, indent| {
            object.put(name, written(value, indent));
        })
    }

    /// Takes out what `path` leads to, and objects on the way that are empty then.
    ///
    /// # Errors
    ///
    /// What leads there and is no object.
    pub fn remove_at(&mut self, path: &[&str]) -> Result<(), NotAnObject> {
        self.change_at(path, 2, &mut |object, name, _| {
            object.remove(name);
        })
    }

    /// The object as text with two spaces for each level, its first line after `indent` spaces.
    pub fn to_text(&self, indent: usize) -> String {
        if self.0.is_empty() {
            return "{}".to_owned();
        }
        let space = " ".repeat(indent + 2);
        let line = |(name, value): &(String, Box<RawValue>)| {
            format!("{space}{}: {}", Value::from(name.as_str()), value.get())
        };
        let lines: Vec<String> = self.0.iter().map(line).collect();
        format!("{{\n{}\n{}}}", lines.join(",\n"), " ".repeat(indent))
    }

    fn change_at(
        &mut self,
        path: &[&str],
        indent: usize,
        change: &mut dyn FnMut(&mut Self, &str, usize),
    ) -> Result<(), NotAnObject> {
        let (name, rest) = match path {
            [] => return Ok(()),
            [name] => {
                change(self, name, indent);
                return Ok(());
            }
            [name, rest @ ..] => (*name, rest),
        };
        let mut below: Self = match self.get(name).map(RawValue::get) {
            None | Some("null") => Self::default(),
            Some(text) => serde_json::from_str(text).map_err(|_| NotAnObject(name.to_owned()))?,
        };
        below
            .change_at(rest, indent + 2, change)
            .map_err(|found| NotAnObject(format!("{name}.{}", found.0)))?;
        if below.is_empty() {
            self.remove(name);
        } else {
            self.put(name, raw(&below.to_text(indent)));
        }
        Ok(())
    }
}

/// A value as text with two spaces for each level, inside of an object at `indent`.
fn written(value: &Value, indent: usize) -> Box<RawValue> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    raw(&text.replace('\n', &format!("\n{}", " ".repeat(indent))))
}

/// `text` is JSON that was made here; `null` stands in should it ever not be.
pub fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

// The values may be secrets.
impl fmt::Debug for RawObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry::<String, Box<RawValue>>()? {
                    fields.push(field);
                }
                Ok(RawObject(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FILE: &str = r#"{"z": 1.50, "retry": {"maxRetries": 3, "x": [1,  2]},
        "big": 123456789012345678901234567890, "s": "\u00e9", "n": null}"#;

    fn object() -> RawObject {
        RawObject::parse(FILE.as_bytes()).unwrap()
    }

    #[test]
    fn only_what_is_set_is_written_anew() {
        let mut object = object();
        object.set_at(&["retry", "maxRetries"], &json!(5)).unwrap();
        object
            .set_at(&["n", "deep", "er"], &json!({"a": [1]}))
            .unwrap();
        object.set_at(&["new"], &json!(["a\nb"])).unwrap();
        assert_eq!(
            object.to_text(0),
            r#"{
  "z": 1.50,
  "retry": {
    "maxRetries": 5,
    "x": [1,  2]
  },
  "big": 123456789012345678901234567890,
  "s": "\u00e9",
  "n": {
    "deep": {
      "er": {
        "a": [
          1
        ]
      }
    }
  },
  "new": [
    "a\nb"
  ]
}"#
        );
    }

    #[test]
    fn what_is_taken_out_leaves_no_empty_object() {
        let mut object =
            RawObject::parse(br#"{"a": {"b": {"c": 1}}, "d": {"e": 1, "f": 2}}"#).unwrap();
        object.remove_at(&["a", "b", "c"]).unwrap();
        object.remove_at(&["d", "e"]).unwrap();
        object.remove_at(&["g", "h"]).unwrap();
        assert_eq!(object.to_text(0), "{\n  \"d\": {\n    \"f\": 2\n  }\n}");
    }

    #[test]
    fn what_is_no_object_is_named_and_nothing_changes() {
        let mut object = object();
        let before = object.to_text(0);
        for (path, named) in [
            (["z", "a"].as_slice(), "z"),
            (&["retry", "x", "y"], "retry.x"),
        ] {
            let refused = object.set_at(path, &json!(1)).unwrap_err();
            assert_eq!(refused, NotAnObject(named.to_owned()));
        }
        assert_eq!(object.to_text(0), before);
        assert!(!format!("{object:?}").contains("1.5"));
        assert_eq!(RawObject::parse(b"[1]").unwrap_err(), Broken::NoObject);
        assert_eq!(
            RawObject::parse(b"{\n x").unwrap_err(),
            Broken::Syntax { line: 2, column: 2 }
        );
    }
}
