//! The keys of `#[outbox(..)]`: where each one stands, and how it is written.

/// A key of `#[outbox(..)]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    EventType,
    SchemaVersion,
    AggregateType,
    AlsoAs,
    Crate,
    Unregistered,
    AggregateId,
    TenantId,
}

/// What the attribute stands on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Struct,
    Field,
}

impl Key {
    pub(crate) const ALL: [Self; 8] = [
        Self::EventType,
        Self::SchemaVersion,
        Self::AggregateType,
        Self::AlsoAs,
        Self::Crate,
        Self::Unregistered,
        Self::AggregateId,
        Self::TenantId,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::EventType => "event_type",
            Self::SchemaVersion => "schema_version",
            Self::AggregateType => "aggregate_type",
            Self::AlsoAs => "also_as",
            Self::Crate => "crate",
            Self::Unregistered => "unregistered",
            Self::AggregateId => "aggregate_id",
            Self::TenantId => "tenant_id",
        }
    }

    pub(crate) fn place(self) -> Place {
        match self {
            Self::AggregateId | Self::TenantId => Place::Field,
            _ => Place::Struct,
        }
    }

    /// A flag takes no value.
    pub(crate) fn is_flag(self) -> bool {
        matches!(self, Self::Unregistered | Self::AggregateId | Self::TenantId)
    }

    /// The key as one writes it.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Self::EventType => "event_type = \"customer.updated\"",
            Self::SchemaVersion => "schema_version = 2",
            Self::AggregateType => "aggregate_type = \"customer\"",
            Self::AlsoAs => "also_as = CustomerUpdatedV1",
            Self::Crate => "crate = \"::outbox_sdk\"",
            Self::Unregistered | Self::AggregateId | Self::TenantId => self.name(),
        }
    }
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Struct => "struct",
            Self::Field => "field",
        }
    }

    pub(crate) fn keys(self) -> impl Iterator<Item = Key> {
        Key::ALL.into_iter().filter(move |key| key.place() == self)
    }
}
