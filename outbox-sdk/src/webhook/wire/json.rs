//! The text of a JSON object, written member by member, so that a payload goes into it as it is.

use serde_json::Value;

/// The text of a JSON object under construction.
pub(super) struct Object(String);

impl Object {
    pub(super) fn with_room_for(payload: &str) -> Self {
        let mut text = String::with_capacity(payload.len() + 1024);
        text.push('{');
        Self(text)
    }

    /// `value` is JSON already.
    pub(super) fn raw(&mut self, name: &'static str, value: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        for part in ["\"", name, "\":", value] {
            self.0.push_str(part);
        }
    }

    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        self.raw(name, &Value::from(value).to_string());
    }

    pub(super) fn text_or_null(&mut self, name: &'static str, value: Option<&str>) {
        match value {
            Some(value) => self.text(name, value),
            None => self.raw(name, "null"),
        }
    }

    pub(super) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}
