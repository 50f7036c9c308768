CREATE TABLE crashes (
	server VARCHAR(36) NOT NULL,
	host VARCHAR(255) NOT NULL,
	heard DOUBLE NOT NULL,
	why JSON NOT NULL,
	PRIMARY KEY (server, host)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE durations (
	server VARCHAR(36) NOT NULL,
	seconds DOUBLE NOT NULL,
	samples INTEGER NOT NULL,
	updated DOUBLE NOT NULL,
	PRIMARY KEY (server)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE engines (
	engine VARCHAR(255) NOT NULL,
	counter BIGINT NOT NULL,
	deaf BOOL NOT NULL,
	silent JSON NOT NULL,
	heard JSON NOT NULL,
	expected JSON NOT NULL,
	PRIMARY KEY (engine)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE hosts (
	name VARCHAR(255) NOT NULL,
	state VARCHAR(16) NOT NULL,
	generation BIGINT NOT NULL,
	since DOUBLE NOT NULL,
	why JSON NOT NULL,
	word VARCHAR(16),
	word_reason TEXT,
	flaps INTEGER NOT NULL,
	goodbye VARCHAR(16),
	goodbye_at DOUBLE,
	held JSON,
	kernel VARCHAR(255),
	sentinel VARCHAR(16),
	voices VARCHAR(16),
	silent_since DOUBLE,
	shows BOOL NOT NULL,
	dead_at DOUBLE,
	PRIMARY KEY (name)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE modes (
	scope VARCHAR(16) NOT NULL,
	name VARCHAR(255) NOT NULL,
	lasts BOOL NOT NULL,
	mode VARCHAR(16) NOT NULL,
	reason TEXT NOT NULL,
	user VARCHAR(255) NOT NULL,
	since DOUBLE NOT NULL,
	until DOUBLE,
	PRIMARY KEY (scope, name, lasts)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE recoveries (
	id VARCHAR(36) NOT NULL,
	server VARCHAR(36) NOT NULL,
	active SMALLINT,
	server_name VARCHAR(255) NOT NULL,
	project VARCHAR(255) NOT NULL,
	host VARCHAR(255) NOT NULL,
	suspected DOUBLE NOT NULL,
	state VARCHAR(16) NOT NULL,
	epoch BIGINT NOT NULL,
	engine VARCHAR(255),
	why JSON NOT NULL,
	priority INTEGER NOT NULL,
	expected DOUBLE,
	destination VARCHAR(255),
	superposition VARCHAR(64),
	outcome VARCHAR(16),
	error TEXT,
	abort TEXT,
	bytes BIGINT,
	created DOUBLE NOT NULL,
	updated DOUBLE NOT NULL,
	ended DOUBLE,
	PRIMARY KEY (id),
	CONSTRAINT recoveries_one_active UNIQUE (server, active)
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
CREATE INDEX recoveries_active ON recoveries (active, host);
CREATE INDEX recoveries_created ON recoveries (created, id);
CREATE INDEX recoveries_ended ON recoveries (ended);
CREATE INDEX recoveries_project ON recoveries (project, created);
CREATE TABLE recovery_steps (
	id BIGINT NOT NULL AUTO_INCREMENT,
	recovery VARCHAR(36) NOT NULL,
	name VARCHAR(64) NOT NULL,
	attempt INTEGER NOT NULL,
	engine VARCHAR(255) NOT NULL,
	began DOUBLE NOT NULL,
	ended DOUBLE,
	detail JSON NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT recovery_steps_attempt UNIQUE (recovery, name, attempt),
	CONSTRAINT recovery_steps_recovery FOREIGN KEY(recovery) REFERENCES recoveries (id) ON DELETE CASCADE
)ENGINE=InnoDB CHARSET=utf8mb4 COLLATE utf8mb4_bin;
