//! Whether what consumers ask for can be: names and pins, all problems at once.

use std::collections::BTreeSet;

use super::RegistrationProblem;
use crate::attempt::MissingSchema;
use crate::consumer::ConsumerSpec;
use crate::schemas::{Pinned, Schemas};

/// Says which pins nobody publishes, as far as the newest events tell: of a type that is among them, none has the major.
pub(super) fn tell_unpublished<'s>(
    specs: impl Iterator<Item = &'s ConsumerSpec>,
    published: &[(String, u32)],
) {
    for spec in specs {
        for (event_type, &pinned) in &spec.pins {
            let majors = published.iter().filter(|(name, _)| name == event_type).map(|(_, major)| *major);
            let majors: BTreeSet<u32> = majors.collect();
            if !majors.is_empty() && !majors.contains(&pinned) {
                tracing::warn!(
                    consumer = %spec.name,
                    event_type,
                    pinned,
                    published = ?majors,
                    "nobody publishes the pinned major of an event type: the newest stored events have only others, and are                      dead for this consumer or skipped. Move the pin, or have the producer store this major too (`also_as`)"
                );
            }
        }
    }
}

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
