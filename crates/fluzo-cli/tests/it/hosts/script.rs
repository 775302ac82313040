//! What a script of a host says.

use fluzo_sim::Quirk;

/// What must be seen of one host through one of its dialects, with the key in one variable.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    pub host: &'static str,
    pub api: &'static str,
    /// The whole address of the request.
    pub url: &'static str,
    /// The model, in place of the host's default.
    pub model: Option<&'static str>,
    /// Variables that the address is filled from.
    pub variables: &'static [(&'static str, &'static str)],
    /// The variable of the key, and the key; none where no key is given.
    pub key: Option<(&'static str, &'static str)>,
    /// The header of the key and what stands before the key in it.
    pub sent: (&'static str, &'static str),
    pub thinking: &'static str,
    /// Habits of the server, none of which may refuse anything.
    pub quirks: &'static [Quirk],
    /// Further headers of each request.
    pub headers: &'static [(&'static str, &'static str)],
    /// Headers that each request has, whatever their value.
    pub present: &'static [&'static str],
    /// Headers with their values in the first and in the second request.
    pub turns: &'static [(&'static str, &'static str, &'static str)],
    /// Values in the body of each request, as JSON.
    pub body: &'static [(&'static str, &'static str)],
    /// The same of the second request only.
    pub then: &'static [(&'static str, &'static str)],
    /// What is not in the body of any request.
    pub lacks: &'static [&'static str],
    /// The model thinks before it calls, without a signature.
    pub thinks: bool,
    /// A server that is not known would get the same.
    pub usual: bool,
}

impl Script {
    pub const fn new(host: &'static str, api: &'static str, url: &'static str) -> Self {
        Self {
            host,
            api,
            url,
            model: None,
            variables: &[],
            key: None,
            sent: ("", ""),
            thinking: "high",
            quirks: &[],
            headers: &[],
            present: &[],
            turns: &[],
            body: &[],
            then: &[],
            lacks: &[],
            thinks: false,
            usual: false,
        }
    }

    /// The key of `variable` is sent as `Authorization: Bearer KEY`.
    pub const fn bearer(self, variable: &'static str) -> Self {
        self.key(variable, "authorization", "Bearer ")
    }

    /// The key of `variable` is sent as `HEADER: BEFORE KEY`.
    pub const fn key(
        mut self,
        variable: &'static str,
        header: &'static str,
        before: &'static str,
    ) -> Self {
        self.key = Some((variable, "test-key"));
        self.sent = (header, before);
        self
    }

    /// As `key`, of a key that shows by its beginning what it is.
    pub const fn key_like(
        mut self,
        variable: &'static str,
        value: &'static str,
        header: &'static str,
    ) -> Self {
        self.key = Some((variable, value));
        self.sent = (header, "");
        self
    }

    pub const fn model(mut self, id: &'static str) -> Self {
        self.model = Some(id);
        self
    }

    pub const fn with(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    pub const fn thinking(mut self, level: &'static str) -> Self {
        self.thinking = level;
        self
    }

    pub const fn quirks(mut self, quirks: &'static [Quirk]) -> Self {
        self.quirks = quirks;
        self
    }

    pub const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    pub const fn present(mut self, headers: &'static [&'static str]) -> Self {
        self.present = headers;
        self
    }

    pub const fn turns(
        mut self,
        headers: &'static [(&'static str, &'static str, &'static str)],
    ) -> Self {
        self.turns = headers;
        self
    }

    pub const fn body(mut self, facts: &'static [(&'static str, &'static str)]) -> Self {
        self.body = facts;
        self
    }

    pub const fn then(mut self, facts: &'static [(&'static str, &'static str)]) -> Self {
        self.then = facts;
        self
    }

    pub const fn lacks(mut self, pointers: &'static [&'static str]) -> Self {
        self.lacks = pointers;
        self
    }

    pub const fn thinks(mut self) -> Self {
        self.thinks = true;
        self
    }

    pub const fn usual(mut self) -> Self {
        self.usual = true;
        self
    }
}
