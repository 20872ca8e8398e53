//! Events without a Rust type against the schemas of the registry, before they are published.

use std::sync::Arc;

use outbox_schema::validate::Verdict;
pub use outbox_schema::validate::{Undeclared, UndeclaredMembers, Unreadable, Validators, Violations};

/// The schemas that [`Outbox::publish_json`](crate::Outbox::publish_json) asks, and how strictly.
#[derive(Debug, Clone)]
pub(crate) struct Validation {
    pub(crate) validators: Arc<Validators>,
    pub(crate) undeclared: UndeclaredMembers,
}

/// Why the registry does not take a payload. Says nothing of the payload's values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The payload is not as its schema says.
    #[error("the payload violates its schema: {0}; correct the payload")]
    Violations(Violations),
    /// The payload has members that its schema does not declare, and these are refused.
    #[error("the payload cannot be published: {0}; commit the schema with them as the next minor first")]
    Undeclared(Undeclared),
    /// There is no schema.
    #[error(
        "the registry has no schema for this event type and major (majors that have one: {known_majors:?}); add the file"
    )]
    Unknown {
        /// The majors of the event type that have a schema, ascending.
        known_majors: Vec<u32>,
    },
    /// The payload cannot be read.
    #[error(transparent)]
    Unreadable(Unreadable),
}

impl Validation {
    pub(crate) fn check(&self, event_type: &str, major: u32, payload: &str) -> Result<(), SchemaError> {
        match self.validators.check(event_type, major, payload) {
            Verdict::Valid => Ok(()),
            Verdict::Undeclared(_) if self.undeclared == UndeclaredMembers::Count => Ok(()),
            Verdict::Undeclared(members) => Err(SchemaError::Undeclared(members)),
            Verdict::Invalid(violations) => Err(SchemaError::Violations(violations)),
            Verdict::Unknown { known_majors } => Err(SchemaError::Unknown { known_majors }),
            Verdict::Unreadable(why) => Err(SchemaError::Unreadable(why)),
        }
    }
}
