-- Whether the database is a file; one in memory ends with its last connection.
SELECT file <> '' FROM pragma_database_list WHERE name = 'main'
