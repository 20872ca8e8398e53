//! What a caller can do about an error, by SQLSTATE and never by text.

use sqlx::Error;

use crate::backend::Fault;

/// Sorts an error.
pub(super) fn fault(error: &Error) -> Fault {
    match error {
        Error::Database(error) => error.code().map_or(Fault::Other, |code| by_sqlstate(&code)),
        Error::Encode(_) => Fault::Refused,
        Error::Io(_) | Error::Tls(_) | Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed => {
            Fault::Connection
        }
        _ => Fault::Other,
    }
}

fn by_sqlstate(code: &str) -> Fault {
    match code {
        "55P03" => Fault::AggregateBusy,
        "40P01" | "40001" => Fault::Retryable,
        // Relation, schema, function; column and type, for tables of an older release.
        "42P01" | "3F000" | "42883" | "42703" | "42704" => Fault::NotMigrated,
        "25P02" => Fault::TransactionFailed,
        "23514" | "23502" => Fault::Refused,
        // A text longer than a string may be, or than the memory there is.
        "54000" | "53200" => Fault::TooLarge,
        "57014" => Fault::TimedOut,
        "25006" => Fault::ReadOnly,
        "26000" | "42P05" => Fault::Pooler,
        "42501" => Fault::Denied,
        "3D000" => Fault::NoDatabase,
        // Object not in prerequisite state: of a connection, a database that takes none at the moment.
        "55000" => Fault::NotReady,
        // Shutdowns and ended sessions, a server without room.
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "25P04" | "53300" => Fault::Connection,
        _ => match code.get(..2) {
            // Values that a type cannot hold.
            Some("22") => Fault::Refused,
            Some("08") => Fault::Connection,
            Some("28") => Fault::NotLetIn,
            // Out of something, errors of the system, errors inside the server.
            Some("53" | "58" | "XX") => Fault::ServerTrouble,
            _ => Fault::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_says_what_to_do() {
        for (code, fault) in [
            ("55P03", Fault::AggregateBusy),
            ("40P01", Fault::Retryable),
            ("40001", Fault::Retryable),
            ("42P01", Fault::NotMigrated),
            ("42883", Fault::NotMigrated),
            ("25P02", Fault::TransactionFailed),
            ("23514", Fault::Refused),
            ("22P05", Fault::Refused),
            ("54000", Fault::TooLarge),
            ("53200", Fault::TooLarge),
            ("54001", Fault::Other),
            ("08006", Fault::Connection),
            ("3D000", Fault::NoDatabase),
            ("28P01", Fault::NotLetIn),
            ("28000", Fault::NotLetIn),
            ("25006", Fault::ReadOnly),
            ("57P01", Fault::Connection),
            ("57014", Fault::TimedOut),
            ("25006", Fault::ReadOnly),
            ("25P03", Fault::Connection),
            ("26000", Fault::Pooler),
            ("42P05", Fault::Pooler),
            ("42501", Fault::Denied),
            ("55000", Fault::NotReady),
            ("53100", Fault::ServerTrouble),
            ("53400", Fault::ServerTrouble),
            ("58030", Fault::ServerTrouble),
            ("XX001", Fault::ServerTrouble),
            ("53300", Fault::Connection),
            ("42601", Fault::Other),
            ("23505", Fault::Other),
            ("", Fault::Other),
        ] {
            assert_eq!(by_sqlstate(code), fault, "{code}");
        }
        assert_eq!(fault(&Error::PoolTimedOut), Fault::Connection);
        assert_eq!(fault(&Error::RowNotFound), Fault::Other);
    }
}
