//! The registry as one AsyncAPI 3 document: a channel per event type, a message per major, the newest minor as schema.
//!
//! AsyncAPI's own schemas are draft-07, so the registry's 2020-12 is written with the keywords of that. A message is what
//! a webhook receives by default: a CloudEvent with the payload in `data`.

use serde_json::{Map, Value, json};

use crate::document::{Place, place, resolve, sorted};
use crate::registry::{Registry, SchemaFile};

/// What the document says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Info<'a> {
    /// The title of the API.
    pub title: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// The document. The same registry gives the same document.
///
/// ```no_run
/// use outbox_schema::Registry;
/// use outbox_schema::asyncapi::{Info, document};
///
/// let registry = Registry::open("schemas")?;
/// println!("{:#}", document(&registry, Info { title: "Shop", version: "1.0.0" }));
/// # Ok::<(), outbox_schema::RegistryError>(())
/// ```
#[must_use]
pub fn document(registry: &Registry, info: Info<'_>) -> Value {
    let (mut channels, mut operations) = (Map::new(), Map::new());
    let mut messages = Map::new();
    let mut schemas = Map::from_iter([("cloudevent".to_owned(), cloud_event())]);
    for event_type in registry.event_types() {
        let name = event_type.as_str();
        let mut of_channel = Map::new();
        let mut references = Vec::new();
        for file in registry.majors(name).filter_map(|major| registry.newest(name, major)) {
            let key = key(file);
            let escaped = escaped(name);
            add_schemas(file, &key, &mut schemas);
            messages.insert(key.clone(), message(file, &key));
            of_channel
                .insert(format!("v{}", file.major), json!({"$ref": format!("#/components/messages/{key}")}));
            references.push(json!({"$ref": format!("#/channels/{escaped}/messages/v{}", file.major)}));
        }
        let mut channel = json!({"address": null, "messages": of_channel});
        if let Some(stone) = registry.tombstone(name) {
            channel["description"] =
                json!(format!("No longer published since {}: {}", stone.date, stone.reason));
        }
        channels.insert(name.to_owned(), channel);
        let channel = json!({"$ref": format!("#/channels/{}", escaped(name))});
        operations.insert(
            format!("publish.{name}"),
            json!({"action": "send", "channel": channel, "messages": references}),
        );
    }
    json!({
        "asyncapi": "3.0.0",
        "info": {"title": info.title, "version": info.version},
        "defaultContentType": "application/cloudevents+json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "schemas": schemas},
    })
}

/// The key of a major's message and schema.
fn key(file: &SchemaFile) -> String {
    format!("{}.v{}", file.event_type, file.major)
}

fn escaped(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

fn message(file: &SchemaFile, key: &str) -> Value {
    let mut message = json!({
        "name": file.event_type.as_str(),
        "title": format!("{} v{}", file.event_type, file.major),
        "contentType": "application/cloudevents+json",
        "payload": {
            "allOf": [{"$ref": "#/components/schemas/cloudevent"}],
            "properties": {
                "type": {"const": file.event_type.as_str()},
                "schemaversion": {"const": file.major},
                "data": {"$ref": format!("#/components/schemas/{key}")},
            },
            "required": ["type", "schemaversion", "data"],
        },
        "x-outbox-minor": file.minor,
        "x-outbox-fingerprint": file.fingerprint.to_string(),
    });
    if let Some(Value::String(text)) = file.schema.get("description") {
        message["summary"] = json!(text.lines().next().unwrap_or_default());
    }
    message
}

/// The attributes of a structured CloudEvent as the relay writes it.
fn cloud_event() -> Value {
    let text = |meaning: &str| json!({"type": "string", "description": meaning});
    json!({
        "type": "object",
        "required": [
            "specversion", "id", "source", "type", "time", "schemaversion", "aggregatetype", "sequence", "partitionkey", "data",
        ],
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {"type": "string", "format": "uuid", "description": "The event_id: deduplicate by it."},
            "source": {"type": "string", "format": "uri-reference"},
            "type": text("The event type."),
            "subject": text("The aggregate's id."),
            "time": {"type": "string", "format": "date-time", "description": "When it occurred."},
            "dataschema": {"type": "string", "format": "uri"},
            "datacontenttype": {"const": "application/json"},
            "schemaversion": {"type": "integer", "minimum": 1, "description": "The major of the payload."},
            "aggregatetype": text("The aggregate's type."),
            "tenantid": {"type": "string", "format": "uuid"},
            "correlationid": {"type": "string", "format": "uuid"},
            "causationid": {"type": "string", "format": "uuid"},
            "auditlogid": text("The row of the service's audit log."),
            "actor": text("Who acted, as JSON text."),
            "sequence": text("Ascends inside an aggregate, compared as a string."),
            "partitionkey": text("The lane: events of one lane come in order."),
            "traceparent": text("W3C trace context."),
            "tracestate": text("W3C trace context."),
            "data": {"type": "object", "description": "The payload."},
        },
    })
}

/// Adds the schema under `key`, and each schema that it refers to under a key of its own.
fn add_schemas(file: &SchemaFile, key: &str, schemas: &mut Map<String, Value>) {
    let mut older = Older { root: &file.schema, key, targets: Vec::new() };
    let root = older.schema(&file.schema);
    schemas.insert(key.to_owned(), root);
    let mut done = 0;
    // Writing one may name more.
    while let Some((name, target)) = older.targets.get(done).cloned() {
        let schema = older.schema(target);
        schemas.insert(name, schema);
        done += 1;
    }
}

/// One document, written with the keywords of draft-07.
struct Older<'a> {
    root: &'a Value,
    key: &'a str,
    /// What is referred to, in the order of first mention: name among the components, schema.
    targets: Vec<(String, &'a Value)>,
}

impl<'a> Older<'a> {
    fn schema(&mut self, schema: &'a Value) -> Value {
        let Value::Object(object) = schema else { return schema.clone() };
        let mut made = Map::new();
        for (keyword, value) in sorted(object) {
            match keyword.as_str() {
                "$schema" | "$defs" | "definitions" => {}
                "$ref" => {
                    let target = value.as_str().and_then(|target| resolve(self.root, target));
                    if let Some(target) = target {
                        made.insert("$ref".to_owned(), Value::from(self.reference(target)));
                    }
                }
                "prefixItems" => _ = made.insert("items".to_owned(), self.list(value)),
                "items" if object.contains_key("prefixItems") => {
                    let rest = self.schema(value);
                    made.insert("additionalItems".to_owned(), rest);
                }
                "dependentRequired" | "dependentSchemas" => {
                    let named = self.named(value, keyword == "dependentSchemas");
                    let dependencies = made.entry("dependencies").or_insert_with(|| json!({}));
                    if let (Value::Object(all), Value::Object(named)) = (dependencies, named) {
                        for (name, value) in named {
                            both(all, name, value);
                        }
                    }
                }
                _ => {
                    let value = match place(keyword) {
                        Place::Schema => self.schema(value),
                        Place::List => self.list(value),
                        Place::Named => self.named(value, true),
                        Place::Data => value.clone(),
                    };
                    made.insert(keyword.clone(), value);
                }
            }
        }
        // In draft-07 a reference stands alone.
        if made.len() > 1
            && let Some(reference) = made.remove("$ref")
        {
            let mut all = vec![json!({"$ref": reference})];
            if let Some(Value::Array(more)) = made.remove("allOf") {
                all.extend(more);
            }
            made.insert("allOf".to_owned(), Value::Array(all));
        }
        Value::Object(made)
    }

    fn list(&mut self, value: &'a Value) -> Value {
        value.as_array().into_iter().flatten().map(|schema| self.schema(schema)).collect()
    }

    fn named(&mut self, value: &'a Value, schemas: bool) -> Value {
        let named = value.as_object().map(sorted).unwrap_or_default().into_iter();
        named
            .map(|(name, value)| (name.clone(), if schemas { self.schema(value) } else { value.clone() }))
            .collect()
    }

    fn reference(&mut self, target: &'a Value) -> String {
        if std::ptr::eq(target, self.root) {
            return format!("#/components/schemas/{}", self.key);
        }
        let known = self.targets.iter().find(|(_, known)| std::ptr::eq(*known, target));
        let name = match known {
            Some((name, _)) => name.clone(),
            None => {
                let name = format!("{}.{}", self.key, self.targets.len() + 1);
                self.targets.push((name.clone(), target));
                name
            }
        };
        format!("#/components/schemas/{name}")
    }
}

/// Adds a dependency; where one of the other kind is there, both hold.
fn both(all: &mut Map<String, Value>, name: String, value: Value) {
    let as_schema = |value: Value| if value.is_array() { json!({"required": value}) } else { value };
    let value = match all.remove(&name) {
        Some(first) => json!({"allOf": [as_schema(first), as_schema(value)]}),
        None => value,
    };
    all.insert(name, value);
}

#[cfg(test)]
mod tests;
