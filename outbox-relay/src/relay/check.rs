//! Whether what consumers ask for can be: names and pins, all problems at once.

use std::collections::BTreeSet;

use super::RegistrationProblem;
use crate::attempt::MissingSchema;
use crate::consumer::ConsumerSpec;
use crate::schemas::{Pinned, Schemas};

/// Every problem. Where events need no schema, pins need none either.
pub(super) fn problems<'s>(
    specs: impl Iterator<Item = &'s ConsumerSpec>,
    schemas: &Schemas,
    missing: MissingSchema,
) -> Vec<RegistrationProblem> {
    let mut names = BTreeSet::new();
    let mut problems = Vec::new();
    for spec in specs {
        if !names.insert(spec.name.as_str()) {
            problems.push(RegistrationProblem::DuplicateConsumer(spec.name.to_string()));
        }
        if missing == MissingSchema::Deliver {
            continue;
        }
        for (event_type, major) in &spec.pins {
            let (consumer, event_type, major) = (spec.name.to_string(), event_type.clone(), *major);
            match schemas.pinned(&event_type, major) {
                Pinned::Good => {}
                Pinned::Unpublished => tracing::warn!(
                    consumer,
                    event_type,
                    major,
                    "nobody publishes a pinned event type any more: the registry has it as removed. Take the pin back once what \
                     is stored has been delivered"
                ),
                Pinned::UnknownType => {
                    problems.push(RegistrationProblem::UnknownType { consumer, event_type });
                }
                Pinned::UnknownMajor(known) => {
                    let known: Vec<_> = known.iter().map(|major| format!("v{major}")).collect();
                    let known = known.join(", ");
                    problems.push(RegistrationProblem::UnknownMajor { consumer, event_type, major, known });
                }
            }
        }
    }
    problems
}
