#!/bin/sh
# Run by PostgreSQL's image for a new volume: create one user and one private database per program.
set -eu

make_database() {
    NAME="$1" PASSWORD="$2" psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv name NAME
\getenv password PASSWORD
CREATE ROLE :"name" LOGIN PASSWORD :'password';
CREATE DATABASE :"name" OWNER :"name" ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

make_database outfox "$OUTFOX_DB_PASSWORD"
make_database label_studio "$LABEL_STUDIO_DB_PASSWORD"
make_database marketplace "$MARKETPLACE_DB_PASSWORD"
