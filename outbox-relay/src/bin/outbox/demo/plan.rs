//! What the sample service is asked to do: the same requests in every run.

/// How many customers there are in the end.
pub(super) const CUSTOMERS: i64 = 40;
/// How many writers ask at once; each has customers of its own.
pub(super) const WRITERS: i64 = 4;

const FIRST_CUSTOMER: i64 = 1001;

/// One request: one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) customer: i64,
    pub(super) change: Change,
    /// The service finds out last, after its publish, that it must not do it.
    pub(super) refused: bool,
}

/// What to do with the customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Create,
    Update,
    Archive,
    /// A script with its own idea of a payload writes a wrong event about the customer, and changes nothing.
    WrongImport,
}

/// The requests of one writer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Until the relay is killed.
    pub(super) before: Vec<Request>,
    /// From then on.
    pub(super) after: Vec<Request>,
}

impl Plan {
    /// The plan of writer 0 to [`WRITERS`] - 1.
    pub(super) fn of(writer: i64) -> Self {
        let mut before = Vec::new();
        let mine = || customers().filter(move |customer| customer % WRITERS == writer);
        for customer in mine() {
            before.push(kept(customer, Change::Create));
            if customer == FIRST_CUSTOMER {
                before.push(kept(customer, Change::WrongImport));
            }
        }
        let stranger = FIRST_CUSTOMER + CUSTOMERS + writer;
        before.push(Request { refused: true, ..kept(stranger, Change::Create) });
        let mut after = Vec::new();
        for round in 0..5 {
            let half = if round < 2 { &mut before } else { &mut after };
            for customer in mine() {
                if (customer + round) % 8 == 0 {
                    half.push(Request { refused: true, ..kept(customer, Change::Update) });
                }
                half.push(kept(customer, Change::Update));
            }
        }
        after.extend(mine().filter(|customer| customer % 5 == 0).map(|c| kept(c, Change::Archive)));
        Self { before, after }
    }
}

fn customers() -> impl Iterator<Item = i64> {
    FIRST_CUSTOMER..FIRST_CUSTOMER + CUSTOMERS
}

fn kept(customer: i64, change: Change) -> Request {
    Request { customer, change, refused: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Request> {
        (0..WRITERS).map(Plan::of).flat_map(|plan| [plan.before, plan.after].concat()).collect()
    }

    fn count(change: Change, refused: bool) -> usize {
        all().iter().filter(|request| request.change == change && request.refused == refused).count()
    }

    #[test]
    fn every_customer_lives_its_life_once() {
        assert_eq!([Change::Create, Change::Update, Change::Archive].map(|c| count(c, false)), [40, 200, 8]);
        assert_eq!(count(Change::WrongImport, false), 1);
        assert_eq!([Change::Create, Change::Update].map(|c| count(c, true)), [4, 25]);
        for customer in customers() {
            let life: Vec<_> = all().into_iter().filter(|r| r.customer == customer && !r.refused).collect();
            assert_eq!(life[0].change, Change::Create);
            assert_eq!(life.iter().filter(|r| r.change == Change::Create).count(), 1);
            assert!(life.iter().rev().skip(1).all(|r| r.change != Change::Archive), "archived last");
        }
    }

    #[test]
    fn no_two_writers_share_a_customer_and_both_halves_are_worth_it() {
        for customer in customers() {
            let writers = (0..WRITERS).filter(|writer| {
                let plan = Plan::of(*writer);
                plan.before.iter().chain(&plan.after).any(|request| request.customer == customer)
            });
            assert_eq!(writers.count(), 1);
        }
        for plan in (0..WRITERS).map(Plan::of) {
            assert!(plan.before.len() >= 30 && plan.after.len() >= 30);
        }
    }
}
