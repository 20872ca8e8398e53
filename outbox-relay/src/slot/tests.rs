//! The state machine against a model of the database.
