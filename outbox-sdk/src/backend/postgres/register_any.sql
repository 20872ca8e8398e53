SELECT EXISTS (SELECT FROM {schema}.consumer)
