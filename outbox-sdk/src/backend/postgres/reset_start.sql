-- The first event whose transaction began at or after $1.
SELECT {first_since} FROM (SELECT $1::timestamptz AS at) AS since
