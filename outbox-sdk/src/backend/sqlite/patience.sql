-- Migrations of other processes take a moment, whatever busy timeout the service runs with.
PRAGMA busy_timeout = 60000
