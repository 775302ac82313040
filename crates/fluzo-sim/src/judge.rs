//! The decision over one request: refuse it, or play a step. Pure apart from the record that it keeps.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::answer::{Answer, json_answer, plan, refusal};
use crate::expectation::unmet;
use crate::history::{ModelCapabilities, check_history};
use crate::http::Incoming;
use crate::render::Asked;
use crate::reply::Body;
use crate::rules::{check_parameters, parse_body};
use crate::scenario::{Endpoint, Scenario, Step};
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
        let answer = refusal(index, status, found.first().unwrap_or(&fallback));
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
    ) -> Result<Answer, (u16, Vec<Violation>)> {
        let one = |status: u16, kind: ViolationKind, what: String| {
            Err((status, vec![Violation::new(kind, what)]))
        };
        self.overlap()?;
        if self.excess.contains(&connection) {
            return one(
                400,
                ViolationKind::TooManyConnections,
                format!("connection {connection} is one too many"),
            );
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/chat/completions") => self.chat(index, request),
            ("GET", "/v1/models") => self.models(index, request),
            (method, path @ ("/v1/chat/completions" | "/v1/models")) => one(
                405,
                ViolationKind::UnknownEndpoint,
                format!("{method} is not allowed on {path}"),
            ),
            (method, path) => one(
                404,
                ViolationKind::UnknownEndpoint,
                format!("nothing is served at {method} {path}"),
            ),
        }
    }

    fn overlap(&mut self) -> Result<(), (u16, Vec<Violation>)> {
        let running = self
            .requests
            .iter()
            .filter(|request| matches!(request.outcome, Outcome::Pending | Outcome::Stalled))
            .count();
        self.peak_overlap = self.peak_overlap.max(running);
        match self.scenario.expect.max_overlap {
            Some(limit) if running > limit => {
                let what = format!("{running} requests are in flight, {limit} are allowed");
                Err((
                    400,
                    vec![Violation::new(ViolationKind::TooMuchOverlap, what)],
                ))
            }
            _ => Ok(()),
        }
    }

    fn chat(&mut self, index: usize, request: &Incoming) -> Result<Answer, (u16, Vec<Violation>)> {
        let body = parse_body(request).map_err(|violation| (400, vec![violation]))?;
        let mut found = check_parameters(&body);
        let name = body
            .get("model")
            .and_then(Value::as_str)
            .unwrap_or_default();
        match self.scenario.models.iter().find(|model| model.id == name) {
            Some(model) => {
                found.extend(check_history(
                    &body,
                    &ModelCapabilities {
                        images: model.images,
                        own_tools: self.own_tools(),
                    },
                ));
            }
            None => found.push(Violation::new(
                ViolationKind::UnknownModel,
                format!("there is no model `{name}`"),
            )),
        }
        if !found.is_empty() {
            return Err((400, found));
        }
        let asked = Asked {
            index,
            model: name,
            stream: body.get("stream") == Some(&Value::Bool(true)),
            include_usage: body.pointer("/stream_options/include_usage")
                == Some(&Value::Bool(true)),
        };
        self.play(Endpoint::Chat, request, &body, &asked)
    }

    fn models(
        &mut self,
        index: usize,
        request: &Incoming,
    ) -> Result<Answer, (u16, Vec<Violation>)> {
        if self
            .scenario
            .steps
            .get(self.next_step)
            .is_some_and(|step| step.endpoint == Endpoint::Models)
        {
            let asked = Asked {
                index,
                model: "",
                stream: false,
                include_usage: false,
            };
            return self.play(Endpoint::Models, request, &Value::Null, &asked);
        }
        let entry = |id: &str| json!({"id": id, "object": "model", "created": 1_700_000_000, "owned_by": "fluzo-sim"});
        let list: Vec<Value> = self
            .scenario
            .models
            .iter()
            .map(|model| entry(&model.id))
            .collect();
        Ok(json_answer(
            index,
            200,
            &json!({"object": "list", "data": list}),
        ))
    }

    /// Plays the next step if the request is the one it expects.
    fn play(
        &mut self,
        endpoint: Endpoint,
        request: &Incoming,
        body: &Value,
        asked: &Asked<'_>,
    ) -> Result<Answer, (u16, Vec<Violation>)> {
        let number = self.next_step;
        let total = self.scenario.steps.len();
        let Some(step) = self.scenario.steps.get(number) else {
            let what = format!("all {total} steps are played, this request is one too many");
            return Err((
                400,
                vec![Violation::new(ViolationKind::UnexpectedRequest, what)],
            ));
        };
        if step.endpoint != endpoint {
            let what = format!(
                "step {number} expects a request to the {:?} endpoint",
                step.endpoint
            );
            return Err((
                400,
                vec![Violation::new(ViolationKind::UnexpectedRequest, what)],
            ));
        }
        let unmet = unmet(&step.expect, request, body);
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
            (
                400,
                vec![Violation::new(
                    ViolationKind::ScenarioFault,
                    format!("step {number}: {what}"),
                )],
            )
        })?;
        self.next_step += 1;
        if let Some(recorded) = self.requests.get_mut(asked.index) {
            recorded.step = Some(number);
        }
        Ok(answer)
    }

    /// Tool names that the played steps called.
    fn own_tools(&self) -> BTreeSet<String> {
        self.scenario
            .steps
            .iter()
            .take(self.next_step)
            .flat_map(called)
            .collect()
    }
}

fn called(step: &Step) -> impl Iterator<Item = String> + '_ {
    let calls = match &step.reply.body {
        Body::Completion(completion) => completion.tool_calls.as_slice(),
        _ => &[],
    };
    calls.iter().map(|call| call.name.clone())
}
