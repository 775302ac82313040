//! What requests are made of at the moment: model, thinking level, tools, system prompt.

use std::sync::Arc;

use fluzo_agent::{RunContext, Tool, ToolSet};
use fluzo_llm::{Model, ThinkingLevel};
use fluzo_protocol::Direction;

/// A model of the scope, perhaps with a thinking level of its own.
#[derive(Debug, Clone)]
pub struct Scoped {
    /// The model.
    pub model: Arc<Model>,
    /// The level that stands behind its pattern.
    pub thinking: Option<ThinkingLevel>,
}

/// Makes the system prompt for the tools on offer.
pub type PromptMaker = Arc<dyn Fn(&ToolSet) -> String + Send + Sync>;

/// The choices that count now.
pub(crate) struct Choice {
    pub(crate) model: Arc<Model>,
    pub(crate) thinking: ThinkingLevel,
    /// The level that was last in use with a model that thinks.
    pub(crate) preferred: ThinkingLevel,
    pub(crate) scope: Vec<Scoped>,
    pub(crate) patterns: Vec<String>,
    /// All tools there are.
    pub(crate) all_tools: ToolSet,
    /// Those on offer.
    pub(crate) tools: ToolSet,
    pub(crate) system_prompt: Arc<str>,
    pub(crate) prompt_maker: PromptMaker,
}

impl Choice {
    /// Offers the tools of these names, in this order; unknown names are left out and returned.
    pub(crate) fn offer(&mut self, names: &[String]) -> Vec<String> {
        let mut unknown = Vec::new();
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for name in names {
            match self.all_tools.find(name) {
                Some(tool) => tools.push(tool),
                None => unknown.push(name.clone()),
            }
        }
        self.tools = ToolSet::new(tools);
        self.system_prompt = (self.prompt_maker)(&self.tools).into();
        unknown
    }

    /// Switches to `model`. The level is `explicit` if there is one, else the present one, or,
    /// after a model that does not think, the one before that; as far as the model knows it.
    pub(crate) fn switch(&mut self, model: Arc<Model>, explicit: Option<ThinkingLevel>) {
        if self.model.reasoning {
            self.preferred = self.thinking;
        }
        self.thinking = model.clamp(explicit.unwrap_or(self.preferred));
        self.model = model;
    }

    /// The model after the present one among `models`; none when there is no other.
    pub(crate) fn next(&self, models: &[Scoped], direction: Direction) -> Option<Scoped> {
        if models.len() < 2 {
            return None;
        }
        let same = |scoped: &Scoped| {
            (&scoped.model.provider, &scoped.model.id) == (&self.model.provider, &self.model.id)
        };
        let at = models.iter().position(same);
        let last = models.len() - 1;
        let next = match (at, direction) {
            (None, _) => 0,
            (Some(at), Direction::Forward) => (at + 1) % models.len(),
            (Some(0), Direction::Backward) => last,
            (Some(at), Direction::Backward) => at - 1,
        };
        models.get(next).cloned()
    }

    /// The level after the present one that the model knows; none when it does not think.
    pub(crate) fn next_level(&self) -> Option<ThinkingLevel> {
        let levels = levels(&self.model);
        if levels.len() < 2 {
            return None;
        }
        let at = levels.iter().position(|level| *level == self.thinking);
        levels
            .get(at.map_or(0, |at| (at + 1) % levels.len()))
            .copied()
    }

    /// Puts the choices into `context`.
    pub(crate) fn apply(&self, context: &mut RunContext) {
        context.model = Arc::clone(&self.model);
        context.thinking = self.thinking;
        context.tools = self.tools.clone();
        context.system_prompt = Arc::clone(&self.system_prompt);
    }
}

/// The levels that `model` knows, rising; only `off` when it does not think.
pub(crate) fn levels(model: &Model) -> Vec<ThinkingLevel> {
    let known = |level: &ThinkingLevel| model.supports(*level);
    ThinkingLevel::ALL.into_iter().filter(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str, reasoning: bool) -> Arc<Model> {
        let json = serde_json::json!({
            "id": id, "name": id, "api": "a", "provider": "p", "baseUrl": "",
            "reasoning": reasoning, "input": ["text"], "contextWindow": 1, "maxTokens": 1,
        });
        Arc::new(serde_json::from_value(json).unwrap())
    }

    fn choice(model: Arc<Model>, thinking: ThinkingLevel) -> Choice {
        Choice {
            model,
            thinking,
            preferred: ThinkingLevel::Medium,
            scope: Vec::new(),
            patterns: Vec::new(),
            all_tools: ToolSet::default(),
            tools: ToolSet::default(),
            system_prompt: "".into(),
            prompt_maker: Arc::new(|_| String::new()),
        }
    }

    #[test]
    fn a_level_survives_a_model_that_does_not_think() {
        use ThinkingLevel::{High, Low, Medium, Off};
        let mut choice = choice(model("thinks", true), High);
        choice.switch(model("plain", false), None);
        assert_eq!(choice.thinking, Off);
        choice.switch(model("thinks", true), None);
        assert_eq!(choice.thinking, High);
        choice.switch(model("other", true), Some(Low));
        assert_eq!(choice.thinking, Low);
        choice.thinking = Off;
        choice.switch(model("thinks", true), None);
        assert_eq!(choice.thinking, Off, "off by choice stays off");
        let mut fresh = super::tests::choice(model("plain", false), Off);
        fresh.switch(model("thinks", true), None);
        assert_eq!(fresh.thinking, Medium);
    }
}
