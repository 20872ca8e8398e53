SELECT $1 IN (SELECT pg_listening_channels())
