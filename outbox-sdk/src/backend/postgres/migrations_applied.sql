SELECT version, checksum FROM {table} ORDER BY version
