-- {limit} milliseconds for a statement, or less where the role has less; {local}: in this transaction only.
SELECT set_config(
    'statement_timeout',
    (1000 * extract(epoch FROM least(
        nullif(current_setting('statement_timeout')::interval, '0'), {limit} * interval '1 millisecond'
    )))::bigint::text,
    {local}
)
