//! The state machine against a database in memory: each rule by itself, then any order of events and faults.

mod answers;
mod bench;
mod careful;
mod database;
mod decided;
mod idle;
mod model;
mod operators;
mod outage;
mod reading;
mod reads;
mod resuming;
mod routing;
mod shared;
mod witness;
mod world;
