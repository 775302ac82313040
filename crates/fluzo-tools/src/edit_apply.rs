//! Edits applied to the bytes of a file, without touching the file itself.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Value, json};

use crate::edit_match::{Edit, Haystack, Misfit, Place};
use crate::edit_splice::replacement;
use crate::line_diff::LineDiff;
use crate::text_form::{NotText, TextForm};

/// Most line numbers named in an error.
const MOST_LINES: usize = 20;

/// A changed file.
pub(crate) struct Applied {
    /// Its whole content.
    pub(crate) bytes: Vec<u8>,
    /// `diff`, `patch` and `firstChangedLine`.
    pub(crate) details: Value,
}

/// Applies `edits` to a file of `bytes` that the model calls `path`. `None` when that changes
/// nothing.
///
/// # Errors
///
/// The text for the model; the edits do not apply or the file is no text.
pub(crate) fn apply(bytes: &[u8], path: &str, edits: Vec<Edit>) -> Result<Option<Applied>, String> {
    let form = TextForm::of(bytes);
    let text = form.decode(bytes).map_err(|why| refused(path, why))?;
    let edits: Vec<Edit> = edits
        .into_iter()
        .map(|edit| without_mark(edit, form))
        .collect();
    let haystack = Haystack::new(&text);
    let places = match haystack.locate(&edits) {
        Ok(places) => places,
        Err(Misfit::Absent(..)) if haystack.already_holds(&edits) => return Ok(None),
        Err(misfit) => return Err(misfit_text(&misfit, path, edits.len() == 1)),
    };
    let (changed, parts) = spliced(&haystack, &places, &edits);
    if changed == *text {
        return Ok(None);
    }
    let diff = LineDiff::new(&text, &changed, &parts);
    let details = json!({
        "diff": diff.display(),
        "patch": diff.patch(path),
        "firstChangedLine": diff.first_changed_line(),
    });
    Ok(Some(Applied {
        bytes: form.encode(&changed),
        details,
    }))
}

type Parts = Vec<(Range<usize>, Range<usize>)>;

fn spliced(haystack: &Haystack<'_>, places: &[Place], edits: &[Edit]) -> (Vec<u8>, Parts) {
    let source = haystack.source;
    let mut out = Vec::with_capacity(source.len());
    let mut parts = Vec::with_capacity(places.len());
    let mut done = 0;
    for place in places {
        out.extend_from_slice(&source[done..place.source.start]);
        let start = out.len();
        out.extend(replacement(haystack, place, &edits[place.edit]));
        parts.push((place.source.clone(), start..out.len()));
        done = place.source.end;
    }
    out.extend_from_slice(&source[done..]);
    (out, parts)
}

/// The mark of a file is no part of its text, so an edit that begins with it means the text.
fn without_mark(edit: Edit, form: TextForm) -> Edit {
    if form == (TextForm::Utf8 { mark: false }) || !edit.old.starts_with('\u{feff}') {
        return edit;
    }
    let bare = |text: String| {
        text.strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text)
    };
    Edit {
        old: bare(edit.old),
        new: bare(edit.new),
    }
}

fn refused(path: &str, why: NotText) -> String {
    let why = match why {
        NotText::Nul => "It has NUL bytes, so it is a binary file",
        NotText::BrokenUtf16 => "It begins as UTF-16 but is not valid UTF-16",
    };
    format!("Could not edit file: {path}. {why}. Use bash to change it.")
}

fn misfit_text(misfit: &Misfit, path: &str, single: bool) -> String {
    match misfit {
        Misfit::Empty(index) => {
            let what = if single {
                Cow::from("oldText")
            } else {
                format!("edits[{index}].oldText").into()
            };
            format!("{what} must not be empty in {path}.\nTo write a whole file use write.")
        }
        Misfit::Absent(index, hint) => {
            let what = if single {
                format!("the exact text in {path}. The old text")
            } else {
                format!("edits[{index}] in {path}. The oldText")
            };
            let text = format!(
                "Could not find {what} must match exactly including all whitespace and newlines."
            );
            hint.as_ref()
                .map_or(text.clone(), |hint| format!("{text}\n{hint}"))
        }
        Misfit::Several(index, lines) => {
            let found = lines.len();
            let text = if single {
                format!("Found {found} occurrences of the text in {path}. The text")
            } else {
                format!("Found {found} occurrences of edits[{index}] in {path}. Each oldText")
            };
            let lines = line_list(lines);
            format!(
                "{text} must be unique. Please provide more context to make it unique.\nMatches at lines {lines}."
            )
        }
        Misfit::Overlap(first, second) => format!(
            "edits[{first}] and edits[{second}] overlap in {path}. Merge them into one edit or target disjoint regions."
        ),
    }
}

fn line_list(lines: &[usize]) -> String {
    let named: Vec<_> = lines
        .iter()
        .take(MOST_LINES)
        .map(usize::to_string)
        .collect();
    let more = if lines.len() > MOST_LINES {
        ", …"
    } else {
        ""
    };
    format!("{}{more}", named.join(", "))
}
