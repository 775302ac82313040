//! The YAML between two `---` lines at the beginning of a markdown file.
//!
//! Only scalars directly below the root are kept. Deeper values are passed over as events and aliases are never expanded, so
//! neither nesting nor references to references cost more than their own text.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

/// Longest frontmatter that is parsed, in bytes.
const LIMIT: usize = 64 * 1024;

/// Fields of the frontmatter, and the text after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontmatter {
    fields: Vec<(String, Value)>,
    body: String,
}

/// Why frontmatter cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontmatterError {
    /// It is no YAML.
    #[error("the frontmatter is not valid YAML: {text} at line {line} column {column}")]
    Invalid {
        /// What the parser says.
        text: String,
        /// Line in the file, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// A field is there twice.
    #[error("the frontmatter is not valid YAML: field `{0}` is there twice")]
    Repeated(String),
    /// It is too long.
    #[error("the frontmatter is longer than 64.0KB")]
    TooLong,
}

/// A scalar; anything else only counts as being there.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Plain(String),
    Quoted(String),
    Other,
}

impl Frontmatter {
    /// Splits a file. Without a closing `---` line the whole file is body. Line ends become `\n`; the body is trimmed.
    ///
    /// # Errors
    /// When there is frontmatter that is not valid YAML.
    pub fn parse(text: &str) -> Result<Self, FrontmatterError> {
        let text = with_plain_ends(text);
        let Some((yaml, body)) = split(&text) else {
            return Ok(Self {
                fields: Vec::new(),
                body: text.trim().to_owned(),
            });
        };
        if yaml.len() > LIMIT {
            return Err(FrontmatterError::TooLong);
        }
        Ok(Self {
            fields: fields(yaml)?,
            body: body.trim().to_owned(),
        })
    }

    /// The text after the frontmatter, trimmed.
    pub fn body(&self) -> &str {
        &self.body
    }

    /// The text of a scalar field, trimmed; `None` when it is missing, blank, null, a list or a mapping.
    pub fn text(&self, name: &str) -> Option<&str> {
        let text = match self.field(name)? {
            Value::Plain(text) if is_null(text) => return None,
            Value::Plain(text) | Value::Quoted(text) => text.trim(),
            Value::Other => return None,
        };
        (!text.is_empty()).then_some(text)
    }

    /// Whether a field is the boolean true; the text `"true"` is not.
    pub fn is_true(&self, name: &str) -> bool {
        matches!(self.field(name), Some(Value::Plain(text)) if matches!(&**text, "true" | "True" | "TRUE"))
    }

    fn field(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        fields.find(|(own, _)| own == name).map(|(_, value)| value)
    }
}

/// The YAML and what follows it.
fn split(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---")?;
    // `---` alone, or with blanks, opens; `---text` or a longer rule does not.
    let (opening, rest) = rest.split_once('\n')?;
    if !opening.trim().is_empty() {
        return None;
    }
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..at], &rest[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

fn with_plain_ends(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n"))
    } else {
        Cow::Borrowed(text)
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Scalars below the root mapping of the first document.
fn fields(yaml: &str) -> Result<Vec<(String, Value)>, FrontmatterError> {
    let mut reader = Reader::default();
    for event in Parser::new_from_str(yaml) {
        let (event, _) = event.map_err(|error| invalid(&error))?;
        reader.event(event)?;
    }
    Ok(reader.fields)
}

fn invalid(error: &ScanError) -> FrontmatterError {
    FrontmatterError::Invalid {
        text: error.info().to_owned(),
        // The opening line comes before the parser's first.
        line: error.marker().line() + 1,
        column: error.marker().col() + 1,
    }
}

/// Puts events together.
#[derive(Default)]
struct Reader {
    fields: Vec<(String, Value)>,
    depth: usize,
    /// Whether the root is a mapping that is being read.
    mapping: bool,
    /// What the next value belongs to; the inner `None` is a key that is no scalar.
    key: Option<Option<String>>,
    /// Scalars that an alias may name.
    anchors: Vec<(usize, Value)>,
}

impl Reader {
    fn event(&mut self, event: Event<'_>) -> Result<(), FrontmatterError> {
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let value = scalar(text, style);
                if anchor != 0 {
                    self.anchors.push((anchor, value.clone()));
                }
                self.node(value)
            }
            Event::Alias(anchor) => {
                let known = self.anchors.iter().find(|(own, _)| *own == anchor);
                let value = known.map_or(Value::Other, |(_, value)| value.clone());
                self.node(value)
            }
            Event::MappingStart(..) if self.depth == 0 && !self.mapping => {
                (self.mapping, self.depth) = (true, 1);
                Ok(())
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                let told = self.node(Value::Other);
                self.depth += 1;
                told
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.depth = self.depth.saturating_sub(1);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A key or value of the root.
    fn node(&mut self, value: Value) -> Result<(), FrontmatterError> {
        if self.depth != 1 || !self.mapping {
            return Ok(());
        }
        let Some(key) = self.key.take() else {
            self.key = Some(match value {
                Value::Plain(text) | Value::Quoted(text) => Some(text),
                Value::Other => None,
            });
            return Ok(());
        };
        let Some(key) = key else {
            return Ok(());
        };
        if self.fields.iter().any(|(own, _)| *own == key) {
            return Err(FrontmatterError::Repeated(key));
        }
        self.fields.push((key, value));
        Ok(())
    }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> Value {
    match style {
        ScalarStyle::Plain => Value::Plain(text.into_owned()),
        _ => Value::Quoted(text.into_owned()),
    }
}
