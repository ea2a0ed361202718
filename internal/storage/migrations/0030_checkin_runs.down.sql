DROP TABLE checkin_runs
