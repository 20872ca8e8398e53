//! Bad input and broken surroundings: a clear error or a pause, never a loss.

mod database;
mod publish;
mod receiver;
mod rights;
mod rows;
mod trust;
