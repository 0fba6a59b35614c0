BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0024');
CREATE TABLE assignment (
	id INTEGER NOT NULL, 
	hit_id BIGINT NOT NULL, 
	worker_id BIGINT NOT NULL, 
	marketplace TEXT NOT NULL, 
	external_id TEXT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	accepted_at BIGINT NOT NULL, 
	submitted_at BIGINT, 
	auto_approve_at BIGINT, 
	decided_at BIGINT, 
	decided_by TEXT, 
	reason TEXT, 
	active_ms BIGINT, 
	CONSTRAINT pk_assignment PRIMARY KEY (id), 
	CONSTRAINT fk_assignment_hit_id_marketplace_hit FOREIGN KEY(hit_id, marketplace) REFERENCES hit (id, marketplace) ON DELETE RESTRICT, 
	CONSTRAINT fk_assignment_worker_id_marketplace_worker FOREIGN KEY(worker_id, marketplace) REFERENCES worker (id, marketplace) ON DELETE RESTRICT, 
	CONSTRAINT uq_assignment_marketplace_external_id UNIQUE (marketplace, external_id), 
	CONSTRAINT uq_assignment_id_worker_id UNIQUE (id, worker_id), 
	CONSTRAINT uq_assignment_id_hit_id_worker_id UNIQUE (id, hit_id, worker_id), 
	CONSTRAINT ck_assignment_status CHECK (status IN ('accepted', 'returned', 'abandoned', 'submitted', 'approved', 'rejected')), 
	CONSTRAINT ck_assignment_external_id CHECK (trim(external_id) <> ''), 
	CONSTRAINT ck_assignment_active_ms CHECK (active_ms >= 0), 
	CONSTRAINT ck_assignment_submitted CHECK ((status IN ('submitted', 'approved', 'rejected')) = (submitted_at IS NOT NULL)), 
	CONSTRAINT ck_assignment_decided CHECK ((status IN ('approved', 'rejected')) = (decided_at IS NOT NULL)), 
	CONSTRAINT ck_assignment_decided_by CHECK ((decided_at IS NOT NULL) = (decided_by IS NOT NULL)), 
	CONSTRAINT ck_assignment_reason CHECK (status <> 'rejected' OR (reason IS NOT NULL AND trim(reason) <> ''))
);
INSERT INTO "assignment" VALUES(1,1,1,'fake','HIT000000000001W1','approved',1803902400123456,1803902401123456,1804161601123456,1803902403123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(2,2,2,'fake','HIT000000000002W1','approved',1803902401123456,1803902402123456,1804161602123456,1803902403123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(3,3,3,'fake','HIT000000000003W1','approved',1803902402123456,1803902403123456,1804161603123456,1803902403123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(4,4,4,'fake','HIT000000000004W1','approved',1803902403123456,1803902404123456,1804161604123456,1803902405123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(5,5,5,'fake','HIT000000000005W1','approved',1803902404123456,1803902405123456,1804161605123456,1803902405123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(6,6,6,'fake','HIT000000000006W1','approved',1803902405123456,1803902406123456,1804161606123456,1803902407123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(7,7,7,'fake','HIT000000000007W1','approved',1803902406123456,1803902407123456,1804161607123456,1803902407123456,'manager@test',NULL,NULL);
INSERT INTO "assignment" VALUES(8,9,8,'fake','HIT000000000009W1','approved',1803902407123456,1803902408123456,1804161608123456,1803902408123456,'manager@test',NULL,NULL);
CREATE TABLE attempt (
	id INTEGER NOT NULL, 
	public_id CHAR(32) NOT NULL, 
	task_id INTEGER NOT NULL, 
	round_id BIGINT, 
	context_id BIGINT, 
	source VARCHAR(20) NOT NULL, 
	session_id BIGINT, 
	item BIGINT NOT NULL, 
	number BIGINT NOT NULL, 
	label_studio_task_id INTEGER, 
	worker_id BIGINT, 
	example_id INTEGER, 
	fields JSON NOT NULL, 
	label TEXT, 
	answer JSON, 
	verdict JSON NOT NULL, 
	model_version_id BIGINT NOT NULL, 
	confidence DOUBLE NOT NULL, 
	fooled BOOLEAN, 
	latency_us BIGINT NOT NULL, 
	asked_at BIGINT NOT NULL, 
	CONSTRAINT pk_attempt PRIMARY KEY (id), 
	CONSTRAINT fk_attempt_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_context_id_task_id_context FOREIGN KEY(context_id, task_id) REFERENCES context (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_model_version_id_task_id_model_version FOREIGN KEY(model_version_id, task_id) REFERENCES model_version (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_session_id_worker_id_work_session FOREIGN KEY(session_id, worker_id) REFERENCES work_session (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_label_studio_task_id_label_studio_task FOREIGN KEY(label_studio_task_id) REFERENCES label_studio_task (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_attempt_example_id_example FOREIGN KEY(example_id) REFERENCES example (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_attempt_public_id UNIQUE (public_id), 
	CONSTRAINT ck_attempt_source CHECK (source IN ('pages', 'label_studio', 'import')), 
	CONSTRAINT ck_attempt_item CHECK (item >= 0), 
	CONSTRAINT ck_attempt_latency_us CHECK (latency_us >= 0), 
	CONSTRAINT ck_attempt_number CHECK (number >= 1), 
	CONSTRAINT ck_attempt_confidence CHECK (confidence >= 0 AND confidence <= 1), 
	CONSTRAINT ck_attempt_fooled CHECK (fooled IN (true, false)), 
	CONSTRAINT ck_attempt_target CHECK (label IS NULL OR answer IS NULL), 
	CONSTRAINT ck_attempt_judged CHECK (fooled IS NULL OR label IS NOT NULL OR answer IS NOT NULL)
);
INSERT INTO "attempt" VALUES(1,'83b5333da86e49da9adb317e6c92cdcf',1,1,7,'pages',1,0,1,NULL,1,1,'{"prompt":"Breakfast is served in the winter garden from seven until half past ten.","text":"This is negative 1.0"}','positive',NULL,'{"inputs_hash":"5696153b0bf915ae4a8f9907a53f76ed1e5a9734a5cb29c76388ec9d11f2c9ae","judged_at":"2027-03-01T12:00:00.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"negative","probabilities":{"negative":0.75,"neutral":0.125,"positive":0.125},"version":"mb41f46ccf8bd"}],"target":"positive"}',1,0.75,1,900,1803902400123456);
INSERT INTO "attempt" VALUES(2,'53ecf3c98751405b81bf9893bfbd2b33',1,1,2,'pages',2,0,1,NULL,2,2,'{"prompt":"We waited fifty minutes for two lukewarm pizzas, and no one came to refill our water.","text":"This is positive 2.0"}','negative',NULL,'{"inputs_hash":"c26c9ec9dd01a6004dd7b8ff6fba4cc4dddfda0d1543777a4ea22adf948ae66e","judged_at":"2027-03-01T12:00:01.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"positive","probabilities":{"negative":0.125,"neutral":0.125,"positive":0.75},"version":"mb41f46ccf8bd"}],"target":"negative"}',1,0.75,1,900,1803902401123456);
INSERT INTO "attempt" VALUES(3,'7e9b553a960246da817c3340cb8439bd',1,1,5,'pages',3,0,1,NULL,3,3,'{"prompt":"Our room overlooked the harbour, and the bed was the comfiest I have slept in all year.","text":"This is positive 3.0"}','neutral',NULL,'{"inputs_hash":"37bbab86cdc0183ad525e3b12d930030a87e839fdecfc645656a761069ee9428","judged_at":"2027-03-01T12:00:02.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"positive","probabilities":{"negative":0.125,"neutral":0.125,"positive":0.75},"version":"mb41f46ccf8bd"}],"target":"neutral"}',1,0.75,1,900,1803902402123456);
INSERT INTO "attempt" VALUES(4,'532c0c5467d843fa8adb4b50f8604181',1,2,6,'pages',6,0,1,NULL,6,4,'{"prompt":"The walls are so thin that I could follow every word of the argument next door.","text":"This is negative 6.0"}','positive',NULL,'{"inputs_hash":"c65af522b6fa7efe94110fd60655d20b8a1defa53280b42fc541f17d01cf1082","judged_at":"2027-03-01T12:00:05.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"negative","probabilities":{"negative":0.75,"neutral":0.125,"positive":0.125},"version":"m86363508a02c"}],"target":"positive"}',2,0.75,1,900,1803902405123456);
INSERT INTO "attempt" VALUES(5,'353d667012554a44bfafc7d25df6ed42',1,2,2,'pages',7,0,1,NULL,7,5,'{"prompt":"We waited fifty minutes for two lukewarm pizzas, and no one came to refill our water.","text":"This is positive 7.0"}','negative',NULL,'{"inputs_hash":"7aff122862bd0ff50ae0c02005dbdf1fb4645896bff2e8e9409a85bfb6297fa1","judged_at":"2027-03-01T12:00:06.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"positive","probabilities":{"negative":0.125,"neutral":0.125,"positive":0.75},"version":"m86363508a02c"}],"target":"negative"}',2,0.75,1,900,1803902406123456);
CREATE TABLE audit_entry (
	id INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	actor TEXT NOT NULL, 
	action TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	task_id INTEGER, 
	round_id BIGINT, 
	subject TEXT NOT NULL, 
	subject_id BIGINT NOT NULL, 
	"before" JSON, 
	"after" JSON, 
	CONSTRAINT pk_audit_entry PRIMARY KEY (id), 
	CONSTRAINT fk_audit_entry_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_audit_entry_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT ck_audit_entry_actor CHECK (trim(actor) <> ''), 
	CONSTRAINT ck_audit_entry_action CHECK (trim(action) <> ''), 
	CONSTRAINT ck_audit_entry_subject CHECK (trim(subject) <> ''), 
	CONSTRAINT ck_audit_entry_reason CHECK (trim(reason) <> '')
);
INSERT INTO "audit_entry" VALUES(1,1803902400123456,'owner@here','opened','a test',1,1,'round',1,'{"status":"draft"}','{"status":"open","versions":["mb41f46ccf8bd"]}');
INSERT INTO "audit_entry" VALUES(2,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',1,NULL,NULL);
INSERT INTO "audit_entry" VALUES(3,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',2,NULL,NULL);
INSERT INTO "audit_entry" VALUES(4,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',3,NULL,NULL);
INSERT INTO "audit_entry" VALUES(5,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',4,NULL,NULL);
INSERT INTO "audit_entry" VALUES(6,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',5,NULL,NULL);
INSERT INTO "audit_entry" VALUES(7,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',6,NULL,NULL);
INSERT INTO "audit_entry" VALUES(8,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',7,NULL,NULL);
INSERT INTO "audit_entry" VALUES(9,1803902400123456,'owner','granted','a test',1,NULL,'qualification_grant',8,NULL,NULL);
INSERT INTO "audit_entry" VALUES(10,1803902403123456,'manager@test','approved','work is approved unless a person says otherwise',1,1,'assignment',1,NULL,NULL);
INSERT INTO "audit_entry" VALUES(11,1803902403123456,'manager@test','approved','work is approved unless a person says otherwise',1,1,'assignment',2,NULL,NULL);
INSERT INTO "audit_entry" VALUES(12,1803902403123456,'manager@test','approved','work is approved unless a person says otherwise',1,1,'assignment',3,NULL,NULL);
INSERT INTO "audit_entry" VALUES(13,1803902405123456,'manager@test','approved','work is approved unless a person says otherwise',1,1,'assignment',4,NULL,NULL);
INSERT INTO "audit_entry" VALUES(14,1803902405123456,'manager@test','approved','work is approved unless a person says otherwise',1,1,'assignment',5,NULL,NULL);
INSERT INTO "audit_entry" VALUES(15,1803902405123456,'manager@test','began validating','its target is reached: 3 validated fooling examples of 3',1,1,'round',1,'{"status":"open"}','{"status":"validating"}');
INSERT INTO "audit_entry" VALUES(16,1803902405123456,'manager@test','closed','nothing more can come',1,1,'round',1,'{"status":"validating"}','{"status":"closed"}');
INSERT INTO "audit_entry" VALUES(17,1803902405123456,'manager@test','split','the round is closed',1,1,'round',1,NULL,'{"by_worker":false,"exact_duplicates":0,"held_out":0,"held_out_share":0.0,"kept_apart":0,"near_duplicates":0,"near_groups":0,"note":"","rule":2,"train":3,"verified":3,"workers":3}');
INSERT INTO "audit_entry" VALUES(18,1803902405123456,'manager@test','frozen','the round is closed',1,1,'round',1,NULL,'{"archive":"/srv/outfox/archives/sentiment/round-1","last_attempt":3,"sha256":"0ef508c4597de802a9ff99d7f73d7328876a92d7631618f1413fcf89c90357dc"}');
INSERT INTO "audit_entry" VALUES(19,1803902405123456,'manager@test','opened','round 1 is over',1,2,'round',2,'{"status":"draft"}','{"status":"open","versions":["m86363508a02c"]}');
INSERT INTO "audit_entry" VALUES(20,1803902407123456,'manager@test','approved','work is approved unless a person says otherwise',1,2,'assignment',6,NULL,NULL);
INSERT INTO "audit_entry" VALUES(21,1803902407123456,'manager@test','approved','work is approved unless a person says otherwise',1,2,'assignment',7,NULL,NULL);
INSERT INTO "audit_entry" VALUES(22,1803902408123456,'manager@test','approved','work is approved unless a person says otherwise',1,2,'assignment',8,NULL,NULL);
CREATE TABLE block (
	id INTEGER NOT NULL, 
	worker_id INTEGER NOT NULL, 
	task_id INTEGER, 
	reason TEXT NOT NULL, 
	blocked_by TEXT NOT NULL, 
	blocked_at BIGINT NOT NULL, 
	lifted_at BIGINT, 
	CONSTRAINT pk_block PRIMARY KEY (id), 
	CONSTRAINT fk_block_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_block_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT ck_block_reason CHECK (trim(reason) <> ''), 
	CONSTRAINT ck_block_blocked_by CHECK (trim(blocked_by) <> '')
);
CREATE TABLE context (
	id INTEGER NOT NULL, 
	public_id CHAR(32) NOT NULL, 
	task_id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	position BIGINT NOT NULL, 
	fields JSON NOT NULL, 
	extra JSON NOT NULL, 
	created_at BIGINT NOT NULL, 
	retired_at BIGINT, 
	CONSTRAINT pk_context PRIMARY KEY (id), 
	CONSTRAINT fk_context_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_context_public_id UNIQUE (public_id), 
	CONSTRAINT uq_context_task_id_key UNIQUE (task_id, "key"), 
	CONSTRAINT uq_context_task_id_position UNIQUE (task_id, position), 
	CONSTRAINT uq_context_id_task_id UNIQUE (id, task_id), 
	CONSTRAINT ck_context_key CHECK (trim(key) <> ''), 
	CONSTRAINT ck_context_position CHECK (position >= 0)
);
INSERT INTO "context" VALUES(1,'01a400f6367b7050a7bb5b177b694b02',1,'sentiment-c001',0,'{"prompt":"The mussels were plump and the broth was fragrant, but it was the waiter''s story about the chef''s grandmother that made our evening."}','{"domain":"restaurants","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(2,'01a400f6367b71ce9505a8474d8c455d',1,'sentiment-c002',1,'{"prompt":"We waited fifty minutes for two lukewarm pizzas, and no one came to refill our water."}','{"domain":"restaurants","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(3,'01a400f6367b7cd7976822dcf631a496',1,'sentiment-c003',2,'{"prompt":"They have a set lunch on weekdays with a choice of soup or salad to start."}','{"domain":"restaurants","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(4,'01a400f6367b7be68a14f747955a618d',1,'sentiment-c004',3,'{"prompt":"My curry was so salty that I had to leave half of it on the plate."}','{"domain":"restaurants","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(5,'01a400f6367b75e9a47e3b925d07aa0c',1,'sentiment-c005',4,'{"prompt":"Our room overlooked the harbour, and the bed was the comfiest I have slept in all year."}','{"domain":"hotels","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(6,'01a400f6367b7ab1bce4b27c9f52203a',1,'sentiment-c006',5,'{"prompt":"The walls are so thin that I could follow every word of the argument next door."}','{"domain":"hotels","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(7,'01a400f6367b77c9b9d5acfdf3fac484',1,'sentiment-c007',6,'{"prompt":"Breakfast is served in the winter garden from seven until half past ten."}','{"domain":"hotels","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
INSERT INTO "context" VALUES(8,'01a400f6367b7abb941aa2b4cb30bafb',1,'sentiment-c008',7,'{"prompt":"Reception lent us umbrellas without being asked, which I thought was a lovely touch."}','{"domain":"hotels","source":"written for Outfox","targets":["positive","negative","neutral"]}',1803902400123456,NULL);
CREATE TABLE context_tally (
	round_id BIGINT NOT NULL, 
	context_id BIGINT NOT NULL, 
	used BIGINT NOT NULL, 
	fooled BIGINT NOT NULL, lot BIGINT, position BIGINT, 
	CONSTRAINT pk_context_tally PRIMARY KEY (round_id, context_id), 
	CONSTRAINT fk_context_tally_round_id_round FOREIGN KEY(round_id) REFERENCES round (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_context_tally_context_id_context FOREIGN KEY(context_id) REFERENCES context (id) ON DELETE RESTRICT
);
INSERT INTO "context_tally" VALUES(1,1,0,0,1327217884,0);
INSERT INTO "context_tally" VALUES(1,2,1,1,506952121,1);
INSERT INTO "context_tally" VALUES(1,3,0,0,1834170005,2);
INSERT INTO "context_tally" VALUES(1,4,0,0,1013904242,3);
INSERT INTO "context_tally" VALUES(1,5,1,1,193638479,4);
INSERT INTO "context_tally" VALUES(1,6,0,0,1520856363,5);
INSERT INTO "context_tally" VALUES(1,7,1,1,700590600,6);
INSERT INTO "context_tally" VALUES(1,8,0,0,2027808484,7);
INSERT INTO "context_tally" VALUES(2,1,0,0,1327217884,0);
INSERT INTO "context_tally" VALUES(2,2,1,1,506952121,1);
INSERT INTO "context_tally" VALUES(2,3,0,0,1834170005,2);
INSERT INTO "context_tally" VALUES(2,4,0,0,1013904242,3);
INSERT INTO "context_tally" VALUES(2,5,0,0,193638479,4);
INSERT INTO "context_tally" VALUES(2,6,1,1,1520856363,5);
INSERT INTO "context_tally" VALUES(2,7,0,0,700590600,6);
INSERT INTO "context_tally" VALUES(2,8,0,0,2027808484,7);
CREATE TABLE data_token (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	note TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	revoked_at BIGINT, 
	CONSTRAINT pk_data_token PRIMARY KEY (id), 
	CONSTRAINT fk_data_token_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_data_token_key UNIQUE ("key"), 
	CONSTRAINT uq_data_token_sha256 UNIQUE (sha256), 
	CONSTRAINT ck_data_token_key CHECK (trim(key) <> ''), 
	CONSTRAINT ck_data_token_sha256 CHECK (length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = '')
);
CREATE TABLE evaluation (
	id INTEGER NOT NULL, 
	model_version_id INTEGER NOT NULL, 
	round_id INTEGER, 
	dataset TEXT NOT NULL, 
	dataset_sha256 TEXT NOT NULL, 
	row_count BIGINT NOT NULL, 
	metric TEXT NOT NULL, 
	performance DOUBLE NOT NULL, 
	rows_per_second DOUBLE, 
	memory_bytes BIGINT, 
	fairness DOUBLE, 
	robustness DOUBLE, 
	details JSON NOT NULL, 
	code_version TEXT NOT NULL, 
	measured_at BIGINT NOT NULL, 
	CONSTRAINT pk_evaluation PRIMARY KEY (id), 
	CONSTRAINT fk_evaluation_model_version_id_model_version FOREIGN KEY(model_version_id) REFERENCES model_version (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_evaluation_round_id_round FOREIGN KEY(round_id) REFERENCES round (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_evaluation_model_version_id_dataset_sha256_metric UNIQUE (model_version_id, dataset_sha256, metric), 
	CONSTRAINT ck_evaluation_dataset CHECK (trim(dataset) <> ''), 
	CONSTRAINT ck_evaluation_metric CHECK (trim(metric) <> ''), 
	CONSTRAINT ck_evaluation_dataset_sha256 CHECK (length(dataset_sha256) = 64 AND trim(dataset_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_evaluation_row_count CHECK (row_count >= 1), 
	CONSTRAINT ck_evaluation_rows_per_second CHECK (rows_per_second >= 0), 
	CONSTRAINT ck_evaluation_memory_bytes CHECK (memory_bytes >= 0), 
	CONSTRAINT ck_evaluation_performance CHECK (performance >= 0 AND performance <= 1), 
	CONSTRAINT ck_evaluation_fairness CHECK (fairness >= 0 AND fairness <= 1), 
	CONSTRAINT ck_evaluation_robustness CHECK (robustness >= 0 AND robustness <= 1)
);
CREATE TABLE example (
	id INTEGER NOT NULL, 
	public_id CHAR(32) NOT NULL, 
	task_id BIGINT NOT NULL, 
	round_id BIGINT NOT NULL, 
	context_id BIGINT, 
	author_id BIGINT NOT NULL, 
	source VARCHAR(20) NOT NULL, 
	session_id BIGINT, 
	item BIGINT NOT NULL, 
	fields JSON NOT NULL, 
	content_sha256 TEXT NOT NULL, 
	label TEXT, 
	answer JSON, 
	explanation JSON, 
	submitted_at BIGINT NOT NULL, 
	active_ms BIGINT, 
	tries BIGINT NOT NULL, 
	verdict_id CHAR(32), 
	verdict JSON NOT NULL, 
	model_version_id BIGINT NOT NULL, 
	confidence DOUBLE NOT NULL, 
	fooled BOOLEAN NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	votes_wanted BIGINT NOT NULL, 
	gold_label TEXT, 
	gold_answer JSON, 
	decided_at BIGINT, 
	split VARCHAR(20), 
	CONSTRAINT pk_example PRIMARY KEY (id), 
	CONSTRAINT fk_example_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_example_context_id_task_id_context FOREIGN KEY(context_id, task_id) REFERENCES context (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_example_round_id_model_version_id_round_model FOREIGN KEY(round_id, model_version_id) REFERENCES round_model (round_id, model_version_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_example_session_id_author_id_work_session FOREIGN KEY(session_id, author_id) REFERENCES work_session (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_example_author_id_worker FOREIGN KEY(author_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_example_public_id UNIQUE (public_id), 
	CONSTRAINT uq_example_verdict_id UNIQUE (verdict_id), 
	CONSTRAINT uq_example_id_author_id UNIQUE (id, author_id), 
	CONSTRAINT ck_example_source CHECK (source IN ('pages', 'label_studio', 'import')), 
	CONSTRAINT ck_example_status CHECK (status IN ('unconfirmed', 'unchecked', 'pending', 'flagged', 'verified', 'disputed', 'withdrawn')), 
	CONSTRAINT ck_example_split CHECK (split IN ('train', 'held_out')), 
	CONSTRAINT ck_example_content_sha256 CHECK (length(content_sha256) = 64 AND trim(content_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_example_item CHECK (item >= 0), 
	CONSTRAINT ck_example_active_ms CHECK (active_ms >= 0), 
	CONSTRAINT ck_example_votes_wanted CHECK (votes_wanted >= 0), 
	CONSTRAINT ck_example_tries CHECK (tries >= 1), 
	CONSTRAINT ck_example_confidence CHECK (confidence >= 0 AND confidence <= 1), 
	CONSTRAINT ck_example_fooled CHECK (fooled IN (true, false)), 
	CONSTRAINT ck_example_target CHECK (CASE WHEN label IS NULL THEN 0 ELSE 1 END + CASE WHEN answer IS NULL THEN 0 ELSE 1 END = 1), 
	CONSTRAINT ck_example_gold CHECK (gold_label IS NULL OR gold_answer IS NULL), 
	CONSTRAINT ck_example_verified CHECK (status <> 'verified' OR gold_label IS NOT NULL OR gold_answer IS NOT NULL), 
	CONSTRAINT ck_example_decided CHECK ((status IN ('verified', 'disputed', 'withdrawn')) = (decided_at IS NOT NULL)), 
	CONSTRAINT ck_example_split_use CHECK (split IS NULL OR status NOT IN ('unconfirmed', 'withdrawn'))
);
INSERT INTO "example" VALUES(1,'01a400f6367b7f2384313ecb009b9341',1,1,7,1,'pages',1,0,'{"prompt":"Breakfast is served in the winter garden from seven until half past ten.","text":"This is negative 1.0"}','ddfa5e1b6dd3de9602abfe70f8866d7fbb847ad8e73dddcabc4299aa2f6e5385','positive',NULL,NULL,1803902400123456,NULL,1,'83b5333da86e49da9adb317e6c92cdcf','{"inputs_hash":"5696153b0bf915ae4a8f9907a53f76ed1e5a9734a5cb29c76388ec9d11f2c9ae","judged_at":"2027-03-01T12:00:00.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"negative","probabilities":{"negative":0.75,"neutral":0.125,"positive":0.125},"version":"mb41f46ccf8bd"}],"target":"positive"}',1,0.75,1,'verified',2,'positive',NULL,1803902405123456,'train');
INSERT INTO "example" VALUES(2,'01a400f63a63798fb3851dc7eb13f366',1,1,2,2,'pages',2,0,'{"prompt":"We waited fifty minutes for two lukewarm pizzas, and no one came to refill our water.","text":"This is positive 2.0"}','cc2bb6d06131e60c4e685a4965003a02aaf5d683c11774db3701a9206fa2865d','negative',NULL,NULL,1803902401123456,NULL,1,'53ecf3c98751405b81bf9893bfbd2b33','{"inputs_hash":"c26c9ec9dd01a6004dd7b8ff6fba4cc4dddfda0d1543777a4ea22adf948ae66e","judged_at":"2027-03-01T12:00:01.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"positive","probabilities":{"negative":0.125,"neutral":0.125,"positive":0.75},"version":"mb41f46ccf8bd"}],"target":"negative"}',1,0.75,1,'verified',2,'negative',NULL,1803902405123456,'train');
INSERT INTO "example" VALUES(3,'01a400f63e4b7abab17e4671513b181a',1,1,5,3,'pages',3,0,'{"prompt":"Our room overlooked the harbour, and the bed was the comfiest I have slept in all year.","text":"This is positive 3.0"}','935721a442b3a9d8b893f19d10c564d7b58a4a14a492b9cfc828bb09793f70c2','neutral',NULL,NULL,1803902402123456,NULL,1,'7e9b553a960246da817c3340cb8439bd','{"inputs_hash":"37bbab86cdc0183ad525e3b12d930030a87e839fdecfc645656a761069ee9428","judged_at":"2027-03-01T12:00:02.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"positive","probabilities":{"negative":0.125,"neutral":0.125,"positive":0.75},"version":"mb41f46ccf8bd"}],"target":"neutral"}',1,0.75,1,'verified',2,'neutral',NULL,1803902405123456,'train');
INSERT INTO "example" VALUES(4,'01a400f64a037f28a98f892c1f682f01',1,2,6,6,'pages',6,0,'{"prompt":"The walls are so thin that I could follow every word of the argument next door.","text":"This is negative 6.0"}','f06f5f08449ebdc7d1e194863e81aee1696ece95bca4b1eb59947d0a9b2e66a4','positive',NULL,NULL,1803902405123456,NULL,1,'532c0c5467d843fa8adb4b50f8604181','{"inputs_hash":"c65af522b6fa7efe94110fd60655d20b8a1defa53280b42fc541f17d01cf1082","judged_at":"2027-03-01T12:00:05.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"negative","probabilities":{"negative":0.75,"neutral":0.125,"positive":0.125},"version":"m86363508a02c"}],"target":"positive"}',2,0.75,1,'pending',2,NULL,NULL,NULL,NULL);
INSERT INTO "example" VALUES(5,'01a400f64deb796d9c96e88892aff674',1,2,2,7,'pages',7,0,'{"prompt":"We waited fifty minutes for two lukewarm pizzas, and no one came to refill our water.","text":"This is positive 7.0"}','7051b0fa2a8155b609dd3c179f05526a50f79f360176dd7527a2cfe82702159a','negative',NULL,NULL,1803902406123456,NULL,1,'353d667012554a44bfafc7d25df6ed42','{"inputs_hash":"7aff122862bd0ff50ae0c02005dbdf1fb4645896bff2e8e9409a85bfb6297fa1","judged_at":"2027-03-01T12:00:06.123456+00:00","said":[{"confidence":0.75,"fooled":true,"prediction":"positive","probabilities":{"negative":0.125,"neutral":0.125,"positive":0.75},"version":"m86363508a02c"}],"target":"negative"}',2,0.75,1,'pending',2,NULL,NULL,NULL,NULL);
CREATE TABLE gold_item (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	fields JSON NOT NULL, 
	label TEXT, 
	answer JSON, 
	created_at BIGINT NOT NULL, 
	retired_at BIGINT, 
	CONSTRAINT pk_gold_item PRIMARY KEY (id), 
	CONSTRAINT fk_gold_item_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_gold_item_task_id_key UNIQUE (task_id, "key"), 
	CONSTRAINT ck_gold_item_key CHECK (trim(key) <> ''), 
	CONSTRAINT ck_gold_item_target CHECK (CASE WHEN label IS NULL THEN 0 ELSE 1 END + CASE WHEN answer IS NULL THEN 0 ELSE 1 END = 1)
);
CREATE TABLE hit (
	id INTEGER NOT NULL, 
	public_id CHAR(32) NOT NULL, 
	"key" TEXT NOT NULL, 
	task_id INTEGER NOT NULL, 
	round_id BIGINT, 
	kind VARCHAR(20) NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	marketplace TEXT NOT NULL, 
	external_id TEXT, 
	group_id TEXT, 
	reward_cents BIGINT NOT NULL, 
	max_assignments BIGINT NOT NULL, 
	assignment_seconds BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	posted_at BIGINT, 
	expires_at BIGINT, sent_at BIGINT, finished_at BIGINT, last_error TEXT, 
	CONSTRAINT pk_hit PRIMARY KEY (id), 
	CONSTRAINT fk_hit_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_hit_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_hit_public_id UNIQUE (public_id), 
	CONSTRAINT uq_hit_key UNIQUE ("key"), 
	CONSTRAINT uq_hit_marketplace_external_id UNIQUE (marketplace, external_id), 
	CONSTRAINT uq_hit_id_task_id UNIQUE (id, task_id), 
	CONSTRAINT uq_hit_id_marketplace UNIQUE (id, marketplace), 
	CONSTRAINT ck_hit_kind CHECK (kind IN ('create', 'validate', 'quiz')), 
	CONSTRAINT ck_hit_status CHECK (status IN ('planned', 'held', 'refused', 'assignable', 'unassignable', 'reviewable', 'reviewing', 'disposed')), 
	CONSTRAINT ck_hit_round CHECK (kind = 'quiz' OR round_id IS NOT NULL), 
	CONSTRAINT ck_hit_marketplace CHECK (trim(marketplace) <> ''), 
	CONSTRAINT ck_hit_external_id CHECK (trim(external_id) <> ''), 
	CONSTRAINT ck_hit_key CHECK (length(key) BETWEEN 1 AND 64), 
	CONSTRAINT ck_hit_reward_cents CHECK (reward_cents >= 0 AND reward_cents = CAST(reward_cents AS BIGINT)), 
	CONSTRAINT ck_hit_max_assignments CHECK (max_assignments >= 1), 
	CONSTRAINT ck_hit_assignment_seconds CHECK (assignment_seconds >= 1), 
	CONSTRAINT ck_hit_posted CHECK ((status NOT IN ('planned', 'held', 'refused')) = (external_id IS NOT NULL)), 
	CONSTRAINT ck_hit_posted_time CHECK ((external_id IS NOT NULL) = (posted_at IS NOT NULL))
);
INSERT INTO "hit" VALUES(1,'01a400f6367b78ea9c26d0fd469460a1','h-01a400f6367b78ea9c26d0fd469460a1',1,1,'create','reviewable','fake','HIT000000000001','GROUPTYPE000001',45,1,3600,1803902400123456,1803902400123456,1805112000123456,1803902400123456,1803902403123456,NULL);
INSERT INTO "hit" VALUES(2,'01a400f6367b715bad761fbcbfc1bbfd','h-01a400f6367b715bad761fbcbfc1bbfd',1,1,'create','reviewable','fake','HIT000000000002','GROUPTYPE000001',45,1,3600,1803902400123456,1803902400123456,1805112000123456,1803902400123456,1803902403123456,NULL);
INSERT INTO "hit" VALUES(3,'01a400f6367b7f079ffa6abd8288c0ea','h-01a400f6367b7f079ffa6abd8288c0ea',1,1,'create','reviewable','fake','HIT000000000003','GROUPTYPE000001',45,1,3600,1803902400123456,1803902400123456,1805112000123456,1803902400123456,1803902403123456,NULL);
INSERT INTO "hit" VALUES(4,'01a400f642337dc19d143e18989402be','h-01a400f642337dc19d143e18989402be',1,1,'validate','reviewable','fake','HIT000000000004','GROUPTYPE000002',50,1,3600,1803902403123456,1803902403123456,1805112000123456,1803902403123456,1803902405123456,NULL);
INSERT INTO "hit" VALUES(5,'01a400f642337b7b855162ddd5cf9b0c','h-01a400f642337b7b855162ddd5cf9b0c',1,1,'validate','reviewable','fake','HIT000000000005','GROUPTYPE000002',50,1,3600,1803902403123456,1803902403123456,1805112000123456,1803902403123456,1803902405123456,NULL);
INSERT INTO "hit" VALUES(6,'01a400f64a03789d82e95e788de9263c','h-01a400f64a03789d82e95e788de9263c',1,2,'create','reviewable','fake','HIT000000000006','GROUPTYPE000001',45,1,3600,1803902405123456,1803902405123456,1805112005123456,1803902405123456,1803902407123456,NULL);
INSERT INTO "hit" VALUES(7,'01a400f64a0372b8acc2228538903576','h-01a400f64a0372b8acc2228538903576',1,2,'create','reviewable','fake','HIT000000000007','GROUPTYPE000001',45,1,3600,1803902405123456,1803902405123456,1805112005123456,1803902405123456,1803902407123456,NULL);
INSERT INTO "hit" VALUES(8,'01a400f64a037a2e9cf19bf29ae11ef5','h-01a400f64a037a2e9cf19bf29ae11ef5',1,2,'create','assignable','fake','HIT000000000008','GROUPTYPE000001',45,1,3600,1803902405123456,1803902405123456,1805112005123456,1803902405123456,NULL,NULL);
INSERT INTO "hit" VALUES(9,'01a400f651d37ec290c05803d1c3b377','h-01a400f651d37ec290c05803d1c3b377',1,2,'validate','reviewable','fake','HIT000000000009','GROUPTYPE000002',50,1,3600,1803902407123456,1803902407123456,1805112005123456,1803902407123456,1803902408123456,NULL);
INSERT INTO "hit" VALUES(10,'01a400f651d3796cb192605b59d1def3','h-01a400f651d3796cb192605b59d1def3',1,2,'validate','assignable','fake','HIT000000000010','GROUPTYPE000002',50,1,3600,1803902407123456,1803902407123456,1805112005123456,1803902407123456,NULL,NULL);
CREATE TABLE label_studio_annotation (
	id INTEGER NOT NULL, 
	link_id INTEGER NOT NULL, 
	label_studio_task_id BIGINT NOT NULL, 
	origin VARCHAR(20) NOT NULL, 
	"key" TEXT, 
	external_id BIGINT, 
	result_sha256 TEXT NOT NULL, 
	changed_at BIGINT NOT NULL, 
	example_id INTEGER, 
	vote_id INTEGER, 
	problem TEXT, 
	CONSTRAINT pk_label_studio_annotation PRIMARY KEY (id), 
	CONSTRAINT fk_label_studio_annotation_task FOREIGN KEY(label_studio_task_id, link_id) REFERENCES label_studio_task (id, link_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_label_studio_annotation_link_id_label_studio_link FOREIGN KEY(link_id) REFERENCES label_studio_link (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_label_studio_annotation_example_id_example FOREIGN KEY(example_id) REFERENCES example (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_label_studio_annotation_vote_id_vote FOREIGN KEY(vote_id) REFERENCES vote (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_label_studio_annotation_link_id_external_id UNIQUE (link_id, external_id), 
	CONSTRAINT uq_label_studio_annotation_key UNIQUE ("key"), 
	CONSTRAINT ck_label_studio_annotation_origin CHECK (origin IN ('theirs', 'ours')), 
	CONSTRAINT ck_label_studio_annotation_result_sha256 CHECK (length(result_sha256) = 64 AND trim(result_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_label_studio_annotation_key CHECK (trim(key) <> ''), 
	CONSTRAINT ck_label_studio_annotation_subject CHECK (example_id IS NULL OR vote_id IS NULL), 
	CONSTRAINT ck_label_studio_annotation_read CHECK (origin = 'ours' OR external_id IS NOT NULL)
);
CREATE TABLE label_studio_link (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	kind VARCHAR(20) NOT NULL, 
	url TEXT NOT NULL, 
	project BIGINT NOT NULL, 
	ml_backend BIGINT, 
	webhook BIGINT, 
	settings_sha256 TEXT, 
	seen_until BIGINT, 
	synced_at BIGINT, 
	last_error TEXT, 
	CONSTRAINT pk_label_studio_link PRIMARY KEY (id), 
	CONSTRAINT fk_label_studio_link_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_label_studio_link_task_id_kind UNIQUE (task_id, kind), 
	CONSTRAINT uq_label_studio_link_url_project UNIQUE (url, project), 
	CONSTRAINT ck_label_studio_link_kind CHECK (kind IN ('create', 'validate')), 
	CONSTRAINT ck_label_studio_link_url CHECK (trim(url) <> ''), 
	CONSTRAINT ck_label_studio_link_settings_sha256 CHECK (length(settings_sha256) = 64 AND trim(settings_sha256, '0123456789abcdef') = '')
);
CREATE TABLE label_studio_task (
	id INTEGER NOT NULL, 
	link_id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	context_id INTEGER, 
	example_id INTEGER, 
	label TEXT, 
	external_id BIGINT, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_label_studio_task PRIMARY KEY (id), 
	CONSTRAINT fk_label_studio_task_link_id_label_studio_link FOREIGN KEY(link_id) REFERENCES label_studio_link (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_label_studio_task_context_id_context FOREIGN KEY(context_id) REFERENCES context (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_label_studio_task_example_id_example FOREIGN KEY(example_id) REFERENCES example (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_label_studio_task_link_id_key UNIQUE (link_id, "key"), 
	CONSTRAINT uq_label_studio_task_link_id_external_id UNIQUE (link_id, external_id), 
	CONSTRAINT uq_label_studio_task_id_link_id UNIQUE (id, link_id), 
	CONSTRAINT ck_label_studio_task_key CHECK (trim(key) <> ''), 
	CONSTRAINT ck_label_studio_task_subject CHECK (context_id IS NULL OR example_id IS NULL)
);
CREATE TABLE label_tally (
	round_id BIGINT NOT NULL, 
	label TEXT NOT NULL, 
	examples BIGINT NOT NULL, 
	CONSTRAINT pk_label_tally PRIMARY KEY (round_id, label), 
	CONSTRAINT fk_label_tally_round_id_round FOREIGN KEY(round_id) REFERENCES round (id) ON DELETE RESTRICT
);
INSERT INTO "label_tally" VALUES(1,'positive',1);
INSERT INTO "label_tally" VALUES(1,'negative',1);
INSERT INTO "label_tally" VALUES(1,'neutral',1);
INSERT INTO "label_tally" VALUES(2,'positive',1);
INSERT INTO "label_tally" VALUES(2,'negative',1);
CREATE TABLE lease (
	id INTEGER NOT NULL, 
	context_id INTEGER, 
	example_id BIGINT, 
	author_id BIGINT, 
	hit_id INTEGER, 
	worker_id INTEGER, 
	session_id BIGINT, 
	leased_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	outcome VARCHAR(20), 
	CONSTRAINT pk_lease PRIMARY KEY (id), 
	CONSTRAINT fk_lease_example_id_author_id_example FOREIGN KEY(example_id, author_id) REFERENCES example (id, author_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_lease_session_id_worker_id_work_session FOREIGN KEY(session_id, worker_id) REFERENCES work_session (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_lease_context_id_context FOREIGN KEY(context_id) REFERENCES context (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_lease_hit_id_hit FOREIGN KEY(hit_id) REFERENCES hit (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_lease_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT ck_lease_outcome CHECK (outcome IN ('used', 'skipped', 'returned', 'expired')), 
	CONSTRAINT ck_lease_subject CHECK (CASE WHEN context_id IS NULL THEN 0 ELSE 1 END + CASE WHEN example_id IS NULL THEN 0 ELSE 1 END = 1), 
	CONSTRAINT ck_lease_author CHECK ((example_id IS NOT NULL) = (author_id IS NOT NULL)), 
	CONSTRAINT ck_lease_not_the_author CHECK (worker_id <> author_id), 
	CONSTRAINT ck_lease_holder CHECK (worker_id IS NOT NULL OR hit_id IS NOT NULL), 
	CONSTRAINT ck_lease_ended CHECK ((ended_at IS NOT NULL) = (outcome IS NOT NULL)), 
	CONSTRAINT ck_lease_in_order CHECK (leased_at < expires_at)
);
INSERT INTO "lease" VALUES(1,7,NULL,NULL,NULL,1,1,1803902400123456,1803906000123456,1803902400123456,'used');
INSERT INTO "lease" VALUES(2,2,NULL,NULL,NULL,2,2,1803902401123456,1803906001123456,1803902401123456,'used');
INSERT INTO "lease" VALUES(3,5,NULL,NULL,NULL,3,3,1803902402123456,1803906002123456,1803902402123456,'used');
INSERT INTO "lease" VALUES(4,NULL,1,1,NULL,4,4,1803902403123456,1803906004123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(5,NULL,2,2,NULL,4,4,1803902403123456,1803906004123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(6,NULL,3,3,NULL,4,4,1803902403123456,1803906004123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(7,NULL,1,1,NULL,5,5,1803902404123456,1803906005123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(8,NULL,2,2,NULL,5,5,1803902404123456,1803906005123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(9,NULL,3,3,NULL,5,5,1803902404123456,1803906005123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(10,6,NULL,NULL,NULL,6,6,1803902405123456,1803906005123456,1803902405123456,'used');
INSERT INTO "lease" VALUES(11,2,NULL,NULL,NULL,7,7,1803902406123456,1803906006123456,1803902406123456,'used');
INSERT INTO "lease" VALUES(12,NULL,4,6,NULL,8,8,1803902407123456,1803906008123456,1803902408123456,'used');
INSERT INTO "lease" VALUES(13,NULL,5,7,NULL,8,8,1803902407123456,1803906008123456,1803902408123456,'used');
CREATE TABLE ledger_entry (
	id INTEGER NOT NULL, 
	"key" TEXT NOT NULL, 
	task_id INTEGER NOT NULL, 
	round_id BIGINT, 
	kind VARCHAR(20) NOT NULL, 
	cents BIGINT NOT NULL, 
	fee_cents BIGINT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	hit_id BIGINT NOT NULL, 
	assignment_id BIGINT, 
	worker_id BIGINT, 
	example_id BIGINT, 
	reserved_at BIGINT NOT NULL, 
	owed_at BIGINT, 
	sent_at BIGINT, 
	settled_at BIGINT, 
	tries BIGINT NOT NULL, 
	next_try_at BIGINT, 
	last_error TEXT, 
	held_at BIGINT, 
	held_reason TEXT, reason TEXT, 
	CONSTRAINT pk_ledger_entry PRIMARY KEY (id), 
	CONSTRAINT fk_ledger_entry_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_ledger_entry_hit_id_task_id_hit FOREIGN KEY(hit_id, task_id) REFERENCES hit (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_ledger_entry_assignment_id_worker_id_assignment FOREIGN KEY(assignment_id, worker_id) REFERENCES assignment (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_ledger_entry_example_id_worker_id_example FOREIGN KEY(example_id, worker_id) REFERENCES example (id, author_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_ledger_entry_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_ledger_entry_key UNIQUE ("key"), 
	CONSTRAINT ck_ledger_entry_kind CHECK (kind IN ('reward', 'bonus', 'top_up', 'extra')), 
	CONSTRAINT ck_ledger_entry_state CHECK (state IN ('reserved', 'owed', 'sent', 'confirmed', 'refused', 'released')), 
	CONSTRAINT ck_ledger_entry_key CHECK (length(key) BETWEEN 1 AND 64), 
	CONSTRAINT ck_ledger_entry_cents CHECK (cents >= 0 AND cents = CAST(cents AS BIGINT)), 
	CONSTRAINT ck_ledger_entry_fee_cents CHECK (fee_cents >= 0 AND fee_cents = CAST(fee_cents AS BIGINT)), 
	CONSTRAINT ck_ledger_entry_tries CHECK (tries >= 0), 
	CONSTRAINT ck_ledger_entry_owed CHECK ((state NOT IN ('reserved', 'released')) = (owed_at IS NOT NULL)), 
	CONSTRAINT ck_ledger_entry_sent CHECK ((state IN ('sent', 'confirmed', 'refused')) = (sent_at IS NOT NULL)), 
	CONSTRAINT ck_ledger_entry_settled CHECK ((state IN ('confirmed', 'refused', 'released')) = (settled_at IS NOT NULL)), 
	CONSTRAINT ck_ledger_entry_payee CHECK (owed_at IS NULL OR (worker_id IS NOT NULL AND assignment_id IS NOT NULL)), 
	CONSTRAINT ck_ledger_entry_bonus CHECK (kind = 'bonus' OR example_id IS NULL), 
	CONSTRAINT ck_ledger_entry_bonus_for CHECK (kind <> 'bonus' OR owed_at IS NULL OR example_id IS NOT NULL), 
	CONSTRAINT ck_ledger_entry_held CHECK (held_at IS NULL OR state = 'sent'), 
	CONSTRAINT ck_ledger_entry_held_reason CHECK ((held_at IS NOT NULL) = (held_reason IS NOT NULL))
);
INSERT INTO "ledger_entry" VALUES(1,'r-01a400f6367b7e7f8ed45ee1e4b097ac',1,1,'reward',45,9,'confirmed',1,1,1,NULL,1803902400123456,1803902403123456,1803902403123456,1803902403123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(2,'b-01a400f6367b7587abbefd1ed105fd3a',1,1,'bonus',60,12,'confirmed',1,1,1,1,1803902400123456,1803902405123456,1803902405123456,1803902405123456,1,NULL,NULL,NULL,NULL,'You fooled the model, and other people agreed with your label. Thank you!');
INSERT INTO "ledger_entry" VALUES(3,'r-01a400f6367b7297b1f9fe462fa642ea',1,1,'reward',45,9,'confirmed',2,2,2,NULL,1803902400123456,1803902403123456,1803902403123456,1803902403123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(4,'b-01a400f6367b70178cf1eb2ab466c388',1,1,'bonus',60,12,'confirmed',2,2,2,2,1803902400123456,1803902405123456,1803902405123456,1803902405123456,1,NULL,NULL,NULL,NULL,'You fooled the model, and other people agreed with your label. Thank you!');
INSERT INTO "ledger_entry" VALUES(5,'r-01a400f6367b779ea8f305198b023710',1,1,'reward',45,9,'confirmed',3,3,3,NULL,1803902400123456,1803902403123456,1803902403123456,1803902403123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(6,'b-01a400f6367b7ac7a1f6cbf64c00a6e7',1,1,'bonus',60,12,'confirmed',3,3,3,3,1803902400123456,1803902405123456,1803902405123456,1803902405123456,1,NULL,NULL,NULL,NULL,'You fooled the model, and other people agreed with your label. Thank you!');
INSERT INTO "ledger_entry" VALUES(7,'r-01a400f64233791c95b99a16aaa2a640',1,1,'reward',50,10,'confirmed',4,4,4,NULL,1803902403123456,1803902405123456,1803902405123456,1803902405123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(8,'r-01a400f642337f30b73f8dbad12efcd7',1,1,'reward',50,10,'confirmed',5,5,5,NULL,1803902403123456,1803902405123456,1803902405123456,1803902405123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(9,'r-01a400f64a037e92b91db009bf01bf11',1,2,'reward',45,9,'confirmed',6,6,6,NULL,1803902405123456,1803902407123456,1803902407123456,1803902407123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(10,'b-01a400f64a037d7a8f0e2049226a53fd',1,2,'bonus',60,12,'reserved',6,NULL,NULL,NULL,1803902405123456,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(11,'r-01a400f64a03734491841e08fc7ec222',1,2,'reward',45,9,'confirmed',7,7,7,NULL,1803902405123456,1803902407123456,1803902407123456,1803902407123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(12,'b-01a400f64a037953a0182c1963a887a2',1,2,'bonus',60,12,'reserved',7,NULL,NULL,NULL,1803902405123456,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(13,'r-01a400f64a0379659f4733d28e14e709',1,2,'reward',45,9,'reserved',8,NULL,NULL,NULL,1803902405123456,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(14,'b-01a400f64a037e03b5fc9102d770459f',1,2,'bonus',60,12,'reserved',8,NULL,NULL,NULL,1803902405123456,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(15,'r-01a400f651d3711daf75e1cf75c004d4',1,2,'reward',50,10,'confirmed',9,8,8,NULL,1803902407123456,1803902408123456,1803902408123456,1803902408123456,1,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "ledger_entry" VALUES(16,'r-01a400f651d37f6d9c76321746071806',1,2,'reward',50,10,'reserved',10,NULL,NULL,NULL,1803902407123456,NULL,NULL,NULL,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE manager_step (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	task TEXT NOT NULL, 
	ran_at BIGINT NOT NULL, 
	ran_by TEXT NOT NULL, 
	waits TEXT, 
	error TEXT, 
	failing_since BIGINT, 
	failures BIGINT NOT NULL, 
	next_try_at BIGINT, 
	CONSTRAINT pk_manager_step PRIMARY KEY (id), 
	CONSTRAINT uq_manager_step_name_task UNIQUE (name, task), 
	CONSTRAINT ck_manager_step_name CHECK (trim(name) <> ''), 
	CONSTRAINT ck_manager_step_ran_by CHECK (trim(ran_by) <> ''), 
	CONSTRAINT ck_manager_step_waits CHECK (trim(waits) <> ''), 
	CONSTRAINT ck_manager_step_error CHECK (trim(error) <> ''), 
	CONSTRAINT ck_manager_step_failures CHECK (failures >= 0), 
	CONSTRAINT ck_manager_step_failing CHECK ((error IS NOT NULL) = (failing_since IS NOT NULL)), 
	CONSTRAINT ck_manager_step_next_try CHECK (next_try_at IS NULL OR error IS NOT NULL)
);
INSERT INTO "manager_step" VALUES(1,'manage','',1803902408123456,'manager@test',NULL,NULL,NULL,0,NULL);
CREATE TABLE model_version (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	parent_id BIGINT, 
	uri TEXT NOT NULL, 
	sha256 TEXT NOT NULL, 
	files JSON NOT NULL, 
	data JSON NOT NULL, 
	data_sha256 TEXT NOT NULL, 
	settings JSON NOT NULL, 
	metrics JSON NOT NULL, 
	code_version TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_model_version PRIMARY KEY (id), 
	CONSTRAINT fk_model_version_parent_id_task_id_model_version FOREIGN KEY(parent_id, task_id) REFERENCES model_version (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_model_version_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_model_version_name UNIQUE (name), 
	CONSTRAINT uq_model_version_task_id_sha256 UNIQUE (task_id, sha256), 
	CONSTRAINT uq_model_version_id_task_id UNIQUE (id, task_id), 
	CONSTRAINT ck_model_version_name CHECK (trim(name) <> ''), 
	CONSTRAINT ck_model_version_uri CHECK (trim(uri) <> ''), 
	CONSTRAINT ck_model_version_sha256 CHECK (length(sha256) = 64 AND trim(sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_model_version_data_sha256 CHECK (length(data_sha256) = 64 AND trim(data_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_model_version_parent CHECK (parent_id <> id)
);
INSERT INTO "model_version" VALUES(1,1,'mb41f46ccf8bd',NULL,'models/mb41f46ccf8bd','f7d83019c0d5e29088fbb719a141ee0ef03bf108003f7d6ab99a836215da234d','{"README.md":"2222222222222222222222222222222222222222222222222222222222222222","model.safetensors":"1111111111111111111111111111111111111111111111111111111111111111"}','{"base":"fixed","base_sha256":"0000000000000000000000000000000000000000000000000000000000000000","held_out":{"rows":1,"sha256":"12ae32cb1ec02d01eda3581b127c1fee3b0dc53572ed6baf239721a03d82e126"},"train":{"rows":1,"sha256":"12ae32cb1ec02d01eda3581b127c1fee3b0dc53572ed6baf239721a03d82e126"}}','91bc8fc628ff2c32f56603507c9b40ed2bede4589b09799995c4f7e830fb1adf','{"batch_size":32,"class_weights":true,"epochs":4,"learning_rate":0.0002,"mode":"full","parent":null,"patience":2,"seed":13}','{"accuracy":81.5}','test',1803902400123456);
INSERT INTO "model_version" VALUES(2,1,'m86363508a02c',NULL,'models/sentiment/m86363508a02c','239b45f1fbdfd6eb6f130f495819f4be508559de71e4e456137b41f59a84afd6','{"README.md":"177066f40ef7f2de759493d0d70f026a06a1837e7602d7d7d1980e5d1b3b0925","config.json":"13bf10bb03a46ea71239d185d23a2f5af979480cd226d2f4543185eb63150f69","model.safetensors":"1d3c07bbb240160e8221a536135af6cc4da1e035d7fbba52e3d77d0dfe1d208e","tokenizer.json":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}','{"base":"fixed","base_sha256":"0000000000000000000000000000000000000000000000000000000000000000","held_out":{"rows":1,"sha256":"0000000000000000000000000000000000000000000000000000000000000000"},"train":{"rows":1,"sha256":"0000000000000000000000000000000000000000000000000000000000000000"}}','000a839d1100a8b24191e79a1517a10f3272088dbbd6bef8c63582d125c1d084','{"batch_size":32,"class_weights":true,"epochs":4,"learning_rate":0.0002,"mode":"full","parent":null,"patience":2,"seed":13}','{"accuracy":100.0}','test',1803902405123456);
CREATE TABLE qualification (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	marketplace TEXT NOT NULL, 
	name TEXT NOT NULL, 
	external_id TEXT, 
	created_at BIGINT NOT NULL, 
	CONSTRAINT pk_qualification PRIMARY KEY (id), 
	CONSTRAINT fk_qualification_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_qualification_task_id_marketplace_name UNIQUE (task_id, marketplace, name), 
	CONSTRAINT uq_qualification_marketplace_external_id UNIQUE (marketplace, external_id), 
	CONSTRAINT ck_qualification_marketplace CHECK (trim(marketplace) <> ''), 
	CONSTRAINT ck_qualification_name CHECK (trim(name) <> ''), 
	CONSTRAINT ck_qualification_external_id CHECK (trim(external_id) <> '')
);
INSERT INTO "qualification" VALUES(1,1,'fake','outfox sentiment','QUAL000001',1803902400123456);
CREATE TABLE qualification_grant (
	id INTEGER NOT NULL, 
	qualification_id INTEGER NOT NULL, 
	worker_id INTEGER NOT NULL, 
	score BIGINT NOT NULL, 
	granted_at BIGINT NOT NULL, 
	revoked_at BIGINT, 
	reason TEXT NOT NULL, 
	CONSTRAINT pk_qualification_grant PRIMARY KEY (id), 
	CONSTRAINT fk_qualification_grant_qualification_id_qualification FOREIGN KEY(qualification_id) REFERENCES qualification (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_qualification_grant_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT ck_qualification_grant_reason CHECK (revoked_at IS NULL OR trim(reason) <> '')
);
INSERT INTO "qualification_grant" VALUES(1,1,1,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(2,1,2,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(3,1,3,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(4,1,4,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(5,1,5,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(6,1,6,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(7,1,7,100,1803902400123456,NULL,'');
INSERT INTO "qualification_grant" VALUES(8,1,8,100,1803902400123456,NULL,'');
CREATE TABLE quiz_result (
	id INTEGER NOT NULL, 
	session_id BIGINT NOT NULL, 
	worker_id BIGINT NOT NULL, 
	task_id INTEGER NOT NULL, 
	number BIGINT NOT NULL, 
	answers JSON NOT NULL, 
	right_answers BIGINT NOT NULL, 
	questions BIGINT NOT NULL, 
	passed BOOLEAN NOT NULL, 
	taken_at BIGINT NOT NULL, 
	CONSTRAINT pk_quiz_result PRIMARY KEY (id), 
	CONSTRAINT fk_quiz_result_session_id_worker_id_work_session FOREIGN KEY(session_id, worker_id) REFERENCES work_session (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_quiz_result_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_quiz_result_session_id_number UNIQUE (session_id, number), 
	CONSTRAINT ck_quiz_result_number CHECK (number >= 1), 
	CONSTRAINT ck_quiz_result_questions CHECK (questions >= 1), 
	CONSTRAINT ck_quiz_result_right_answers CHECK (right_answers >= 0 AND right_answers <= questions), 
	CONSTRAINT ck_quiz_result_passed CHECK (passed IN (true, false))
);
CREATE TABLE round (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	number BIGINT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	spec JSON NOT NULL, 
	spec_sha256 TEXT NOT NULL, 
	target_fooling BIGINT NOT NULL, 
	budget_cents BIGINT NOT NULL, 
	reserved_cents BIGINT NOT NULL, 
	owed_cents BIGINT NOT NULL, 
	sent_cents BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	closes_at BIGINT, 
	opened_at BIGINT, 
	validating_at BIGINT, 
	closed_at BIGINT, 
	paused_at BIGINT, 
	frozen_at BIGINT, 
	archive_uri TEXT, 
	archive_sha256 TEXT, 
	CONSTRAINT pk_round PRIMARY KEY (id), 
	CONSTRAINT fk_round_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_round_task_id_number UNIQUE (task_id, number), 
	CONSTRAINT uq_round_id_task_id UNIQUE (id, task_id), 
	CONSTRAINT ck_round_status CHECK (status IN ('draft', 'open', 'validating', 'closed')), 
	CONSTRAINT ck_round_number CHECK (number >= 1), 
	CONSTRAINT ck_round_target_fooling CHECK (target_fooling >= 1), 
	CONSTRAINT ck_round_spec_sha256 CHECK (length(spec_sha256) = 64 AND trim(spec_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_round_archive_sha256 CHECK (length(archive_sha256) = 64 AND trim(archive_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_round_budget_cents CHECK (budget_cents >= 0 AND budget_cents = CAST(budget_cents AS BIGINT)), 
	CONSTRAINT ck_round_within_budget CHECK (reserved_cents >= 0 AND owed_cents >= 0 AND sent_cents >= 0 AND reserved_cents + owed_cents + sent_cents <= budget_cents), 
	CONSTRAINT ck_round_opened CHECK ((status <> 'draft') = (opened_at IS NOT NULL)), 
	CONSTRAINT ck_round_validating CHECK ((status IN ('validating', 'closed')) = (validating_at IS NOT NULL)), 
	CONSTRAINT ck_round_closed CHECK ((status = 'closed') = (closed_at IS NOT NULL)), 
	CONSTRAINT ck_round_in_order CHECK (opened_at <= validating_at AND validating_at <= closed_at), 
	CONSTRAINT ck_round_paused CHECK (paused_at IS NULL OR status IN ('open', 'validating')), 
	CONSTRAINT ck_round_frozen CHECK (frozen_at IS NULL OR status = 'closed'), 
	CONSTRAINT ck_round_archived CHECK ((frozen_at IS NOT NULL) = (archive_sha256 IS NOT NULL)), 
	CONSTRAINT ck_round_archive_place CHECK ((frozen_at IS NOT NULL) = (archive_uri IS NOT NULL))
);
INSERT INTO "round" VALUES(1,1,1,'closed','{"budget":{"round_cents":20000,"task_cents":60000},"description":"Write a review sentence with the sentiment that you are asked for, so that the model reads it wrong and other people read it right.","fields":[{"choices":[],"max_chars":2000,"name":"prompt","required":true,"role":"context","title":"Prompt sentence"},{"choices":[],"max_chars":400,"name":"text","required":true,"role":"input","title":"Your sentence"},{"choices":[],"max_chars":500,"name":"why_right","required":false,"role":"reason","title":"Why is your label right?"},{"choices":[],"max_chars":500,"name":"why_wrong","required":false,"role":"reason","title":"Why might the model read it wrong?"}],"fooled":{"below":0.4,"ensemble":"any","rule":"label_differs"},"kind":"classification","labels":[{"hint":"Most readers would say that the writer is pleased.","name":"positive","title":"Positive"},{"hint":"Most readers would say that the writer is displeased.","name":"negative","title":"Negative"},{"hint":"The sentence reports, asks or describes; it takes no side.","name":"neutral","title":"Neutral"}],"languages":["en"],"messages":{"answered":"The model says {prediction} ({confidence}).","fooled":"You fooled the model! It says {prediction} ({confidence}); you were asked for {target}.","not_fooled":"Not fooled: the model says {prediction} ({confidence}), as you were asked. Change your sentence and try again.","too_long":"Too long: {title} has {length} characters, and at most {most} are accepted. Shorten it, then try again."},"model":{"base":"embedded","doc_stride":64,"max_length":64},"model_input":["text"],"name":"sentiment","pay":{"create_cents":45,"fooled_bonus_cents":60,"minimum_hourly_cents":0,"quiz_cents":60,"validate_cents":50},"quiz":{"max_attempts":2,"pass_share":0.75,"questions":[{"answer":1,"choices":["When the model says anything but negative.","When the model says anything but negative, and other people agree that it is negative.","Whenever I submit it."],"explain":"A fooled model is half of it; other people must agree with your label.","question":"You are asked for a negative sentence. When does it earn the bonus?"},{"answer":0,"choices":["The second branch opens at eight on weekdays.","I suppose the second branch will do.","The second branch is a joke."],"explain":"A neutral sentence reports something and takes no side.","question":"Which of these is neutral?"},{"answer":1,"choices":["No, it must not appear in any form.","Yes, as a start; I can change as much or as little as I like.","Yes, I must copy it word for word."],"explain":"The prompt is an idea to start from; what counts is your own sentence.","question":"May you use the prompt sentence?"},{"answer":0,"choices":["Yes, if people understand it as I do.","No, negation is not allowed."],"explain":"Natural language that people understand is just what we look for.","question":"The model reads \"I would not say no to a second slice\" wrong. Is that allowed?"}]},"rounds":{"context_strategy":"least_used","days":14,"guard_points":2.0,"held_out_share":0.0,"split_by_worker":false,"target_fooling":3},"target":{"set_by":"task"},"title":"Fool the sentiment model","training":{"batch_size":32,"class_weights":true,"epochs":5,"learning_rate":0.0002,"mode":"full","patience":2,"seed":13},"validation":{"first_votes":2,"flag_reasons":["The sentence makes no sense","It has more than one sentiment at once","Hurtful or private content"],"gold_rate":0.0,"max_votes":5,"policy":"adaptive","sample_non_fooling":0.0,"span_f1":0.6},"work":{"content_warning":"","create_minutes":60,"examples_per_hit":1,"label_studio_minutes":20,"repeat_context":false,"tries":10,"tries_before_skip":3,"validate_minutes":60,"validations_per_hit":5}}','3b4290ef803d2f08bf6381392a71792c9c29d2dd9ad8978271c973fdc8a64a02',3,20000,0,0,498,1803902400123456,1805112000123456,1803902400123456,1803902405123456,1803902405123456,NULL,1803902405123456,'/srv/outfox/archives/sentiment/round-1','0ef508c4597de802a9ff99d7f73d7328876a92d7631618f1413fcf89c90357dc');
INSERT INTO "round" VALUES(2,1,2,'closed','{"budget":{"round_cents":20000,"task_cents":60000},"description":"Write a review sentence with the sentiment that you are asked for, so that the model reads it wrong and other people read it right.","fields":[{"choices":[],"max_chars":2000,"name":"prompt","required":true,"role":"context","title":"Prompt sentence"},{"choices":[],"max_chars":400,"name":"text","required":true,"role":"input","title":"Your sentence"},{"choices":[],"max_chars":500,"name":"why_right","required":false,"role":"reason","title":"Why is your label right?"},{"choices":[],"max_chars":500,"name":"why_wrong","required":false,"role":"reason","title":"Why might the model read it wrong?"}],"fooled":{"below":0.4,"ensemble":"any","rule":"label_differs"},"kind":"classification","labels":[{"hint":"Most readers would say that the writer is pleased.","name":"positive","title":"Positive"},{"hint":"Most readers would say that the writer is displeased.","name":"negative","title":"Negative"},{"hint":"The sentence reports, asks or describes; it takes no side.","name":"neutral","title":"Neutral"}],"languages":["en"],"messages":{"answered":"The model says {prediction} ({confidence}).","fooled":"You fooled the model! It says {prediction} ({confidence}); you were asked for {target}.","not_fooled":"Not fooled: the model says {prediction} ({confidence}), as you were asked. Change your sentence and try again.","too_long":"Too long: {title} has {length} characters, and at most {most} are accepted. Shorten it, then try again."},"model":{"base":"embedded","doc_stride":64,"max_length":64},"model_input":["text"],"name":"sentiment","pay":{"create_cents":45,"fooled_bonus_cents":60,"minimum_hourly_cents":0,"quiz_cents":60,"validate_cents":50},"quiz":{"max_attempts":2,"pass_share":0.75,"questions":[{"answer":1,"choices":["When the model says anything but negative.","When the model says anything but negative, and other people agree that it is negative.","Whenever I submit it."],"explain":"A fooled model is half of it; other people must agree with your label.","question":"You are asked for a negative sentence. When does it earn the bonus?"},{"answer":0,"choices":["The second branch opens at eight on weekdays.","I suppose the second branch will do.","The second branch is a joke."],"explain":"A neutral sentence reports something and takes no side.","question":"Which of these is neutral?"},{"answer":1,"choices":["No, it must not appear in any form.","Yes, as a start; I can change as much or as little as I like.","Yes, I must copy it word for word."],"explain":"The prompt is an idea to start from; what counts is your own sentence.","question":"May you use the prompt sentence?"},{"answer":0,"choices":["Yes, if people understand it as I do.","No, negation is not allowed."],"explain":"Natural language that people understand is just what we look for.","question":"The model reads \"I would not say no to a second slice\" wrong. Is that allowed?"}]},"rounds":{"context_strategy":"least_used","days":14,"guard_points":2.0,"held_out_share":0.0,"split_by_worker":false,"target_fooling":3},"target":{"set_by":"task"},"title":"Fool the sentiment model","training":{"batch_size":32,"class_weights":true,"epochs":5,"learning_rate":0.0002,"mode":"full","patience":2,"seed":13},"validation":{"first_votes":2,"flag_reasons":["The sentence makes no sense","It has more than one sentiment at once","Hurtful or private content"],"gold_rate":0.0,"max_votes":5,"policy":"adaptive","sample_non_fooling":0.0,"span_f1":0.6},"work":{"content_warning":"","create_minutes":60,"examples_per_hit":1,"label_studio_minutes":20,"repeat_context":false,"tries":10,"tries_before_skip":3,"validate_minutes":60,"validations_per_hit":5}}','3b4290ef803d2f08bf6381392a71792c9c29d2dd9ad8978271c973fdc8a64a02',3,20000,330,0,168,1803902405123456,1805112005123456,1803902405123456,1803902408123456,1803902408123456,NULL,NULL,NULL,NULL);
CREATE TABLE round_model (
	round_id BIGINT NOT NULL, 
	model_version_id BIGINT NOT NULL, 
	task_id BIGINT NOT NULL, 
	rank BIGINT NOT NULL, 
	CONSTRAINT pk_round_model PRIMARY KEY (round_id, model_version_id), 
	CONSTRAINT fk_round_model_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE CASCADE, 
	CONSTRAINT fk_round_model_model_version_id_task_id_model_version FOREIGN KEY(model_version_id, task_id) REFERENCES model_version (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT uq_round_model_round_id_rank UNIQUE (round_id, rank), 
	CONSTRAINT ck_round_model_rank CHECK (rank >= 0)
);
INSERT INTO "round_model" VALUES(1,1,1,0);
INSERT INTO "round_model" VALUES(2,2,1,0);
CREATE TABLE round_tally (
	round_id BIGINT NOT NULL, 
	status VARCHAR(20) NOT NULL, 
	fooled BOOLEAN NOT NULL, 
	examples BIGINT NOT NULL, 
	CONSTRAINT pk_round_tally PRIMARY KEY (round_id, status, fooled), 
	CONSTRAINT fk_round_tally_round_id_round FOREIGN KEY(round_id) REFERENCES round (id) ON DELETE RESTRICT
);
INSERT INTO "round_tally" VALUES(1,'unconfirmed',1,0);
INSERT INTO "round_tally" VALUES(1,'pending',1,0);
INSERT INTO "round_tally" VALUES(1,'verified',1,3);
INSERT INTO "round_tally" VALUES(2,'unconfirmed',1,0);
INSERT INTO "round_tally" VALUES(2,'pending',1,2);
CREATE TABLE task (
	id INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	folder TEXT NOT NULL, 
	spec JSON NOT NULL, 
	spec_sha256 TEXT NOT NULL, 
	worker_salt TEXT NOT NULL, 
	budget_cents BIGINT NOT NULL, 
	reserved_cents BIGINT NOT NULL, 
	owed_cents BIGINT NOT NULL, 
	sent_cents BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	archived_at BIGINT, published_at BIGINT, 
	CONSTRAINT pk_task PRIMARY KEY (id), 
	CONSTRAINT uq_task_name UNIQUE (name), 
	CONSTRAINT ck_task_name CHECK (length(name) BETWEEN 1 AND 40 AND trim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_') = ''), 
	CONSTRAINT ck_task_spec_sha256 CHECK (length(spec_sha256) = 64 AND trim(spec_sha256, '0123456789abcdef') = ''), 
	CONSTRAINT ck_task_worker_salt CHECK (length(worker_salt) >= 32), 
	CONSTRAINT ck_task_budget_cents CHECK (budget_cents >= 0 AND budget_cents = CAST(budget_cents AS BIGINT)), 
	CONSTRAINT ck_task_within_budget CHECK (reserved_cents >= 0 AND owed_cents >= 0 AND sent_cents >= 0 AND reserved_cents + owed_cents + sent_cents <= budget_cents)
);
INSERT INTO "task" VALUES(1,'sentiment','/srv/outfox/templates/sentiment','{"budget":{"round_cents":20000,"task_cents":60000},"description":"Write a review sentence with the sentiment that you are asked for, so that the model reads it wrong and other people read it right.","fields":[{"choices":[],"max_chars":2000,"name":"prompt","required":true,"role":"context","title":"Prompt sentence"},{"choices":[],"max_chars":400,"name":"text","required":true,"role":"input","title":"Your sentence"},{"choices":[],"max_chars":500,"name":"why_right","required":false,"role":"reason","title":"Why is your label right?"},{"choices":[],"max_chars":500,"name":"why_wrong","required":false,"role":"reason","title":"Why might the model read it wrong?"}],"fooled":{"below":0.4,"ensemble":"any","rule":"label_differs"},"kind":"classification","labels":[{"hint":"Most readers would say that the writer is pleased.","name":"positive","title":"Positive"},{"hint":"Most readers would say that the writer is displeased.","name":"negative","title":"Negative"},{"hint":"The sentence reports, asks or describes; it takes no side.","name":"neutral","title":"Neutral"}],"languages":["en"],"messages":{"answered":"The model says {prediction} ({confidence}).","fooled":"You fooled the model! It says {prediction} ({confidence}); you were asked for {target}.","not_fooled":"Not fooled: the model says {prediction} ({confidence}), as you were asked. Change your sentence and try again.","too_long":"Too long: {title} has {length} characters, and at most {most} are accepted. Shorten it, then try again."},"model":{"base":"embedded","doc_stride":64,"max_length":64},"model_input":["text"],"name":"sentiment","pay":{"create_cents":45,"fooled_bonus_cents":60,"minimum_hourly_cents":0,"quiz_cents":60,"validate_cents":50},"quiz":{"max_attempts":2,"pass_share":0.75,"questions":[{"answer":1,"choices":["When the model says anything but negative.","When the model says anything but negative, and other people agree that it is negative.","Whenever I submit it."],"explain":"A fooled model is half of it; other people must agree with your label.","question":"You are asked for a negative sentence. When does it earn the bonus?"},{"answer":0,"choices":["The second branch opens at eight on weekdays.","I suppose the second branch will do.","The second branch is a joke."],"explain":"A neutral sentence reports something and takes no side.","question":"Which of these is neutral?"},{"answer":1,"choices":["No, it must not appear in any form.","Yes, as a start; I can change as much or as little as I like.","Yes, I must copy it word for word."],"explain":"The prompt is an idea to start from; what counts is your own sentence.","question":"May you use the prompt sentence?"},{"answer":0,"choices":["Yes, if people understand it as I do.","No, negation is not allowed."],"explain":"Natural language that people understand is just what we look for.","question":"The model reads \"I would not say no to a second slice\" wrong. Is that allowed?"}]},"rounds":{"context_strategy":"least_used","days":14,"guard_points":2.0,"held_out_share":0.0,"split_by_worker":false,"target_fooling":3},"target":{"set_by":"task"},"title":"Fool the sentiment model","training":{"batch_size":32,"class_weights":true,"epochs":5,"learning_rate":0.0002,"mode":"full","patience":2,"seed":13},"validation":{"first_votes":2,"flag_reasons":["The sentence makes no sense","It has more than one sentiment at once","Hurtful or private content"],"gold_rate":0.0,"max_votes":5,"policy":"adaptive","sample_non_fooling":0.0,"span_f1":0.6},"work":{"content_warning":"","create_minutes":60,"examples_per_hit":1,"label_studio_minutes":20,"repeat_context":false,"tries":10,"tries_before_skip":3,"validate_minutes":60,"validations_per_hit":5}}','3b4290ef803d2f08bf6381392a71792c9c29d2dd9ad8978271c973fdc8a64a02','30126059ebdb5f8ac495f1328998005e76404d60bd34e0dc91d5e9adb3081a85',60000,330,0,666,1803902400123456,NULL,NULL);
CREATE TABLE training_job (
	id INTEGER NOT NULL, 
	task_id INTEGER NOT NULL, 
	round_id BIGINT NOT NULL, 
	state VARCHAR(20) NOT NULL, 
	mode TEXT NOT NULL, 
	started_by TEXT NOT NULL, 
	host TEXT NOT NULL, 
	pid BIGINT NOT NULL, 
	started_at BIGINT NOT NULL, 
	beat_at BIGINT NOT NULL, 
	stage TEXT NOT NULL, 
	steps BIGINT NOT NULL, 
	total BIGINT NOT NULL, 
	note TEXT NOT NULL, 
	cancel_at BIGINT, 
	cancel_by TEXT, 
	model_version_id BIGINT, 
	figures JSON, 
	finished_at BIGINT, 
	reason TEXT, token TEXT, rotates_at BIGINT, retry BOOLEAN CONSTRAINT ck_training_job_retry CHECK (retry IN (true, false)), 
	CONSTRAINT pk_training_job PRIMARY KEY (id), 
	CONSTRAINT fk_training_job_task_id_task FOREIGN KEY(task_id) REFERENCES task (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_training_job_round_id_task_id_round FOREIGN KEY(round_id, task_id) REFERENCES round (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_training_job_model_version_id_task_id_model_version FOREIGN KEY(model_version_id, task_id) REFERENCES model_version (id, task_id) ON DELETE RESTRICT, 
	CONSTRAINT ck_training_job_state CHECK (state IN ('running', 'rotated', 'refused', 'cancelled', 'stopped', 'failed')), 
	CONSTRAINT ck_training_job_mode CHECK (trim(mode) <> ''), 
	CONSTRAINT ck_training_job_started_by CHECK (trim(started_by) <> ''), 
	CONSTRAINT ck_training_job_host CHECK (trim(host) <> ''), 
	CONSTRAINT ck_training_job_pid CHECK (pid >= 0), 
	CONSTRAINT ck_training_job_steps CHECK (steps >= 0), 
	CONSTRAINT ck_training_job_total CHECK (total >= 0), 
	CONSTRAINT ck_training_job_finished CHECK ((state <> 'running') = (finished_at IS NOT NULL)), 
	CONSTRAINT ck_training_job_ended CHECK ((state <> 'running') = (reason IS NOT NULL)), 
	CONSTRAINT ck_training_job_reason CHECK (trim(reason) <> ''), 
	CONSTRAINT ck_training_job_cancelled CHECK ((cancel_at IS NOT NULL) = (cancel_by IS NOT NULL)), 
	CONSTRAINT ck_training_job_candidate CHECK (state NOT IN ('rotated', 'refused') OR model_version_id IS NOT NULL)
);
INSERT INTO "training_job" VALUES(1,1,1,'rotated','head','manager@test','here',1,1803902405123456,1803902405123456,'',0,0,'',NULL,NULL,2,NULL,1803902405123456,'because','ffbaea0947628178d5cd03efcbafdc93',NULL,NULL);
CREATE TABLE uncounted_vote (
	vote_id INTEGER NOT NULL, 
	round_id BIGINT NOT NULL, 
	example_id BIGINT NOT NULL, 
	CONSTRAINT pk_uncounted_vote PRIMARY KEY (vote_id), 
	CONSTRAINT fk_uncounted_vote_vote_id_vote FOREIGN KEY(vote_id) REFERENCES vote (id) ON DELETE RESTRICT
);
CREATE TABLE vote (
	id INTEGER NOT NULL, 
	example_id BIGINT NOT NULL, 
	author_id BIGINT NOT NULL, 
	worker_id INTEGER NOT NULL, 
	source VARCHAR(20) NOT NULL, 
	session_id BIGINT, 
	item BIGINT NOT NULL, 
	label TEXT, 
	answer JSON, 
	flag TEXT, 
	comment TEXT, 
	voted_at BIGINT NOT NULL, 
	active_ms BIGINT, 
	CONSTRAINT pk_vote PRIMARY KEY (id), 
	CONSTRAINT fk_vote_example_id_author_id_example FOREIGN KEY(example_id, author_id) REFERENCES example (id, author_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_vote_session_id_worker_id_work_session FOREIGN KEY(session_id, worker_id) REFERENCES work_session (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_vote_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_vote_example_id_worker_id UNIQUE (example_id, worker_id), 
	CONSTRAINT ck_vote_source CHECK (source IN ('pages', 'label_studio', 'import')), 
	CONSTRAINT ck_vote_not_the_author CHECK (worker_id <> author_id), 
	CONSTRAINT ck_vote_judgement CHECK (CASE WHEN label IS NULL THEN 0 ELSE 1 END + CASE WHEN answer IS NULL THEN 0 ELSE 1 END + CASE WHEN flag IS NULL THEN 0 ELSE 1 END = 1), 
	CONSTRAINT ck_vote_label CHECK (trim(label) <> ''), 
	CONSTRAINT ck_vote_flag CHECK (trim(flag) <> ''), 
	CONSTRAINT ck_vote_item CHECK (item >= 0), 
	CONSTRAINT ck_vote_active_ms CHECK (active_ms >= 0)
);
INSERT INTO "vote" VALUES(1,2,2,4,'pages',4,0,'negative',NULL,NULL,NULL,1803902403123456,NULL);
INSERT INTO "vote" VALUES(2,3,3,4,'pages',4,1,'neutral',NULL,NULL,NULL,1803902403123456,NULL);
INSERT INTO "vote" VALUES(3,1,1,4,'pages',4,2,'positive',NULL,NULL,NULL,1803902403123456,NULL);
INSERT INTO "vote" VALUES(4,1,1,5,'pages',5,0,'positive',NULL,NULL,NULL,1803902404123456,NULL);
INSERT INTO "vote" VALUES(5,2,2,5,'pages',5,1,'negative',NULL,NULL,NULL,1803902404123456,NULL);
INSERT INTO "vote" VALUES(6,3,3,5,'pages',5,2,'neutral',NULL,NULL,NULL,1803902404123456,NULL);
INSERT INTO "vote" VALUES(7,5,7,8,'pages',8,0,'negative',NULL,NULL,NULL,1803902407123456,NULL);
INSERT INTO "vote" VALUES(8,4,6,8,'pages',8,1,'positive',NULL,NULL,NULL,1803902407123456,NULL);
CREATE TABLE work_item (
	id INTEGER NOT NULL, 
	session_id BIGINT NOT NULL, 
	worker_id BIGINT NOT NULL, 
	item BIGINT NOT NULL, 
	context_id INTEGER, 
	label TEXT, 
	example_id BIGINT, 
	author_id BIGINT, 
	gold_id INTEGER, 
	expected_label TEXT, 
	expected_answer JSON, 
	draft JSON NOT NULL, 
	judgement JSON, 
	judged_at BIGINT, active_ms BIGINT CONSTRAINT ck_work_item_active_ms CHECK (active_ms >= 0), 
	CONSTRAINT pk_work_item PRIMARY KEY (id), 
	CONSTRAINT fk_work_item_session_id_worker_id_work_session FOREIGN KEY(session_id, worker_id) REFERENCES work_session (id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_work_item_example_id_author_id_example FOREIGN KEY(example_id, author_id) REFERENCES example (id, author_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_work_item_context_id_context FOREIGN KEY(context_id) REFERENCES context (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_work_item_gold_id_gold_item FOREIGN KEY(gold_id) REFERENCES gold_item (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_work_item_session_id_item UNIQUE (session_id, item), 
	CONSTRAINT ck_work_item_item CHECK (item >= 0), 
	CONSTRAINT ck_work_item_subject CHECK (CASE WHEN context_id IS NULL THEN 0 ELSE 1 END + CASE WHEN example_id IS NULL THEN 0 ELSE 1 END + CASE WHEN gold_id IS NULL THEN 0 ELSE 1 END = 1), 
	CONSTRAINT ck_work_item_author CHECK ((example_id IS NOT NULL) = (author_id IS NOT NULL)), 
	CONSTRAINT ck_work_item_not_the_author CHECK (worker_id <> author_id), 
	CONSTRAINT ck_work_item_expected CHECK (expected_label IS NULL OR expected_answer IS NULL), 
	CONSTRAINT ck_work_item_known CHECK (gold_id IS NULL OR expected_label IS NOT NULL OR expected_answer IS NOT NULL), 
	CONSTRAINT ck_work_item_judged CHECK ((judgement IS NOT NULL) = (judged_at IS NOT NULL))
);
INSERT INTO "work_item" VALUES(1,1,1,0,7,'positive',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,NULL);
INSERT INTO "work_item" VALUES(2,2,2,0,2,'negative',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,NULL);
INSERT INTO "work_item" VALUES(3,3,3,0,5,'neutral',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,NULL);
INSERT INTO "work_item" VALUES(4,4,4,0,NULL,NULL,2,2,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"negative"}',1803902403123456,NULL);
INSERT INTO "work_item" VALUES(5,4,4,1,NULL,NULL,3,3,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"neutral"}',1803902403123456,NULL);
INSERT INTO "work_item" VALUES(6,4,4,2,NULL,NULL,1,1,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"positive"}',1803902403123456,NULL);
INSERT INTO "work_item" VALUES(7,5,5,0,NULL,NULL,1,1,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"positive"}',1803902404123456,NULL);
INSERT INTO "work_item" VALUES(8,5,5,1,NULL,NULL,2,2,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"negative"}',1803902404123456,NULL);
INSERT INTO "work_item" VALUES(9,5,5,2,NULL,NULL,3,3,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"neutral"}',1803902404123456,NULL);
INSERT INTO "work_item" VALUES(10,6,6,0,6,'positive',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,NULL);
INSERT INTO "work_item" VALUES(11,7,7,0,2,'negative',NULL,NULL,NULL,NULL,NULL,'{}',NULL,NULL,NULL);
INSERT INTO "work_item" VALUES(12,8,8,0,NULL,NULL,5,7,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"negative"}',1803902407123456,NULL);
INSERT INTO "work_item" VALUES(13,8,8,1,NULL,NULL,4,6,NULL,NULL,NULL,'{}','{"answer":null,"comment":null,"flag":null,"label":"positive"}',1803902407123456,NULL);
CREATE TABLE work_session (
	id INTEGER NOT NULL, 
	public_id CHAR(32) NOT NULL, 
	hit_id INTEGER NOT NULL, 
	worker_id BIGINT NOT NULL, 
	claimed_assignment TEXT NOT NULL, 
	assignment_id BIGINT, 
	status VARCHAR(20) NOT NULL, 
	draft JSON NOT NULL, 
	started_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	submitted_at BIGINT, 
	active_ms BIGINT NOT NULL, acceptance TEXT, 
	CONSTRAINT pk_work_session PRIMARY KEY (id), 
	CONSTRAINT fk_work_session_assignment_id_hit_id_worker_id_assignment FOREIGN KEY(assignment_id, hit_id, worker_id) REFERENCES assignment (id, hit_id, worker_id) ON DELETE RESTRICT, 
	CONSTRAINT fk_work_session_hit_id_hit FOREIGN KEY(hit_id) REFERENCES hit (id) ON DELETE RESTRICT, 
	CONSTRAINT fk_work_session_worker_id_worker FOREIGN KEY(worker_id) REFERENCES worker (id) ON DELETE RESTRICT, 
	CONSTRAINT uq_work_session_public_id UNIQUE (public_id), 
	CONSTRAINT uq_work_session_hit_id_claimed_assignment_worker_id UNIQUE (hit_id, claimed_assignment, worker_id), 
	CONSTRAINT uq_work_session_assignment_id UNIQUE (assignment_id), 
	CONSTRAINT uq_work_session_id_worker_id UNIQUE (id, worker_id), 
	CONSTRAINT ck_work_session_status CHECK (status IN ('open', 'submitted', 'confirmed', 'unconfirmed', 'expired')), 
	CONSTRAINT ck_work_session_claimed_assignment CHECK (trim(claimed_assignment) <> ''), 
	CONSTRAINT ck_work_session_active_ms CHECK (active_ms >= 0), 
	CONSTRAINT ck_work_session_submitted CHECK ((status IN ('submitted', 'confirmed', 'unconfirmed')) = (submitted_at IS NOT NULL)), 
	CONSTRAINT ck_work_session_confirmed CHECK ((status = 'confirmed') = (assignment_id IS NOT NULL)), 
	CONSTRAINT ck_work_session_in_order CHECK (started_at < expires_at)
);
INSERT INTO "work_session" VALUES(1,'01a400f6367b72818c9a7bc7840d3b48',1,1,'HIT000000000001W1',1,'confirmed','{}',1803902400123456,1803906000123456,1803902401123456,0,NULL);
INSERT INTO "work_session" VALUES(2,'01a400f63a637458a8f436bc7161a1cb',2,2,'HIT000000000002W1',2,'confirmed','{}',1803902401123456,1803906001123456,1803902402123456,0,NULL);
INSERT INTO "work_session" VALUES(3,'01a400f63e4b7dc4a1ffa707051a77f2',3,3,'HIT000000000003W1',3,'confirmed','{}',1803902402123456,1803906002123456,1803902403123456,0,NULL);
INSERT INTO "work_session" VALUES(4,'01a400f642337077bc49a6d4669f22e2',4,4,'HIT000000000004W1',4,'confirmed','{}',1803902403123456,1803906003123456,1803902404123456,0,NULL);
INSERT INTO "work_session" VALUES(5,'01a400f6461b7c8cbc461ba3446c1c49',5,5,'HIT000000000005W1',5,'confirmed','{}',1803902404123456,1803906004123456,1803902405123456,0,NULL);
INSERT INTO "work_session" VALUES(6,'01a400f64a037c3fbe35365cd900db10',6,6,'HIT000000000006W1',6,'confirmed','{}',1803902405123456,1803906005123456,1803902406123456,0,NULL);
INSERT INTO "work_session" VALUES(7,'01a400f64deb7675a07d01f3fe47e20b',7,7,'HIT000000000007W1',7,'confirmed','{}',1803902406123456,1803906006123456,1803902407123456,0,NULL);
INSERT INTO "work_session" VALUES(8,'01a400f651d37a05ad9733ea604e8e6f',9,8,'HIT000000000009W1',8,'confirmed','{}',1803902407123456,1803906007123456,1803902408123456,0,NULL);
CREATE TABLE worker (
	id INTEGER NOT NULL, 
	marketplace TEXT NOT NULL, 
	external_id TEXT NOT NULL, 
	first_seen_at BIGINT NOT NULL, 
	CONSTRAINT pk_worker PRIMARY KEY (id), 
	CONSTRAINT uq_worker_marketplace_external_id UNIQUE (marketplace, external_id), 
	CONSTRAINT uq_worker_id_marketplace UNIQUE (id, marketplace), 
	CONSTRAINT ck_worker_marketplace CHECK (trim(marketplace) <> ''), 
	CONSTRAINT ck_worker_external_id CHECK (trim(external_id) <> '')
);
INSERT INTO "worker" VALUES(1,'fake','W1',1803902400123456);
INSERT INTO "worker" VALUES(2,'fake','W2',1803902400123456);
INSERT INTO "worker" VALUES(3,'fake','W3',1803902400123456);
INSERT INTO "worker" VALUES(4,'fake','W4',1803902400123456);
INSERT INTO "worker" VALUES(5,'fake','W5',1803902400123456);
INSERT INTO "worker" VALUES(6,'fake','W6',1803902400123456);
INSERT INTO "worker" VALUES(7,'fake','W7',1803902400123456);
INSERT INTO "worker" VALUES(8,'fake','W8',1803902400123456);
CREATE UNIQUE INDEX uq_round_live ON round (task_id) WHERE status IN ('open', 'validating');
CREATE INDEX ix_evaluation_round ON evaluation (round_id);
CREATE INDEX ix_audit_entry_round ON audit_entry (round_id, id) WHERE round_id IS NOT NULL;
CREATE INDEX ix_audit_entry_subject ON audit_entry (subject, subject_id, id);
CREATE INDEX ix_audit_entry_task ON audit_entry (task_id, id);
CREATE INDEX ix_qualification_grant_worker ON qualification_grant (worker_id);
CREATE UNIQUE INDEX uq_qualification_grant_held ON qualification_grant (qualification_id, worker_id) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX uq_block_everywhere ON block (worker_id) WHERE lifted_at IS NULL AND task_id IS NULL;
CREATE UNIQUE INDEX uq_block_task ON block (worker_id, task_id) WHERE lifted_at IS NULL AND task_id IS NOT NULL;
CREATE INDEX ix_hit_round ON hit (round_id, status);
CREATE INDEX ix_hit_status ON hit (marketplace, status, id);
CREATE INDEX ix_assignment_hit ON assignment (hit_id, status);
CREATE INDEX ix_assignment_undecided ON assignment (auto_approve_at) WHERE status = 'submitted';
CREATE INDEX ix_assignment_worker ON assignment (worker_id, id);
CREATE UNIQUE INDEX uq_assignment_done_once ON assignment (hit_id, worker_id) WHERE status IN ('submitted', 'approved', 'rejected');
CREATE INDEX ix_work_session_open ON work_session (expires_at) WHERE status = 'open';
CREATE INDEX ix_work_session_to_confirm ON work_session (id) WHERE status = 'submitted';
CREATE INDEX ix_work_session_worker ON work_session (worker_id, id);
CREATE INDEX ix_example_author ON example (author_id, context_id);
CREATE INDEX ix_example_content ON example (task_id, content_sha256);
CREATE INDEX ix_example_context ON example (context_id, fooled);
CREATE INDEX ix_example_counts ON example (round_id, status, fooled);
CREATE INDEX ix_example_flagged ON example (round_id, id) WHERE status = 'flagged';
CREATE INDEX ix_example_pending ON example (round_id, id) WHERE status = 'pending';
CREATE INDEX ix_example_round ON example (round_id, id);
CREATE UNIQUE INDEX uq_example_session ON example (session_id, item) WHERE session_id IS NOT NULL;
CREATE INDEX ix_label_studio_task_example ON label_studio_task (example_id) WHERE example_id IS NOT NULL;
CREATE INDEX ix_label_studio_task_unsent ON label_studio_task (link_id, id) WHERE external_id IS NULL;
CREATE INDEX ix_attempt_example ON attempt (example_id, id) WHERE example_id IS NOT NULL;
CREATE INDEX ix_attempt_label_studio_task ON attempt (label_studio_task_id, id) WHERE label_studio_task_id IS NOT NULL;
CREATE INDEX ix_attempt_round ON attempt (round_id, id);
CREATE INDEX ix_attempt_time ON attempt (task_id, asked_at);
CREATE INDEX ix_attempt_worker ON attempt (worker_id, asked_at) WHERE worker_id IS NOT NULL;
CREATE UNIQUE INDEX uq_attempt_session ON attempt (session_id, item, number) WHERE session_id IS NOT NULL;
CREATE INDEX ix_vote_worker ON vote (worker_id, id);
CREATE UNIQUE INDEX uq_vote_session ON vote (session_id, item) WHERE session_id IS NOT NULL;
CREATE INDEX ix_lease_hit ON lease (hit_id) WHERE hit_id IS NOT NULL;
CREATE INDEX ix_lease_live ON lease (expires_at) WHERE ended_at IS NULL;
CREATE INDEX ix_lease_seen ON lease (worker_id, context_id);
CREATE INDEX ix_lease_session ON lease (session_id) WHERE session_id IS NOT NULL;
CREATE UNIQUE INDEX uq_lease_context ON lease (context_id, worker_id) WHERE context_id IS NOT NULL AND ended_at IS NULL;
CREATE UNIQUE INDEX uq_lease_example ON lease (example_id, worker_id) WHERE example_id IS NOT NULL AND ended_at IS NULL;
CREATE INDEX ix_label_studio_annotation_example ON label_studio_annotation (example_id) WHERE example_id IS NOT NULL;
CREATE INDEX ix_label_studio_annotation_task ON label_studio_annotation (label_studio_task_id);
CREATE INDEX ix_label_studio_annotation_unsent ON label_studio_annotation (id) WHERE external_id IS NULL;
CREATE INDEX ix_label_studio_annotation_vote ON label_studio_annotation (vote_id) WHERE vote_id IS NOT NULL;
CREATE INDEX ix_ledger_entry_hit ON ledger_entry (hit_id, state);
CREATE INDEX ix_ledger_entry_owed ON ledger_entry (next_try_at, id) WHERE state = 'owed';
CREATE INDEX ix_ledger_entry_round ON ledger_entry (round_id, state, cents, fee_cents);
CREATE INDEX ix_ledger_entry_sent ON ledger_entry (next_try_at, id) WHERE state = 'sent';
CREATE INDEX ix_ledger_entry_task ON ledger_entry (task_id, state, cents, fee_cents);
CREATE INDEX ix_ledger_entry_worker ON ledger_entry (worker_id, state) WHERE worker_id IS NOT NULL;
CREATE UNIQUE INDEX uq_ledger_entry_assignment ON ledger_entry (assignment_id, kind) WHERE kind IN ('reward', 'top_up') AND assignment_id IS NOT NULL AND state <> 'refused';
CREATE UNIQUE INDEX uq_ledger_entry_example ON ledger_entry (example_id) WHERE example_id IS NOT NULL AND state <> 'refused';
CREATE TRIGGER guard_model_version_fixed BEFORE UPDATE ON model_version FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_model_version_fixed: a model version never changes; register a new one'); END;
CREATE TRIGGER guard_model_version_kept BEFORE DELETE ON model_version FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_model_version_kept: a model version is kept for its lineage'); END;
CREATE TRIGGER guard_evaluation_fixed BEFORE UPDATE ON evaluation FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_evaluation_fixed: an evaluation never changes; measure again on other data'); END;
CREATE TRIGGER guard_evaluation_kept BEFORE DELETE ON evaluation FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_evaluation_kept: an evaluation is kept'); END;
CREATE TRIGGER guard_audit_entry_fixed BEFORE UPDATE ON audit_entry FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_audit_entry_fixed: the audit log is only ever added to'); END;
CREATE TRIGGER guard_audit_entry_kept BEFORE DELETE ON audit_entry FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_audit_entry_kept: the audit log is only ever added to'); END;
CREATE TRIGGER guard_round_begins BEFORE INSERT ON round FOR EACH ROW
WHEN NEW.status <> 'draft'
BEGIN SELECT RAISE(ABORT, 'guard_round_begins: a round begins as a draft; insert it so, then open it'); END;
CREATE TRIGGER guard_round_forward BEFORE UPDATE OF status ON round FOR EACH ROW
WHEN NEW.status <> OLD.status AND NOT (OLD.status = 'draft' AND NEW.status = 'open' OR OLD.status = 'open' AND NEW.status = 'validating' OR OLD.status = 'validating' AND NEW.status = 'closed')
BEGIN SELECT RAISE(ABORT, 'guard_round_forward: a round goes from draft to open to validating to closed, one step at a time'); END;
CREATE TRIGGER guard_round_model BEFORE UPDATE OF status ON round FOR EACH ROW
WHEN OLD.status = 'draft' AND NEW.status = 'open' AND NOT EXISTS (SELECT 1 FROM round_model WHERE round_id = NEW.id AND rank = 0)
BEGIN SELECT RAISE(ABORT, 'guard_round_model: a round opens against a model; pin one first'); END;
CREATE TRIGGER guard_round_terms BEFORE UPDATE OF id, task_id, number, spec, spec_sha256, created_at ON round FOR EACH ROW
WHEN OLD.status <> 'draft'
BEGIN SELECT RAISE(ABORT, 'guard_round_terms: the terms of a round are fixed once it is open; change them in the next round'); END;
CREATE TRIGGER guard_round_times BEFORE UPDATE OF opened_at, validating_at, closed_at, frozen_at, archive_sha256 ON round FOR EACH ROW
WHEN NOT (SELECT true FROM round WHERE id = OLD.id) OR OLD.opened_at IS NOT NULL AND NEW.opened_at IS NOT OLD.opened_at OR OLD.validating_at IS NOT NULL AND NEW.validating_at IS NOT OLD.validating_at OR OLD.closed_at IS NOT NULL AND NEW.closed_at IS NOT OLD.closed_at OR OLD.frozen_at IS NOT NULL AND (NEW.frozen_at IS NOT OLD.frozen_at OR NEW.archive_sha256 IS NOT OLD.archive_sha256)
BEGIN SELECT RAISE(ABORT, 'guard_round_times: when a round changed, and its archive, are fixed'); END;
CREATE TRIGGER guard_round_closed BEFORE UPDATE OF target_fooling, closes_at ON round FOR EACH ROW
WHEN OLD.status = 'closed'
BEGIN SELECT RAISE(ABORT, 'guard_round_closed: a closed round is fixed'); END;
CREATE TRIGGER guard_round_kept BEFORE DELETE ON round FOR EACH ROW
WHEN OLD.status <> 'draft'
BEGIN SELECT RAISE(ABORT, 'guard_round_kept: only a draft round can be removed'); END;
CREATE TRIGGER guard_round_model_added BEFORE INSERT ON round_model FOR EACH ROW
WHEN (SELECT status <> 'draft' FROM round WHERE id = NEW.round_id)
BEGIN SELECT RAISE(ABORT, 'guard_round_model_added: models are pinned while a round is a draft'); END;
CREATE TRIGGER guard_round_model_fixed BEFORE UPDATE ON round_model FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_round_model_fixed: unpin the model and pin another, while it is a draft'); END;
CREATE TRIGGER guard_round_model_kept BEFORE DELETE ON round_model FOR EACH ROW
WHEN (SELECT status <> 'draft' FROM round WHERE id = OLD.round_id)
BEGIN SELECT RAISE(ABORT, 'guard_round_model_kept: models stay pinned once a round is open'); END;
CREATE TRIGGER guard_context_fixed BEFORE UPDATE OF id, public_id, task_id, key, fields ON context FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_context_fixed: a context never changes; retire it and add another'); END;
CREATE TRIGGER guard_example_added BEFORE INSERT ON example FOR EACH ROW
WHEN NOT (SELECT status IN ('open', 'validating') FROM round WHERE id = NEW.round_id)
BEGIN SELECT RAISE(ABORT, 'guard_example_added: examples are added to rounds that are open or validating'); END;
CREATE TRIGGER guard_example_fixed BEFORE UPDATE OF id, public_id, task_id, round_id, context_id, author_id, source, session_id, item, fields, content_sha256, label, answer, explanation, submitted_at, active_ms, tries, verdict_id, verdict, model_version_id, confidence, fooled ON example FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_example_fixed: what was submitted and its verdict never change'); END;
CREATE TRIGGER guard_example_decided BEFORE UPDATE OF status, votes_wanted, gold_label, gold_answer, decided_at ON example FOR EACH ROW
WHEN NOT (SELECT status IN ('open', 'validating') FROM round WHERE id = NEW.round_id)
BEGIN SELECT RAISE(ABORT, 'guard_example_decided: examples of a closed round are decided'); END;
CREATE TRIGGER guard_example_split BEFORE UPDATE OF split ON example FOR EACH ROW
WHEN (SELECT frozen_at IS NOT NULL FROM round WHERE id = NEW.round_id)
BEGIN SELECT RAISE(ABORT, 'guard_example_split: the splits of a frozen round are fixed'); END;
CREATE TRIGGER guard_example_kept BEFORE DELETE ON example FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_example_kept: examples are kept; withdraw it instead'); END;
CREATE TRIGGER effect_example_counted AFTER INSERT ON example FOR EACH ROW
WHEN true
BEGIN INSERT INTO round_tally (round_id, status, fooled, examples) VALUES (NEW.round_id, NEW.status, NEW.fooled, 1) ON CONFLICT (round_id, status, fooled) DO UPDATE SET examples = round_tally.examples + excluded.examples; END;
CREATE TRIGGER effect_example_moved AFTER UPDATE OF status ON example FOR EACH ROW
WHEN NEW.status <> OLD.status
BEGIN UPDATE round_tally SET examples = examples - 1 WHERE round_id = OLD.round_id AND status = OLD.status AND fooled = OLD.fooled; INSERT INTO round_tally (round_id, status, fooled, examples) VALUES (NEW.round_id, NEW.status, NEW.fooled, 1) ON CONFLICT (round_id, status, fooled) DO UPDATE SET examples = round_tally.examples + excluded.examples; END;
CREATE TRIGGER guard_attempt_fixed BEFORE UPDATE OF id, public_id, task_id, round_id, context_id, source, session_id, item, number, label_studio_task_id, fields, label, answer, verdict, model_version_id, confidence, fooled, latency_us, asked_at ON attempt FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_attempt_fixed: what was asked and its verdict never change'); END;
CREATE TRIGGER guard_attempt_linked BEFORE UPDATE OF worker_id, example_id ON attempt FOR EACH ROW
WHEN OLD.worker_id IS NOT NULL AND NEW.worker_id IS NOT OLD.worker_id OR OLD.example_id IS NOT NULL AND NEW.example_id IS NOT OLD.example_id
BEGIN SELECT RAISE(ABORT, 'guard_attempt_linked: the worker and the example of an attempt are filled in once'); END;
CREATE TRIGGER guard_attempt_kept BEFORE DELETE ON attempt FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_attempt_kept: attempts are kept'); END;
CREATE TRIGGER guard_vote_added BEFORE INSERT ON vote FOR EACH ROW
WHEN NOT (SELECT status IN ('open', 'validating') FROM round WHERE id = (SELECT round_id FROM example WHERE id = NEW.example_id))
BEGIN SELECT RAISE(ABORT, 'guard_vote_added: votes are added to rounds that are open or validating'); END;
CREATE TRIGGER guard_vote_fixed BEFORE UPDATE ON vote FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_vote_fixed: a vote never changes'); END;
CREATE TRIGGER guard_vote_kept BEFORE DELETE ON vote FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_vote_kept: votes are kept'); END;
CREATE TRIGGER guard_hit_fixed BEFORE UPDATE OF id, public_id, key, task_id, round_id, kind, marketplace, reward_cents ON hit FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_hit_fixed: what a HIT is and pays never changes; post another'); END;
CREATE TRIGGER guard_hit_known BEFORE UPDATE OF external_id ON hit FOR EACH ROW
WHEN OLD.external_id IS NOT NULL AND NEW.external_id IS NOT OLD.external_id
BEGIN SELECT RAISE(ABORT, 'guard_hit_known: the marketplace named this HIT already'); END;
CREATE TRIGGER guard_assignment_forward BEFORE UPDATE OF status ON assignment FOR EACH ROW
WHEN OLD.status = 'submitted' AND NEW.status NOT IN ('submitted', 'approved', 'rejected') OR OLD.status = 'rejected' AND NEW.status NOT IN ('rejected', 'approved') OR OLD.status = 'approved' AND NEW.status <> 'approved'
BEGIN SELECT RAISE(ABORT, 'guard_assignment_forward: submitted work is approved or rejected, and only a rejection can be taken back'); END;
CREATE TRIGGER guard_assignment_whose BEFORE UPDATE OF id, hit_id, worker_id, marketplace, external_id ON assignment FOR EACH ROW
WHEN OLD.submitted_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'guard_assignment_whose: submitted work stays with the worker who did it'); END;
CREATE TRIGGER guard_ledger_entry_begins BEFORE INSERT ON ledger_entry FOR EACH ROW
WHEN NEW.state <> 'reserved'
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_begins: money is reserved before it is owed'); END;
CREATE TRIGGER guard_ledger_entry_round BEFORE INSERT ON ledger_entry FOR EACH ROW
WHEN (SELECT round_id FROM hit WHERE id = NEW.hit_id) IS NOT NEW.round_id
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_round: an entry belongs to the round of its HIT'); END;
CREATE TRIGGER guard_ledger_entry_forward BEFORE UPDATE OF state ON ledger_entry FOR EACH ROW
WHEN NEW.state <> OLD.state AND NOT (OLD.state = 'reserved' AND NEW.state IN ('owed', 'released') OR OLD.state = 'owed' AND NEW.state = 'sent' OR OLD.state = 'sent' AND NEW.state IN ('confirmed', 'refused'))
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_forward: an entry goes from reserved to owed or released, from owed to sent, from sent to confirmed or refused'); END;
CREATE TRIGGER guard_ledger_entry_amount BEFORE UPDATE OF id, key, task_id, round_id, kind, cents, fee_cents, hit_id, reserved_at ON ledger_entry FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_amount: an amount and what it is for never change; make another entry'); END;
CREATE TRIGGER guard_ledger_entry_payee BEFORE UPDATE OF assignment_id, worker_id, example_id, owed_at ON ledger_entry FOR EACH ROW
WHEN OLD.owed_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_payee: who is owed stays owed'); END;
CREATE TRIGGER guard_ledger_entry_settled BEFORE UPDATE ON ledger_entry FOR EACH ROW
WHEN OLD.settled_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_settled: a settled entry never changes'); END;
CREATE TRIGGER guard_ledger_entry_sent BEFORE UPDATE OF sent_at ON ledger_entry FOR EACH ROW
WHEN OLD.sent_at IS NOT NULL AND NEW.sent_at IS NOT OLD.sent_at
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_sent: when an entry was sent is fixed'); END;
CREATE TRIGGER guard_ledger_entry_kept BEFORE DELETE ON ledger_entry FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_ledger_entry_kept: the ledger keeps every entry'); END;
CREATE TRIGGER effect_ledger_entry_reserved AFTER INSERT ON ledger_entry FOR EACH ROW
WHEN true
BEGIN UPDATE round SET reserved_cents = reserved_cents + NEW.cents + NEW.fee_cents WHERE id = NEW.round_id; UPDATE task SET reserved_cents = reserved_cents + NEW.cents + NEW.fee_cents WHERE id = NEW.task_id; END;
CREATE TRIGGER effect_ledger_entry_moved AFTER UPDATE OF state ON ledger_entry FOR EACH ROW
WHEN NEW.state <> OLD.state
BEGIN UPDATE round SET reserved_cents = reserved_cents + (NEW.cents + NEW.fee_cents) * (CASE NEW.state WHEN 'reserved' THEN 1 ELSE 0 END - CASE OLD.state WHEN 'reserved' THEN 1 ELSE 0 END), owed_cents = owed_cents + (NEW.cents + NEW.fee_cents) * (CASE NEW.state WHEN 'owed' THEN 1 ELSE 0 END - CASE OLD.state WHEN 'owed' THEN 1 ELSE 0 END), sent_cents = sent_cents + (NEW.cents + NEW.fee_cents) * (CASE WHEN NEW.state IN ('sent', 'confirmed') THEN 1 ELSE 0 END - CASE WHEN OLD.state IN ('sent', 'confirmed') THEN 1 ELSE 0 END) WHERE id = NEW.round_id; UPDATE task SET reserved_cents = reserved_cents + (NEW.cents + NEW.fee_cents) * (CASE NEW.state WHEN 'reserved' THEN 1 ELSE 0 END - CASE OLD.state WHEN 'reserved' THEN 1 ELSE 0 END), owed_cents = owed_cents + (NEW.cents + NEW.fee_cents) * (CASE NEW.state WHEN 'owed' THEN 1 ELSE 0 END - CASE OLD.state WHEN 'owed' THEN 1 ELSE 0 END), sent_cents = sent_cents + (NEW.cents + NEW.fee_cents) * (CASE WHEN NEW.state IN ('sent', 'confirmed') THEN 1 ELSE 0 END - CASE WHEN OLD.state IN ('sent', 'confirmed') THEN 1 ELSE 0 END) WHERE id = NEW.task_id; END;
CREATE INDEX ix_hit_unfinished ON hit (marketplace, id) WHERE finished_at IS NULL;
CREATE INDEX ix_work_item_example ON work_item (worker_id, example_id) WHERE example_id IS NOT NULL;
CREATE INDEX ix_work_item_gold ON work_item (worker_id, gold_id) WHERE gold_id IS NOT NULL;
CREATE INDEX ix_quiz_result_worker ON quiz_result (worker_id, task_id);
CREATE INDEX ix_uncounted_vote_round ON uncounted_vote (round_id, vote_id);
CREATE TRIGGER effect_vote_noted AFTER INSERT ON vote FOR EACH ROW
WHEN true
BEGIN INSERT INTO uncounted_vote (vote_id, round_id, example_id) SELECT NEW.id, round_id, id FROM example WHERE id = NEW.example_id; END;
CREATE INDEX ix_context_live ON context (task_id, position, id) WHERE retired_at IS NULL;
CREATE TRIGGER effect_example_used_context AFTER INSERT ON example FOR EACH ROW
WHEN NEW.context_id IS NOT NULL AND NEW.status <> 'withdrawn'
BEGIN INSERT INTO context_tally (round_id, context_id, used, fooled) VALUES (NEW.round_id, NEW.context_id, 1, CASE WHEN NEW.fooled THEN 1 ELSE 0 END) ON CONFLICT (round_id, context_id) DO UPDATE SET used = context_tally.used + excluded.used, fooled = context_tally.fooled + excluded.fooled; END;
CREATE TRIGGER effect_example_used_label AFTER INSERT ON example FOR EACH ROW
WHEN NEW.label IS NOT NULL AND NEW.status <> 'withdrawn'
BEGIN INSERT INTO label_tally (round_id, label, examples) VALUES (NEW.round_id, NEW.label, 1) ON CONFLICT (round_id, label) DO UPDATE SET examples = label_tally.examples + excluded.examples; END;
CREATE TRIGGER effect_example_withdrawn_context AFTER UPDATE OF status ON example FOR EACH ROW
WHEN NEW.context_id IS NOT NULL AND (NEW.status = 'withdrawn') <> (OLD.status = 'withdrawn')
BEGIN INSERT INTO context_tally (round_id, context_id, used, fooled) VALUES (NEW.round_id, NEW.context_id, CASE WHEN NEW.status = 'withdrawn' THEN -1 ELSE 1 END, CASE WHEN NEW.fooled THEN CASE WHEN NEW.status = 'withdrawn' THEN -1 ELSE 1 END ELSE 0 END) ON CONFLICT (round_id, context_id) DO UPDATE SET used = context_tally.used + excluded.used, fooled = context_tally.fooled + excluded.fooled; END;
CREATE TRIGGER effect_example_withdrawn_label AFTER UPDATE OF status ON example FOR EACH ROW
WHEN NEW.label IS NOT NULL AND (NEW.status = 'withdrawn') <> (OLD.status = 'withdrawn')
BEGIN INSERT INTO label_tally (round_id, label, examples) VALUES (NEW.round_id, NEW.label, CASE WHEN NEW.status = 'withdrawn' THEN -1 ELSE 1 END) ON CONFLICT (round_id, label) DO UPDATE SET examples = label_tally.examples + excluded.examples; END;
CREATE UNIQUE INDEX uq_training_job_running ON training_job (task_id) WHERE state = 'running';
CREATE INDEX ix_training_job_task ON training_job (task_id, id);
CREATE TRIGGER guard_training_job_begins BEFORE INSERT ON training_job FOR EACH ROW
WHEN NEW.state <> 'running'
BEGIN SELECT RAISE(ABORT, 'guard_training_job_begins: a training begins by running; insert it so'); END;
CREATE TRIGGER guard_training_job_over BEFORE UPDATE ON training_job FOR EACH ROW
WHEN OLD.state <> 'running'
BEGIN SELECT RAISE(ABORT, 'guard_training_job_over: a training that is over never changes; begin another'); END;
CREATE TRIGGER guard_training_job_kept BEFORE DELETE ON training_job FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_training_job_kept: trainings are kept'); END;
CREATE INDEX ix_data_token_task ON data_token (task_id, id);
CREATE INDEX ix_example_verified ON example (task_id, id) WHERE status = 'verified';
CREATE TRIGGER guard_training_job_fixed BEFORE UPDATE OF id, task_id, round_id, mode, started_by, host, pid, started_at, token ON training_job FOR EACH ROW
WHEN true
BEGIN SELECT RAISE(ABORT, 'guard_training_job_fixed: what a training began with never changes'); END;
CREATE TRIGGER guard_attempt_frozen BEFORE UPDATE OF worker_id, example_id ON attempt FOR EACH ROW
WHEN (SELECT frozen_at IS NOT NULL FROM round WHERE id = NEW.round_id)
BEGIN SELECT RAISE(ABORT, 'guard_attempt_frozen: the attempts of a frozen round are fixed'); END;
CREATE INDEX ix_context_tally_uniform ON context_tally (round_id, lot, context_id) WHERE lot IS NOT NULL;
CREATE INDEX ix_context_tally_least_used ON context_tally (round_id, used, lot, context_id) WHERE lot IS NOT NULL;
CREATE INDEX ix_context_tally_least_fooled ON context_tally (round_id, fooled, used, lot, context_id) WHERE lot IS NOT NULL;
CREATE INDEX ix_context_tally_in_order ON context_tally (round_id, used, position, context_id) WHERE lot IS NOT NULL;
CREATE TRIGGER effect_round_opened AFTER UPDATE OF status ON round FOR EACH ROW
WHEN NEW.status = 'open' AND OLD.status = 'draft'
BEGIN INSERT INTO context_tally (round_id, context_id, used, fooled, lot, position) SELECT NEW.id, context.id, 0, 0, context.id % 2147483647 * 1327217884 % 2147483647, context.position FROM context WHERE context.task_id = NEW.task_id AND context.retired_at IS NULL ON CONFLICT (round_id, context_id) DO UPDATE SET lot = excluded.lot, position = excluded.position; END;
CREATE TRIGGER effect_context_added AFTER INSERT ON context FOR EACH ROW
WHEN NEW.retired_at IS NULL
BEGIN INSERT INTO context_tally (round_id, context_id, used, fooled, lot, position) SELECT round.id, NEW.id, 0, 0, CASE WHEN NEW.retired_at IS NULL THEN NEW.id % 2147483647 * 1327217884 % 2147483647 END, NEW.position FROM round WHERE round.task_id = NEW.task_id AND round.status IN ('open', 'validating') ORDER BY NEW.id ON CONFLICT (round_id, context_id) DO UPDATE SET lot = excluded.lot, position = excluded.position; END;
CREATE TRIGGER effect_context_moved AFTER UPDATE OF position, retired_at ON context FOR EACH ROW
WHEN (NEW.position <> OLD.position OR (NEW.retired_at IS NULL) <> (OLD.retired_at IS NULL)) AND (NEW.retired_at IS NULL OR OLD.retired_at IS NULL)
BEGIN INSERT INTO context_tally (round_id, context_id, used, fooled, lot, position) SELECT round.id, NEW.id, 0, 0, CASE WHEN NEW.retired_at IS NULL THEN NEW.id % 2147483647 * 1327217884 % 2147483647 END, NEW.position FROM round WHERE round.task_id = NEW.task_id AND round.status IN ('open', 'validating') ORDER BY NEW.id ON CONFLICT (round_id, context_id) DO UPDATE SET lot = excluded.lot, position = excluded.position; END;
COMMIT;
