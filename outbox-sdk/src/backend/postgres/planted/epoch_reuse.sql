-- claim: epochs are counted in the row, so they begin again when the row does.
-- instead of
    epoch = nextval({epoch}::regclass),
-- this
    epoch = consumer.epoch + 1,
