-- "Herm": tells our file from another program's.
PRAGMA application_id = 1214607981;
