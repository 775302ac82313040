//! Which forms servers have been found to demand, for as long as the process lives.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use fluzo_llm::{FormSwitch, Model, StreamError, StreamErrorKind};

/// The form switches in effect for each base URL and model.
///
/// One value serves all sessions of a process. A switch is learned from a refusal; that it is
/// made at once, and once per request, is the matter of the run operation.
#[derive(Debug, Default)]
pub struct FormMemory {
    off: bool,
    known: Mutex<Known>,
}

/// Base URL and id of a model.
type Address = (String, String);

#[derive(Debug, Default)]
struct Known {
    /// Where the requests for a provider's model went last.
    addresses: HashMap<(String, String), Address>,
    forms: HashMap<Address, Forms>,
}

#[derive(Debug, Default)]
struct Forms {
    /// By quirk key, of which each has one form.
    switches: BTreeMap<&'static str, FormSwitch>,
    /// The switch that no response has confirmed yet, and the refusal that led to it.
    pending: Option<(FormSwitch, String)>,
}

impl FormMemory {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A memory that learns nothing: a refused form ends the run, and its error names the quirk
    /// key that chooses another one.
    pub fn off() -> Self {
        Self {
            off: true,
            ..Self::default()
        }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.off
    }

    /// Whether `error` is the refusal of a form that another one may take the place of.
    pub fn offers(&self, error: &StreamError) -> Option<FormSwitch> {
        let refused = !self.off && error.kind == StreamErrorKind::FormRefused;
        error.alternative.filter(|_| refused)
    }

    /// Puts the switch that `error` offers into effect for `model` where its last request went.
    /// `None` when there is none.
    pub fn learn(&self, model: &Model, error: &StreamError) -> Option<FormSwitch> {
        let switch = self.offers(error)?;
        self.with(model, |forms| {
            forms.switches.insert(switch.key(), switch);
            forms.pending = Some((switch, error.message.clone()));
        });
        Some(switch)
    }

    /// The switches that the next request for `model` would be made with, if it goes where
    /// its last one went.
    pub fn switches(&self, model: &Model) -> Vec<FormSwitch> {
        let known = self.known();
        let usual = || (model.base_url.clone(), model.id.clone());
        let address = known.addresses.get(&name(model));
        let forms = known
            .forms
            .get(&address.cloned().unwrap_or_else(usual))
            .map(|forms| forms.switches.values().copied().collect());
        forms.unwrap_or_default()
    }

    /// The switches for a request for `model` that goes to `base_url`, and whether one of them
    /// waits for its first good response.
    pub(crate) fn of(&self, model: &Model, base_url: &str) -> (Vec<FormSwitch>, bool) {
        let mut known = self.known();
        let address = (base_url.to_owned(), model.id.clone());
        known.addresses.insert(name(model), address.clone());
        let Some(forms) = known.forms.get(&address) else {
            return (Vec::new(), false);
        };
        let switches = forms.switches.values().copied().collect();
        (switches, forms.pending.is_some())
    }

    /// A response has come: the switch that waited for it was right.
    pub(crate) fn confirm(&self, model: &Model) {
        self.with(model, |forms| forms.pending = None);
    }

    /// Completes the error of a request: a refusal that is not answered with another form says
    /// so, and a switch that did not help is forgotten.
    pub(crate) fn judge(&self, model: &Model, error: &mut StreamError) {
        use StreamErrorKind::{FormRefused, InvalidRequest};
        if !matches!(error.kind, FormRefused | InvalidRequest) {
            return;
        }
        if self.off {
            if let Some(switch) = error.alternative {
                error.message += &advice(switch);
            }
            return;
        }
        let failed = error.kind == InvalidRequest;
        let pending = self.with(model, |forms| {
            let pending = forms.pending.take();
            if let (true, Some((switch, _))) = (failed, &pending) {
                forms.switches.remove(switch.key());
            }
            pending
        });
        if let Some((switch, first)) = pending {
            let setting = switch.setting();
            error.message += &format!(
                "; the request had been sent again with {setting}, because the server first answered: {first}"
            );
            if let Some(other) = error.alternative {
                error.message += &advice(other);
            }
        }
    }

    /// The forms for `model` where its last request went.
    fn with<T>(&self, model: &Model, change: impl FnOnce(&mut Forms) -> T) -> T {
        let mut known = self.known();
        let usual = || (model.base_url.clone(), model.id.clone());
        let address = known.addresses.get(&name(model));
        let address = address.cloned().unwrap_or_else(usual);
        change(known.forms.entry(address).or_default())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn name(model: &Model) -> (String, String) {
    (model.provider.clone(), model.id.clone())
}

fn advice(switch: FormSwitch) -> String {
    let setting = switch.setting();
    format!("; the server may accept another form: set {setting} in the model's `compat`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(base_url: &str) -> Model {
        let json = serde_json::json!({
            "id": "m", "name": "m", "api": "a", "provider": "p", "baseUrl": base_url,
            "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        });
        serde_json::from_value(json).unwrap()
    }

    fn refused(switch: FormSwitch) -> StreamError {
        StreamError {
            alternative: Some(switch),
            ..StreamError::new(StreamErrorKind::FormRefused, "400 first")
        }
    }

    fn invalid() -> StreamError {
        StreamError::new(StreamErrorKind::InvalidRequest, "400 second")
    }

    #[test]
    fn a_switch_is_known_for_its_address_only() {
        let memory = FormMemory::new();
        let (here, there) = (model("http://a"), model("http://b"));
        assert_eq!(memory.of(&here, "http://a"), (vec![], false));
        let learned = memory.learn(&here, &refused(FormSwitch::MaxTokens));
        assert_eq!(learned, Some(FormSwitch::MaxTokens));
        let switches = vec![FormSwitch::MaxTokens];
        assert_eq!(memory.of(&there, "http://b"), (vec![], false));
        assert_eq!(memory.of(&here, "http://a"), (switches.clone(), true));
        memory.confirm(&here);
        assert_eq!(memory.of(&here, "http://a"), (switches, false));
        // What the credentials name counts, not the model's own base URL.
        assert_eq!(memory.of(&here, "http://c"), (vec![], false));
        memory.learn(&here, &refused(FormSwitch::NoStore));
        assert_eq!(
            memory.of(&here, "http://c"),
            (vec![FormSwitch::NoStore], true)
        );
    }

    #[test]
    fn a_key_has_one_form() {
        let memory = FormMemory::new();
        let model = model("http://a");
        for switch in [FormSwitch::NullContent, FormSwitch::EmptyContent] {
            memory.learn(&model, &refused(switch));
        }
        let (switches, _) = memory.of(&model, "http://a");
        assert_eq!(switches, [FormSwitch::EmptyContent]);
    }

    #[test]
    fn an_error_after_a_switch_says_what_was_tried() {
        let memory = FormMemory::new();
        let model = model("http://a");
        memory.learn(&model, &refused(FormSwitch::MaxTokens));
        let mut error = invalid();
        memory.judge(&model, &mut error);
        let text = "400 second; the request had been sent again with \"maxTokensField\": \"max_tokens\", because the server first answered: 400 first";
        assert_eq!(error.message, text);
        // It did not help.
        assert_eq!(memory.of(&model, "http://a"), (vec![], false));

        memory.learn(&model, &refused(FormSwitch::MaxTokens));
        let mut other = refused(FormSwitch::NoStore);
        memory.judge(&model, &mut other);
        assert!(
            other.message.ends_with(
                "400 first; the server may accept another form: set \"supportsStore\": false in the model's `compat`"
            ),
            "{other}"
        );
        // The first was right: the server got further.
        assert_eq!(
            memory.of(&model, "http://a"),
            (vec![FormSwitch::MaxTokens], false)
        );
    }

    #[test]
    fn what_is_no_refusal_of_the_request_says_nothing_of_forms() {
        let memory = FormMemory::new();
        let model = model("http://a");
        assert_eq!(memory.learn(&model, &invalid()), None);
        memory.learn(&model, &refused(FormSwitch::MaxTokens));
        let mut error = StreamError::new(StreamErrorKind::Transient, "503");
        memory.judge(&model, &mut error);
        assert_eq!(error.message, "503");
        let (_, pending) = memory.of(&model, "http://a");
        assert!(pending, "still the same request");
    }

    #[test]
    fn switched_off_nothing_is_learned_and_the_key_is_named() {
        let memory = FormMemory::off();
        let model = model("http://a");
        let mut error = refused(FormSwitch::SystemRole);
        assert_eq!(memory.learn(&model, &error), None);
        memory.judge(&model, &mut error);
        assert_eq!(
            error.message,
            "400 first; the server may accept another form: set \"supportsDeveloperRole\": false in the model's `compat`"
        );
        assert_eq!(memory.of(&model, "http://a"), (vec![], false));
    }
}
