package app

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// talker accepts connections and passes each to talk. If talk is nil, it never sends anything.
func talker(t *testing.T, talk func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if talk != nil {
					talk(conn)
				}
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return ln.Addr().String()
}

// dead returns an address without a listener.
func dead(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t)) }

func TestConnectTriesEverythingAndChangesNothing(t *testing.T) {
	t.Parallel()
	redis := redistest.Server(t)
	maria := sqldbtest.Server(t).URL
	hole, closed := talker(t, nil), dead(t)
	wrong := func(raw string) string { // the same URL with a wrong password
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(u.User.Username(), "hunter2")
		return u.String()
	}
	locked := redistest.Server(t, "requirepass secret")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Redis: redis.URL, SQL: maria, KeyPrefix: "stoa", Dev: "true"}
	for _, c := range []struct {
		name    string
		change  func(*Config)
		setting string
		want    string // part of the fault, or of Found
		fails   bool
		away    bool
	}{
		{"all is well", func(*Config) {}, "sql", "schema 0000; stoa migrate", false, false},
		{"Redis is there", func(*Config) {}, "redis", "standalone, Redis", false, false},
		{"MySQL's port is dead", func(c *Config) { c.SQL = "mysql://stoa:hunter2@" + closed + "/stoa" }, "sql", "refused", true, true},
		{"MySQL says nothing", func(c *Config) { c.SQL = "mysql://stoa:hunter2@" + hole + "/stoa" }, "sql", hole, true, true},
		{"MySQL's password is wrong", func(c *Config) { c.SQL = wrong(maria) }, "sql", "denied", true, false},
		{"a file that is no database", func(c *Config) { c.SQL = "sqlite:" + file }, "sql", "not a database", true, false},
		{"no SQLite file yet", func(c *Config) { c.SQL = "sqlite" }, "sql", "no database yet", false, false},
		{"Redis' port is dead", func(c *Config) { c.Redis = "redis://:hunter2@" + closed }, "redis", "refused", true, true},
		{"Redis says nothing", func(c *Config) { c.Redis = "redis://:hunter2@" + hole }, "redis", "no answer in time", true, true},
		{"Redis' password is wrong", func(c *Config) { c.Redis = "redis://:hunter2@" + locked.Addr }, "redis", "WRONGPASS", true, false},
		{"Redis wants a password", func(c *Config) { c.Redis = locked.URL }, "redis", "NOAUTH", true, false},
		{"the mail server's port is dead", smtp(closed), "smtp.host", "refused", true, true},
		{"the mail server says nothing", smtp(hole), "smtp.host", "deadline", true, true},
		{"the mail server is none", smtp(talker(t, func(c net.Conn) { fmt.Fprint(c, "554 go away\r\n") })), "smtp.host", "554", true, false},
		{"the folder is a file", func(c *Config) {
			c.Data = file
			c.SQL = "sqlite:" + filepath.Join(t.TempDir(), "x.db")
		}, "data", "no folder", true, false},
		{"the folder comes later", func(c *Config) { c.Data = filepath.Join(c.Data, "later", "still") }, "data", "not there yet", false, false},
		{"the folder is for files alone", func(c *Config) { c.Data, c.Secret = file, strings.Repeat("s", 32) }, "data", "no folder", true, false},
		{"no folder is needed", func(c *Config) {
			c.Data, c.Secret, c.Files.Storage = file, strings.Repeat("s", 32), "s3://KEY:hunter2@example.org/bucket"
		}, "data", "not tried", false, false},
		{"the server of files is dead", func(c *Config) {
			c.Files.Storage = "s3://KEY:hunter2@" + closed + "/bucket?tls=false&region=x"
		}, "files.storage", "refused", true, false},
		{"the folder of files is a file", func(c *Config) { c.Files.Storage = "folder:" + file }, "files.storage", "no folder", true, false},
		{"the port is taken", func(c *Config) { c.Addr = hole }, "addr", "in use", true, false},
		{"the operators' port is taken", func(c *Config) { c.AdminAddr = hole }, "admin_addr", "in use", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			cfg.SMTP.Timeout = time.Minute
			c.change(&cfg)
			config.Defaults(&cfg)
			within := time.Minute // decides nothing if the server responds
			if strings.HasSuffix(c.name, "says nothing") {
				within = 300 * time.Millisecond
			}
			met := false
			for _, check := range cfg.Connect(t.Context(), within) {
				if all := fmt.Sprintf("%+v", check); strings.Contains(all, "hunter2") {
					t.Errorf("a password is shown: %s", all)
				}
				if check.Setting != c.setting {
					continue
				}
				met = true
				if text := check.Found; !c.fails && (!check.OK || !strings.Contains(text, c.want)) {
					t.Errorf("%+v, want %q found", check, c.want)
				}
				if c.fails && (check.OK || check.Do == "" || !strings.Contains(check.Fault, c.want) || check.Away != c.away) {
					t.Errorf("%+v, want the fault %q, away %v", check, c.want, c.away)
				}
			}
			if !met {
				t.Errorf("nothing was said of %s", c.setting)
			}
		})
	}
	t.Cleanup(func() { // after all tests have run
		if n, err := redis.Do("DBSIZE"); err != nil || n[0] != "0" {
			t.Errorf("%v keys, %v", n, err)
		}
		left, err := os.ReadDir(good.Data)
		if err != nil || len(left) > 0 {
			t.Errorf("the data folder holds %v, %v", left, err)
		}
	})
}

func TestConnect_RedisUserWithoutInfoHasACure(t *testing.T) {
	t.Parallel()
	server := redistest.Server(t)
	if _, err := server.Do("ACL", "SETUSER", "mute", "on", ">hunter2", "~*", "&*", "+@all", "-info"); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Data: t.TempDir(), Redis: "redis://mute:hunter2@" + server.Addr, SQL: "sqlite", Dev: "true"}
	config.Defaults(&cfg)
	for _, check := range cfg.Connect(t.Context(), time.Minute) {
		if check.Setting == "redis" && (check.OK || !strings.Contains(check.Do, "stoa keys acl")) {
			t.Errorf("got %+v, want a fault and the command that prints the rights", check)
		}
	}
}

// smtp sets a server to send mails through.
func smtp(addr string) func(*Config) {
	return func(c *Config) {
		host, port, _ := net.SplitHostPort(addr)
		c.Dev = "false"
		c.SMTP = mail.Config{Host: host, User: "stoa", Password: "hunter2", From: "stoa@example.org", TLS: "none", Timeout: time.Minute}
		_, _ = fmt.Sscan(port, &c.SMTP.Port)
	}
}

func TestConnectTellsTheSchemasStanding(t *testing.T) {
	t.Parallel()
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			at := e.Config(t)
			db := sqldbtest.Open(t, at)
			cfg := Config{Addr: "127.0.0.1:0", Data: at.Dir, Redis: "embedded", SQL: at.URL, KeyPrefix: "stoa", Dev: "true"}
			look := func() Check { return cfg.Connect(t.Context(), time.Minute)[0] }
			if err := db.Migrate(t.Context(), migrations.FS); err != nil {
				t.Fatal(err)
			}
			if c := look(); !c.OK || !strings.Contains(c.Found, "the newest") {
				t.Errorf("migrated: %+v", c)
			}
			if err := (&secrets{current: []byte(strings.Repeat("a", 32))}).agree(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			for secret, sound := range map[string]bool{strings.Repeat("a", 32): true, strings.Repeat("b", 32): false, "": false} {
				cfg.Secret = secret
				if c := look(); c.OK != sound || !sound && !strings.Contains(c.Fault, "secret") {
					t.Errorf("the secret %q: %+v", secret, c)
				}
			}
			rotated := cfg
			rotated.Data, rotated.Secret = cmp.Or(at.Dir, t.TempDir()), ""
			previous := filepath.Join(rotated.Data, previousFile)
			if err := os.WriteFile(previous, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if checks := rotated.Connect(t.Context(), time.Minute); checks[1].Setting != "secret_previous" ||
				!strings.Contains(checks[1].Fault, previous) {
				t.Errorf("an empty secret_previous: %+v", checks)
			}
			cfg.Secret = strings.Repeat("a", 32)
			for _, s := range []struct{ set, want string }{
				{"version = 1", "stoa migrate, or the server as it starts"},
				{"version = 9999", "newer than this program"},
				{fmt.Sprintf("version = %d, dirty = 1", migrations.Newest()), "stoa migrate, or the server as it starts, completes it"},
			} {
				if _, err := db.ExecContext(t.Context(), "UPDATE schema_migrations SET "+s.set); err != nil {
					t.Fatal(err)
				}
				if c := look(); !strings.Contains(c.Found+c.Fault, s.want) {
					t.Errorf("%s: %+v", s.set, c)
				}
			}
		})
	}
}

// Without this check, an operator would not learn that deleted files are still stored.
func TestABucketThatKeepsVersionsIsTold(t *testing.T) {
	t.Parallel()
	files := s3mem.New()
	server := httptest.NewServer(gofakes3.New(files, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	for bucket, keeps := range map[string]bool{"plain": false, "versioned": true} {
		if err := files.CreateBucket(bucket); err != nil {
			t.Fatal(err)
		}
		if keeps {
			if err := files.SetVersioningConfiguration(bucket, gofakes3.VersioningConfiguration{Status: gofakes3.VersioningEnabled}); err != nil {
				t.Fatal(err)
			}
		}
		check := checkBucket(t.Context(), strings.Replace(server.URL, "http://", "s3://key:secret@", 1)+"/"+bucket+"?tls=false&region=us-east-1")
		if check.Fault != "" || strings.Contains(check.Found, "versions") != keeps {
			t.Errorf("%s: %+v", bucket, check)
		}
	}
}

// A replica responds to all reads.
func TestADatabaseThatTakesNoWritesIsTold(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	admin := sqldbtest.Open(t, sqldb.Config{URL: server.URL})
	for _, statement := range []string{"CREATE USER stoa@127.0.0.1", "GRANT ALL ON `stoa\\_%`.* TO stoa@127.0.0.1",
		"SET GLOBAL read_only = 1"} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	cfg := Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Redis: "embedded", SQL: strings.Replace(server.URL, "root@", "stoa@", 1),
		KeyPrefix: "stoa", Dev: "true"}
	takesNone := func(how string) {
		t.Helper()
		check := cfg.Connect(t.Context(), time.Minute)[0]
		if check.OK || check.Away || !strings.Contains(check.Fault, "takes no writes") || !strings.Contains(check.Do, "read_only") {
			t.Errorf("%s: %+v", how, check)
		}
	}
	takesNone("a replica")
	server.Stop(t)
	server.RestartWith(t, "--innodb-read-only")
	takesNone("a reader of Aurora")
}

// A database that disconnects before its write is tried may be available later.
func TestADatabaseThatGoesWhileItIsTriedIsAway(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{TCP: true})
	goes := talker(t, func(near net.Conn) {
		far, err := net.Dial("tcp", server.Addr())
		if err != nil {
			return
		}
		defer far.Close()
		go func() { _, _ = io.Copy(near, far) }()
		packet := make([]byte, 1<<16)
		for {
			n, err := near.Read(packet)
			if err != nil || strings.Contains(string(packet[:n]), "START TRANSACTION") {
				near.Close()
				return
			}
			_, _ = far.Write(packet[:n])
		}
	})
	cfg := Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Redis: "embedded", SQL: strings.Replace(server.URL, server.Addr(), goes, 1),
		KeyPrefix: "stoa", Dev: "true"}
	if check := cfg.Connect(t.Context(), time.Minute)[0]; check.OK || !check.Away || !strings.Contains(check.Do, "start the database") {
		t.Errorf("%+v", check)
	}
}

// InnoDB refuses writes while the binary log is written by statement.
func TestConnect_StatementLogHasACure(t *testing.T) {
	t.Parallel()
	server := sqldbtest.OwnServer(t, sqldbtest.Options{})
	server.Stop(t)
	server.RestartWith(t, "--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT")
	c := Config{Addr: "127.0.0.1:0", Data: t.TempDir(), Redis: "embedded", SQL: server.URL, KeyPrefix: "stoa", Dev: "true"}
	for _, check := range c.Connect(t.Context(), time.Minute) {
		if check.Setting == "sql" && (check.OK || check.Away || !strings.Contains(check.Fault, "binlog_format") ||
			!strings.Contains(check.Do, "binlog_format = ROW")) {
			t.Errorf("got %+v, want a fault with its cure", check)
		}
	}
}
