CREATE TABLE ledger (client text NOT NULL, id bigint NOT NULL, payload text NOT NULL, digest text NOT NULL, made timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (client, id));
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ledger TO tenant;
