//! How many schemas a validator may have to try at one place of a payload. References let a small file describe a number
//! of alternatives that no machine can try: twenty-six definitions that each offer the next one twice are sixty-seven
//! million.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::document::resolve;

/// The most alternatives at one place.
pub(crate) const MAX_BRANCHES: u64 = 100_000;

/// Counts the schemas that apply at one place, with what they refer to and the alternatives that they offer.
pub(crate) struct Branches<'a> {
    root: &'a Value,
    /// By the address of the schema; `None` while it is being counted, so that a circle ends.
    counted: HashMap<usize, Option<u64>>,
    /// A schema was met inside itself for the same value: it means nothing, and a walk along it has no end.
    circular: bool,
}

impl<'a> Branches<'a> {
    pub(crate) fn of(root: &'a Value) -> Self {
        Self { root, counted: HashMap::new(), circular: false }
    }

    /// Whether some schema counted so far refers to itself for the same value.
    pub(crate) fn is_circular(&self) -> bool {
        self.circular
    }

    fn count(&mut self, schema: &Value) -> u64 {
        schema.as_object().map_or(1, |object| self.count_object(object))
    }

    /// The number for one schema of the document.
    pub(crate) fn count_object(&mut self, object: &Map<String, Value>) -> u64 {
        let place = std::ptr::from_ref(object).addr();
        if let Some(known) = self.counted.get(&place) {
            self.circular |= known.is_none();
            return known.unwrap_or(1);
        }
        self.counted.insert(place, None);
        let mut count = 1_u64;
        for (keyword, value) in object {
            let below = match (keyword.as_str(), value) {
                ("$ref", Value::String(target)) => {
                    resolve(self.root, target).map_or(0, |schema| self.count(schema))
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    list.iter().fold(0_u64, |sum, schema| sum.saturating_add(self.count(schema)))
                }
                ("not" | "if" | "then" | "else", schema) => self.count(schema),
                ("dependentSchemas", Value::Object(named)) => {
                    named.values().fold(0_u64, |sum, schema| sum.saturating_add(self.count(schema)))
                }
                _ => 0,
            };
            count = count.saturating_add(below);
        }
        self.counted.insert(place, Some(count));
        count
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_multiply_and_circles_end() {
        let mut defs = Map::new();
        for n in 0..26 {
            let next = json!({"$ref": format!("#/$defs/l{}", n + 1)});
            defs.insert(format!("l{n}"), json!({"anyOf": [next, next]}));
        }
        defs.insert("l26".into(), json!({"type": "integer"}));
        let bomb = json!({"$ref": "#/$defs/l0", "$defs": defs});
        assert!(Branches::of(&bomb).count(&bomb) > 60_000_000);

        let circle = json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]});
        let mut branches = Branches::of(&circle);
        assert!(branches.count(&circle) < 10 && branches.is_circular());
        let tree = json!({"properties": {"left": {"$ref": "#"}, "right": {"anyOf": [{"$ref": "#"}, true]}}});
        let mut branches = Branches::of(&tree);
        crate::document::for_each_schema(&tree, "", &mut |_, schema| {
            assert!(branches.count_object(schema) < 10);
        });
        assert!(!branches.is_circular(), "a member is another value");
        let flat = json!({"oneOf": vec![json!({"const": 1}); 10_000]});
        assert_eq!(Branches::of(&flat).count(&flat), 10_001);
        let elsewhere = json!({"properties": {"a": bomb["$defs"]["l25"], "b": true}});
        assert_eq!(Branches::of(&elsewhere).count(&elsewhere), 1, "members are places of their own");
    }
}
