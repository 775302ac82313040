//! The output items of a response, and which one an event speaks of.
//!
//! Events name their item by id and by its place in the output. Servers leave out either,
//! give an id that changes from event to event, or a place that is wrong by one; some never
//! say that an item begins or ends.

/// Sorts of items that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Reasoning,
    Call,
}

impl Kind {
    /// The kind of items of that type; other types say nothing here.
    pub(crate) fn of(r#type: &str) -> Option<Self> {
        Some(match r#type {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call,
            _ => return None,
        })
    }
}

/// How an event names its item.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Named<'a> {
    /// Its id, or empty.
    pub id: &'a str,
    /// The id of the call that it is, or empty.
    pub call_id: &'a str,
    /// Its place in the output.
    pub place: Option<u64>,
}

impl Named<'_> {
    /// The event names no item at all.
    pub(crate) fn nothing(&self) -> bool {
        self.id.is_empty() && self.place.is_none()
    }
}

/// One item.
#[derive(Debug)]
pub(crate) struct OutputItem {
    pub kind: Kind,
    pub id: String,
    pub call_id: String,
    place: Option<u64>,
    /// It may go on.
    pub open: bool,
    /// Nobody has said that it begins.
    implied: bool,
    /// Whether a text was said on the way or as the answer.
    pub phase: Option<String>,
    /// Argument text that the call began with.
    pub first_arguments: String,
    /// What has come of it.
    pub received: Received,
}

/// The parts of an item of which text has come.
#[derive(Debug, Default)]
pub(crate) struct Received {
    parts: Vec<(Source, u64)>,
    /// The server has announced another part.
    announced: bool,
}

/// Where the text of a part comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// What the model says.
    Answer,
    /// What it thought, in short.
    Summary,
    /// What it thought, word for word.
    Thinking,
}

/// Whether more text counts, and how it joins what came before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    /// It goes on.
    Continues,
    /// It begins another part.
    NewPart,
    /// It repeats what comes from another source.
    Never,
}

impl Received {
    /// Notes text of part `index` from `source`.
    pub(crate) fn note(&mut self, source: Source, index: u64) -> Joins {
        if self.parts.iter().any(|(other, _)| *other != source) {
            return Joins::Never;
        }
        let first = self.parts.is_empty();
        let known = self.parts.contains(&(source, index));
        if !known {
            self.parts.push((source, index));
        }
        let announced = std::mem::take(&mut self.announced);
        match (known && !announced) || first {
            true => Joins::Continues,
            false => Joins::NewPart,
        }
    }

    /// The server announces another part.
    pub(crate) fn announce(&mut self) {
        self.announced = true;
    }

    /// Whether text of part `index` has come.
    pub(crate) fn has(&self, source: Source, index: u64) -> bool {
        self.parts.contains(&(source, index))
    }

    /// How many parts have text.
    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }
}

/// The items of one response, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Items(Vec<OutputItem>);

impl Items {
    /// The item that an event about an item of `kind` speaks of.
    ///
    /// An id that fits counts more than a place that fits. What names nothing, or nothing
    /// known, speaks of the last open item that it does not contradict.
    pub(crate) fn find(&self, kind: Kind, named: Named<'_>) -> Option<usize> {
        let fits = |(at, item): (usize, &OutputItem)| {
            let fit = item.fit(named).filter(|_| item.kind == kind)?;
            Some((fit, at))
        };
        let best = self.0.iter().enumerate().filter_map(fits).max();
        best.map(|(_, at)| at)
    }

    /// The item that begins, or has begun before under the same name.
    pub(crate) fn begin(&mut self, kind: Kind, named: Named<'_>) -> usize {
        let same = self
            .find(kind, named)
            .filter(|at| self.0.get(*at).is_some_and(|item| item.begins_as(named)));
        let at = same.unwrap_or_else(|| self.add(kind, named, false));
        if let Some(item) = self.0.get_mut(at) {
            item.learn(named);
            item.implied = false;
        }
        at
    }

    /// The item that an event speaks of, which may be the first sign of it.
    pub(crate) fn find_or_imply(&mut self, kind: Kind, named: Named<'_>) -> usize {
        let found = self.find(kind, named);
        found.unwrap_or_else(|| self.add(kind, named, true))
    }

    /// The `n`th item of `kind`.
    pub(crate) fn nth(&self, kind: Kind, n: usize) -> Option<usize> {
        let of_kind = |(at, item): (usize, &OutputItem)| (item.kind == kind).then_some(at);
        self.0.iter().enumerate().filter_map(of_kind).nth(n)
    }

    /// The item at `at`.
    pub(crate) fn get(&self, at: usize) -> Option<&OutputItem> {
        self.0.get(at)
    }

    /// The item at `at`.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut OutputItem> {
        self.0.get_mut(at)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Another item, whatever it is called.
    pub(crate) fn append(&mut self, kind: Kind, named: Named<'_>) -> usize {
        self.add(kind, named, false)
    }

    /// All items with their positions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &OutputItem)> {
        self.0.iter().enumerate()
    }

    fn add(&mut self, kind: Kind, named: Named<'_>, implied: bool) -> usize {
        self.0.push(OutputItem {
            kind,
            id: named.id.to_owned(),
            call_id: named.call_id.to_owned(),
            place: named.place,
            open: true,
            implied,
            phase: None,
            first_arguments: String::new(),
            received: Received::default(),
        });
        self.0.len() - 1
    }
}

impl OutputItem {
    /// Adds what is said of it for the first time.
    pub(crate) fn learn(&mut self, named: Named<'_>) {
        for (field, value) in [(&mut self.id, named.id), (&mut self.call_id, named.call_id)] {
            if field.is_empty() {
                field.push_str(value);
            }
        }
        self.place = self.place.or(named.place);
    }

    /// How well `named` fits; `None` when it speaks of another item.
    fn fit(&self, named: Named<'_>) -> Option<u8> {
        let id = !named.id.is_empty() && (named.id == self.id || named.id == self.call_id);
        let place = named.place.is_some() && named.place == self.place;
        let open = u8::from(self.open);
        if id {
            return Some(4 + 2 * u8::from(place) + open);
        }
        if place {
            // A name that changes is known from open items only.
            return (self.open || named.id.is_empty()).then_some(2 + open);
        }
        let other_id = !named.id.is_empty() && !self.id.is_empty();
        let other_place = named.place.is_some() && self.place.is_some();
        (self.open && !other_id && !other_place).then_some(1)
    }

    /// Whether an item that begins as `named`, which fits, is this one.
    fn begins_as(&self, named: Named<'_>) -> bool {
        let differ = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
        if differ(&self.call_id, named.call_id) {
            return false;
        }
        match (self.place, named.place) {
            (Some(a), Some(b)) => a == b,
            _ if !self.open => false,
            _ => self.implied || (!named.id.is_empty() && named.id == self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: &str, place: Option<u64>) -> Named<'_> {
        Named {
            id,
            call_id: "",
            place,
        }
    }

    /// Three messages: `a` at 0, closed; `b` at 1; one without a name.
    fn items() -> Items {
        let mut items = Items::default();
        for (id, place) in [("a", Some(0)), ("b", Some(1)), ("", None)] {
            items.add(Kind::Message, named(id, place), false);
        }
        items.get_mut(0).unwrap().open = false;
        items
    }

    #[test]
    fn ids_count_more_than_places_and_places_more_than_order() {
        let rows = [
            ("b", Some(1), Some(1)),
            ("b", Some(7), Some(1)),
            ("b", None, Some(1)),
            ("changed", Some(1), Some(1)),
            ("", Some(1), Some(1)),
            ("a", None, Some(0)),
            ("", Some(0), Some(0)),
            // A closed item does not take what has another name.
            ("c", Some(0), Some(2)),
            ("", None, Some(2)),
            ("", Some(9), Some(2)),
        ];
        for (id, place, expected) in rows {
            let found = items().find(Kind::Message, named(id, place));
            assert_eq!(found, expected, "{id} {place:?}");
        }
        assert_eq!(items().find(Kind::Call, named("b", Some(1))), None);
        let mut two = items();
        two.get_mut(2).unwrap().open = false;
        assert_eq!(two.find(Kind::Message, named("new", Some(9))), None);
    }

    #[test]
    fn an_item_begins_once_and_its_name_may_serve_again() {
        let rows = [
            ("b", Some(1), 1),
            ("b", None, 1),
            ("changed", Some(1), 1),
            // Servers that name every item alike.
            ("b", Some(2), 3),
            ("a", Some(1), 3),
            ("a", None, 3),
            ("", None, 3),
            ("c", Some(2), 3),
        ];
        for (id, place, expected) in rows {
            let mut all = items();
            assert_eq!(
                all.begin(Kind::Message, named(id, place)),
                expected,
                "{id} {place:?}"
            );
        }
        let mut late = Items::default();
        let at = late.find_or_imply(Kind::Message, named("", None));
        assert_eq!(late.begin(Kind::Message, named("a", Some(0))), at);
        assert_ne!(late.begin(Kind::Message, named("b", Some(1))), at);
    }

    #[test]
    fn calls_at_one_place_are_told_apart_by_the_id_of_the_call() {
        let call = |id: &'static str, call_id: &'static str| Named {
            id,
            call_id,
            place: Some(0),
        };
        let mut items = Items::default();
        assert_eq!(items.begin(Kind::Call, call("fc_1", "c1")), 0);
        assert_eq!(items.begin(Kind::Call, call("fc_2", "c2")), 1);
        assert_eq!(items.begin(Kind::Call, call("fc_2", "c2")), 1);
        assert_eq!(items.find(Kind::Call, named("fc_1", Some(0))), Some(0));
        assert_eq!(items.find(Kind::Call, named("c1", None)), Some(0));
    }

    #[test]
    fn parts_join() {
        use Joins::{Continues, Never, NewPart};
        let mut received = Received::default();
        assert_eq!(received.note(Source::Summary, 0), Continues);
        assert_eq!(received.note(Source::Summary, 0), Continues);
        assert_eq!(received.note(Source::Thinking, 0), Never);
        assert_eq!(received.note(Source::Summary, 1), NewPart);
        assert_eq!(received.note(Source::Summary, 1), Continues);
        received.announce();
        assert_eq!(received.note(Source::Summary, 1), NewPart);
        assert_eq!(
            (received.count(), received.has(Source::Summary, 1)),
            (2, true)
        );
        let mut announced = Received::default();
        announced.announce();
        assert_eq!(announced.note(Source::Summary, 0), Continues);
        assert_eq!(announced.note(Source::Summary, 0), Continues);
    }
}
