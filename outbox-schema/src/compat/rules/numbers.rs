//! Numbers: whole or not, ranges, steps.

use std::fmt::Write as _;

use crate::compat::decimal::Decimal;
use crate::compat::finding::Rule;
use crate::compat::lower::{Alt, Bound, Numbers, Shape};
use crate::compat::prove::{At, Prover};
use crate::compat::rules::NEW_MAJOR;
use crate::compat::world::State;

impl<'a> Prover<'_, 'a> {
    pub(in crate::compat) fn numbers_within(
        &mut self,
        alt: &Alt<'a>,
        mine: &Numbers<'a>,
        theirs: &Numbers<'a>,
        reader: State,
        at: At,
    ) -> bool {
        let mut within = true;
        if theirs.integer && !mine.integer {
            let rule = self.either(Rule::TypeNarrowed, Rule::TypeWidened);
            let message = format!(
                "{} may have a fraction here, and {} expects an integer",
                self.writers(),
                self.readers()
            );
            let help = self
                .either("keep `number`", "keep `integer`, and put the new value into a member of its own");
            let reason = self.in_new(rule, at, "type", message, format!("{help}, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        let low = beyond(mine.min, theirs.min, true);
        let high = beyond(mine.max, theirs.max, false);
        if low || high {
            let whole = mine.integer && theirs.integer;
            let rule = if whole { Rule::IntRange } else { Rule::NumBound };
            let mut message = format!(
                "{} are in {}, and {} accepts {}",
                self.writers(),
                range(mine),
                self.readers(),
                range(theirs)
            );
            if let Some(lost) = first_lost(mine, theirs, low) {
                _ = write!(message, "; {lost} is lost");
            }
            let help = self.either("keep the wider range", "keep the range");
            let keyword = match (mine.format != theirs.format, low) {
                (true, _) => "format",
                (false, true) => "minimum",
                (false, false) => "maximum",
            };
            let reason = self.in_either(rule, at, keyword, message, format!("{help}, {NEW_MAJOR}"));
            self.fail_at(alt, reader, reason);
            within = false;
        }
        for step in &theirs.steps {
            let met = mine.steps.iter().any(|mine| mine.is_multiple_of(*step) == Some(true))
                || mine.integer && Decimal::ONE.is_multiple_of(*step) == Some(true);
            if !met {
                let message = format!(
                    "{} need not be a multiple of {step}, as {} asks",
                    self.writers(),
                    self.readers()
                );
                let reason = self.in_either(
                    Rule::MultipleOf,
                    at,
                    "multipleOf",
                    message,
                    format!("keep the step, {NEW_MAJOR}"),
                );
                self.fail_at(alt, reader, reason);
                within = false;
            }
        }
        within
    }
}

/// Whether the writer's end lies outside the reader's.
fn beyond(mine: Option<Bound>, theirs: Option<Bound>, low: bool) -> bool {
    let Some(theirs) = theirs else { return false };
    let Some(mine) = mine else { return true };
    let order = if low { mine.value.cmp(&theirs.value) } else { theirs.value.cmp(&mine.value) };
    order.is_lt() || order.is_eq() && theirs.exclusive && !mine.exclusive
}

fn range(numbers: &Numbers<'_>) -> String {
    let open = |bound: Option<Bound>| bound.is_some_and(|bound| bound.exclusive);
    let end = |bound: Option<Bound>| bound.map_or("..".to_owned(), |bound| bound.value.to_string());
    format!(
        "{}{}, {}{}{}",
        if open(numbers.min) { "(" } else { "[" },
        end(numbers.min),
        end(numbers.max),
        if open(numbers.max) { ")" } else { "]" },
        numbers.format.map_or(String::new(), |format| format!(" (`{format}`)")),
    )
}

/// The first integer beyond the reader's end.
fn first_lost(mine: &Numbers<'_>, theirs: &Numbers<'_>, low: bool) -> Option<Decimal> {
    let bound = if low { theirs.min } else { theirs.max }?;
    let lost = if bound.exclusive { bound.value } else { bound.value.rounded(!low).stepped(!low)? };
    (mine.has(lost) == Some(true)).then_some(lost)
}

/// Whether ranges without steps cover a range together.
pub(in crate::compat) fn joined(mine: &Numbers<'_>, theirs: &[Alt<'_>]) -> bool {
    let mut parts: Vec<&Numbers<'_>> = theirs
        .iter()
        .filter(|their| their.excluded.is_empty() && their.nots.is_empty() && their.opaque.is_empty())
        .filter_map(|their| match &their.shape {
            Shape::Number(numbers) if numbers.steps.is_empty() && (mine.integer || !numbers.integer) => {
                Some(numbers)
            }
            _ => None,
        })
        .collect();
    parts.sort_by_key(|part| part.min.map(|min| (min.value, min.exclusive)));
    // Everything below `reached` is covered; `None` is nothing yet.
    let mut reached: Option<Bound> = None;
    for part in parts {
        let starts_in = match (reached, part.min) {
            (_, None) => true,
            (None, Some(_)) => !beyond(mine.min, part.min, true),
            (Some(reached), Some(min)) => {
                min.value < reached.value
                    || min.value == reached.value && !(min.exclusive && reached.exclusive)
                    || mine.integer
                        && !reached.exclusive
                        && !min.exclusive
                        && reached.value.stepped(true) == Some(min.value)
            }
        };
        if !starts_in {
            break;
        }
        match part.max {
            None => return true,
            Some(max) => {
                let further = reached.is_none_or(|reached| {
                    max.value > reached.value || max.value == reached.value && reached.exclusive
                });
                if further {
                    reached = Some(max);
                }
            }
        }
    }
    reached.is_some() && !beyond(mine.max, reached, false)
}
