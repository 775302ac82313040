//! The decision over one request: refuse it, or play a step. Pure apart from the record that it keeps.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::answer::{Answer, json_answer, plan, refusal};
use crate::body::parse_body;
use crate::capabilities::ModelCapabilities;
use crate::chat::{QuirkRefusal, quirk_refusal};
use crate::check::text;
use crate::dialect::check_request;
use crate::expectation::unmet;
use crate::http::Incoming;
use crate::lists::List;
use crate::render::Asked;
use crate::reply::{Body, Completion, Signature, ToolCall};
use crate::route::{Refused, Route, Target, admit, endpoint_of, route};
use crate::scenario::{Endpoint, Model, Scenario};
use crate::seal::{Purpose, sign};
use crate::verdict::{Outcome, RecordedRequest, Verdict, Violation, ViolationKind};

/// Everything that the simulator remembers.
#[derive(Debug)]
pub(crate) struct Record {
    pub scenario: Scenario,
    pub requests: Vec<RecordedRequest>,
    pub violations: Vec<Violation>,
    pub connections: usize,
    pub open_connections: usize,
    /// Requests whose connection may be replaced beyond the limit, since the script broke it.
    replaceable: BTreeSet<usize>,
    /// Unfinished requests whose reply is held back, so that their client may be about to leave.
    leavable: BTreeSet<usize>,
    pub peak_overlap: usize,
    next_step: usize,
    /// Requests that were refused for a quirk.
    quirk_refusals: usize,
    /// The model of each played step.
    played_by: Vec<String>,
    excess: BTreeSet<usize>,
}

impl Record {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            requests: Vec::new(),
            violations: Vec::new(),
            connections: 0,
            open_connections: 0,
            replaceable: BTreeSet::new(),
            leavable: BTreeSet::new(),
            peak_overlap: 0,
            next_step: 0,
            quirk_refusals: 0,
            played_by: Vec::new(),
            excess: BTreeSet::new(),
        }
    }

    /// Notes a new connection and gives its number.
    pub(crate) fn connected(&mut self) -> usize {
        let number = self.connections;
        self.connections += 1;
        self.open_connections += 1;
        if let Some(violation) = self.too_many_connections() {
            self.excess.insert(number);
            self.violations.push(violation);
        }
        number
    }

    /// Notes a request that could not be read as one, and decides on the error.
    pub(crate) fn unreadable(
        &mut self,
        connection: usize,
        request: Option<Incoming>,
        violation: Violation,
    ) -> (usize, Answer) {
        let blank = Incoming {
            method: String::new(),
            path: String::new(),
            headers: Vec::new(),
            raw: Vec::new(),
        };
        let index = self.note(connection, request.unwrap_or(blank));
        (
            index,
            Answer {
                close: true,
                ..self.refuse(index, 400, vec![violation])
            },
        )
    }

    /// Notes a request and decides what it gets.
    pub(crate) fn decide(&mut self, connection: usize, request: Incoming) -> (usize, Answer) {
        let index = self.note(connection, request.clone());
        let answer = self
            .judge(index, connection, &request)
            .unwrap_or_else(|(status, found)| self.refuse(index, status, found));
        if answer.may_be_left() {
            self.leavable.insert(index);
        }
        (index, answer)
    }

    /// Notes how a request ended, and whether its client now needs a new connection through no fault of its own.
    /// May be called again when it turns out differently.
    pub(crate) fn ended(
        &mut self,
        index: usize,
        outcome: Outcome,
        answer: &Answer,
        client_closes: bool,
    ) {
        self.settle(index, outcome);
        self.leavable.remove(&index);
        let scripted = answer.close || (outcome == Outcome::ClientGone && answer.may_be_left());
        if scripted && !answer.refused && !client_closes {
            self.replaceable.insert(index);
        }
    }

    /// Notes the state of a request's reply.
    pub(crate) fn settle(&mut self, index: usize, outcome: Outcome) {
        if let Some(request) = self.requests.get_mut(index) {
            request.outcome = outcome;
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let (played, total) = (self.next_step, self.scenario.steps.len());
        Verdict {
            passed: self.violations.is_empty()
                && (played == total || self.scenario.expect.steps_may_remain),
            violations: self.violations.clone(),
            requests: self.requests.len(),
            connections: self.connections,
            peak_overlap: self.peak_overlap,
            quirk_refusals: self.quirk_refusals,
            steps_played: played,
            steps_total: total,
        }
    }

    /// The verdict at the end, where steps that remain are a broken rule of their own.
    pub(crate) fn final_verdict(&self) -> Verdict {
        let mut verdict = self.verdict();
        let left = verdict.steps_total - verdict.steps_played;
        if left > 0 && !self.scenario.expect.steps_may_remain {
            let what = format!("{left} of {} steps were not played", verdict.steps_total);
            verdict
                .violations
                .push(Violation::new(ViolationKind::StepsLeft, what));
        }
        if !verdict.has(ViolationKind::TooManyConnections) {
            verdict.violations.extend(self.too_many_connections());
        }
        verdict.passed &= verdict.violations.is_empty();
        verdict
    }

    /// A held reply's client may have left unseen; whether it did is known at the end.
    fn too_many_connections(&self) -> Option<Violation> {
        let limit = self.scenario.expect.max_connections?;
        let allowed = limit
            .saturating_add(self.replaceable.len())
            .saturating_add(self.leavable.len());
        let what = || {
            format!(
                "{} connections were opened, {limit} are allowed",
                self.connections
            )
        };
        (self.connections > allowed)
            .then(|| Violation::new(ViolationKind::TooManyConnections, what()))
    }

    fn note(&mut self, connection: usize, request: Incoming) -> usize {
        let index = self.requests.len();
        let body = request.json();
        let Incoming {
            method,
            path,
            headers,
            raw,
        } = request;
        let outcome = Outcome::Pending;
        self.requests.push(RecordedRequest {
            index,
            connection,
            method,
            path,
            headers,
            body,
            raw,
            step: None,
            outcome,
        });
        index
    }

    fn refuse(&mut self, index: usize, status: u16, found: Vec<Violation>) -> Answer {
        let fallback = Violation::new(ViolationKind::MalformedHttp, "refused");
        let endpoint = self
            .requests
            .get(index)
            .map_or(Endpoint::Chat, |request| endpoint_of(&request.path));
        let first = found.first().unwrap_or(&fallback);
        let answer = refusal(endpoint, index, status, first);
        self.violations
            .extend(found.into_iter().map(|violation| Violation {
                request: Some(index),
                ..violation
            }));
        answer
    }

    fn judge(
        &mut self,
        index: usize,
        connection: usize,
        request: &Incoming,
    ) -> Result<Answer, Refused> {
        self.overlap()?;
        if self.excess.contains(&connection) {
            let what = format!("connection {connection} is one too many");
            return Err(refused(400, ViolationKind::TooManyConnections, what));
        }
        match route(&self.scenario, request)? {
            Route::Ask(target) => self.ask(index, request, &target),
            Route::List(list) => self.list(index, request, list),
        }
    }

    fn overlap(&mut self) -> Result<(), Refused> {
        let running = self
            .requests
            .iter()
            .filter(|request| matches!(request.outcome, Outcome::Pending | Outcome::Stalled))
            .count();
        self.peak_overlap = self.peak_overlap.max(running);
        match self.scenario.expect.max_overlap {
            Some(limit) if running > limit => {
                let what = format!("{running} requests are in flight, {limit} are allowed");
                Err(refused(400, ViolationKind::TooMuchOverlap, what))
            }
            _ => Ok(()),
        }
    }

    fn ask(
        &mut self,
        index: usize,
        request: &Incoming,
        target: &Target,
    ) -> Result<Answer, Refused> {
        admit(target.door, request)?;
        let body = parse_body(request).map_err(|violation| (400, vec![violation]))?;
        let named = text(&body, "model").unwrap_or_default();
        let name = target.model.as_deref().unwrap_or(named);
        let known = self.scenario.models.iter().find(|model| model.id == name);
        let Some(model) = known.cloned() else {
            let status = unknown_model_status(target.endpoint);
            let what = format!("there is no model `{name}`");
            return Err(refused(status, ViolationKind::UnknownModel, what));
        };
        let capabilities = self.capabilities(&model);
        let mut found = check_request(target.endpoint, &body, &capabilities);
        found.extend(target.misplaced(&body));
        if !found.is_empty() {
            return Err((400, found));
        }
        if target.endpoint == Endpoint::Chat
            && let Some(refusal) = quirk_refusal(&self.scenario.quirks, &body, &capabilities)
        {
            return Ok(self.refuse_for_quirk(index, &refusal));
        }
        let quirks = self.scenario.quirks.clone();
        let asked = Asked {
            endpoint: target.endpoint,
            index,
            model: name,
            reasoning: model.reasoning,
            stream: target
                .stream
                .unwrap_or(body.get("stream") == Some(&Value::Bool(true))),
            body: &body,
            quirks: &quirks,
        };
        self.play(request, &asked)
    }

    /// Refuses as the scenario's server would. The client may be meant to find that out.
    fn refuse_for_quirk(&mut self, index: usize, refusal: &QuirkRefusal) -> Answer {
        self.quirk_refusals += 1;
        let allowed = self.scenario.expect.max_quirk_refusals;
        if self.quirk_refusals > allowed {
            let what = format!(
                "refused for the quirk {:?}, {allowed} such refusals are allowed",
                refusal.quirk
            );
            self.violations.push(Violation {
                request: Some(index),
                ..Violation::new(ViolationKind::QuirkRefused, what)
            });
        }
        Answer {
            refused: true,
            ..json_answer(Endpoint::Chat, index, refusal.status, &refusal.body)
        }
    }

    fn list(&mut self, index: usize, request: &Incoming, list: List) -> Result<Answer, Refused> {
        let next = self.scenario.steps.get(self.next_step);
        if list != List::Elsewhere && next.is_some_and(|step| step.endpoint == Endpoint::Models) {
            let asked = Asked {
                endpoint: Endpoint::Models,
                index,
                model: "",
                reasoning: false,
                stream: false,
                body: &Value::Null,
                quirks: &[],
            };
            return self.play(request, &asked);
        }
        let (status, body) = list.answer(&self.scenario, request);
        Ok(json_answer(Endpoint::Models, index, status, &body))
    }

    /// Plays the next step if the request is the one it expects.
    fn play(&mut self, request: &Incoming, asked: &Asked<'_>) -> Result<Answer, Refused> {
        let number = self.next_step;
        let total = self.scenario.steps.len();
        let Some(step) = self.scenario.steps.get(number) else {
            let what = format!("all {total} steps are played, this request is one too many");
            return Err(refused(400, ViolationKind::UnexpectedRequest, what));
        };
        if step.endpoint != asked.endpoint {
            let what = format!(
                "step {number} expects a request to the {:?} endpoint",
                step.endpoint
            );
            return Err(refused(400, ViolationKind::UnexpectedRequest, what));
        }
        let unmet = unmet(&step.expect, request, asked);
        if !unmet.is_empty() {
            let violation = |what| {
                Violation::new(
                    ViolationKind::ExpectationNotMet,
                    format!("step {number}: {what}"),
                )
            };
            return Err((400, unmet.into_iter().map(violation).collect()));
        }
        let answer = plan(&step.reply, asked).map_err(|what| {
            let what = format!("step {number}: {what}");
            refused(400, ViolationKind::ScenarioFault, what)
        })?;
        self.next_step += 1;
        self.played_by.push(asked.model.to_owned());
        if let Some(recorded) = self.requests.get_mut(asked.index) {
            recorded.step = Some(number);
        }
        Ok(answer)
    }

    /// What the model takes, and what it said in the steps that it played.
    fn capabilities(&self, model: &Model) -> ModelCapabilities {
        let mut all = ModelCapabilities {
            id: model.id.clone(),
            images: model.images,
            reasoning: model.reasoning,
            ..ModelCapabilities::default()
        };
        for (step, by) in self.scenario.steps.iter().zip(&self.played_by) {
            if let Body::Completion(completion) = &step.reply.body {
                remember(&mut all, completion, *by == model.id);
            }
        }
        all
    }
}

/// Notes what a played completion called, and what the model itself signed in it.
fn remember(all: &mut ModelCapabilities, completion: &Completion, own: bool) {
    let calls = &completion.tool_calls;
    all.own_tools
        .extend(calls.iter().map(|call| call.name.clone()));
    if completion.thinking.is_none() && completion.redacted_thinking.is_none() {
        let ids = calls.iter().map(|call| call.id.clone());
        all.unthought_calls.extend(ids);
    }
    if !own {
        return;
    }
    if let Some(thinking) = &completion.thinking {
        let thought = |call: &ToolCall| (call.id.clone(), thinking.clone());
        all.thought_calls.extend(calls.iter().map(thought));
        let signature = completion
            .signature
            .given(|| sign(Purpose::Thinking, &all.id, thinking));
        all.own_signatures.insert((thinking.clone(), signature));
    }
    if let (Signature::Named(signature), Some(text)) = (&completion.signature, &completion.text) {
        let pair = (text.clone(), signature.clone());
        all.own_signatures.insert(pair);
    }
    if let Some(call) = calls.first().filter(|_| all.reasoning) {
        let content = call.signed_text();
        let signature = completion
            .signature
            .given(|| sign(Purpose::Call, &all.id, &content));
        all.own_signatures.insert((content, signature));
    }
}

fn refused(status: u16, kind: ViolationKind, what: impl Into<String>) -> Refused {
    (status, vec![Violation::new(kind, what)])
}

/// Some servers take an unknown model for a missing resource.
fn unknown_model_status(endpoint: Endpoint) -> u16 {
    match endpoint {
        Endpoint::Messages | Endpoint::Gemini => 404,
        Endpoint::Chat | Endpoint::Responses | Endpoint::Models => 400,
    }
}
