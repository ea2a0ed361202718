package deploy

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// patience bounds a command that hangs. No result depends on it.
const patience = time.Minute

// A site is a copy of the files with passwords, created by the README's command.
type site struct {
	dir       string
	passwords map[string]string // by user
}

// install copies the files, replaces their paths, and runs the README's command for passwords there.
func install(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), passwords: map[string]string{}}
	files, err := filepath.Glob("redis/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, f := range files {
		s.write(t, filepath.Base(f), strings.NewReplacer("/etc/redis", s.dir, "/var/lib", s.dir).Replace(read(t, f)))
	}
	for _, dir := range []string{"redis", "redis-sentinel"} {
		if err := os.Mkdir(s.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, "passwords")
	for line := range strings.Lines(read(t, s.path("passwords"))) {
		user, password, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.passwords[user] = password
	}
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a marked command of the README; env has entries such as "HOST=…".
func (s *site) run(t *testing.T, name string, env ...string) {
	t.Helper()
	block := regexp.MustCompile("<!-- run: " + name + " -->\n```sh\n((?s:.*?))```").FindStringSubmatch(read(t, "redis/README.md"))
	if block == nil {
		t.Fatalf("the README has no command %q", name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-euc", strings.ReplaceAll(block[1], "/etc/redis", s.dir))
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the README's %s: %v\n%s", name, err, out)
	}
}

func TestABackupOfRedisThatIsDamagedTakesNoOthersPlace(t *testing.T) {
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup.rdb")
	if err := os.WriteFile(backup, []byte("the one before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, does := range map[string]string{"redis-cli": `echo damaged >"$BACKUP.part"`, "redis-check-rdb": "exit 1"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", block(t, "redis/README.md", "<!-- run: backup -->", "sh"))
	cmd.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "BACKUP="+backup)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("a damaged backup is said to be one:\n%s", out)
	}
	if got := read(t, backup); got != "the one before" {
		t.Errorf("in the place of the backup before is %q", got)
	}
}

// cli sends one command as a user.
func (s *site) cli(t *testing.T, i *redistest.Instance, user string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	host, port, _ := net.SplitHostPort(i.Addr)
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"-e", "--no-auth-warning", "-h", host, "-p", port, "--user", user},
		args...)...)
	cmd.Env = append(os.Environ(), "REDISCLI_AUTH="+s.passwords[user])
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (s *site) must(t *testing.T, i *redistest.Instance, user string, args ...string) string {
	t.Helper()
	out, err := s.cli(t, i, user, args...)
	if err != nil {
		t.Fatalf("%s as %s: %v: %s", strings.Join(args, " "), user, err, out)
	}
	return out
}

// set is a master, its replica and three sentinels.
type set struct {
	*site
	master, replica *redistest.Instance
	sentinels       []*redistest.Instance
}

func startSet(t *testing.T) *set {
	t.Helper()
	s := &set{site: install(t)}
	s.master = redistest.Conf(t, s.path("redis.conf"))
	s.startReplica(t)
	s.startSentinels(t)
	return s
}

// follow writes a file with the address of another master.
func (s *set) follow(t *testing.T, from, to string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.master.Addr)
	text := strings.ReplaceAll(read(t, s.path(from)), "redis-1.internal 6379", host+" "+port)
	s.write(t, to, text)
}

func (s *set) startReplica(t *testing.T) {
	t.Helper()
	s.follow(t, "replica.conf", "replica-of.conf")
	s.replica = redistest.Conf(t, s.path("replica-of.conf"))
	s.copied(t, s.replica)
}

func (s *set) copied(t *testing.T, replica *redistest.Instance) {
	t.Helper()
	eventually.True(t, "the replica follows", func() bool {
		out, err := s.cli(t, replica, "admin", "INFO")
		return err == nil && strings.Contains(out, "role:slave") && strings.Contains(out, "master_link_status:up") &&
			strings.Contains(out, "aof_rewrite_in_progress:0") // it does not stop while it rewrites its file
	})
}

func (s *set) startSentinels(t *testing.T) {
	t.Helper()
	s.sentinels = nil
	for n := range 3 {
		name := fmt.Sprintf("sentinel-%d.conf", n)
		s.follow(t, "sentinel.conf", name)
		s.sentinels = append(s.sentinels, redistest.Conf(t, s.path(name), "--sentinel"))
	}
	for _, i := range s.sentinels {
		eventually.True(t, "the sentinels know each other and the replica", func() bool {
			out, err := s.ask(t, i, "SENTINEL", "MASTER", "stoa")
			return err == nil && strings.Contains(out, "num-other-sentinels\n2\n") && strings.Contains(out, "num-slaves\n1\n")
		})
	}
}

// ask sends a command to a sentinel.
func (s *set) ask(t *testing.T, i *redistest.Instance, args ...string) (string, error) {
	s.passwords["default"] = s.passwords["sentinels"]
	return s.cli(t, i, "default", args...)
}

func (s *set) url() string {
	var addrs []string
	for _, i := range s.sentinels {
		addrs = append(addrs, i.Addr)
	}
	return "redis-sentinel://stoa:" + s.passwords["stoa"] + "@" + strings.Join(addrs, ",") + "/stoa?sentinel_password=" +
		s.passwords["sentinels"]
}

// people are users who have checked in.
type people struct {
	server *testkit.Server
	all    []*client.Client
}

// arrive registers n users and checks them in.
func (p *people) arrive(t *testing.T, n int) {
	t.Helper()
	for range n {
		c := p.server.SignUp(t, "UTC")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := c.Checkin(ctx, api.CheckinRequest{})
		cancel()
		if err != nil || !got.New {
			t.Fatalf("check-in: %+v, %v", got, err)
		}
		p.all = append(p.all, c)
	}
}

// right waits until Redis is complete and compares every user and the board.
func (p *people) right(t *testing.T) {
	t.Helper()
	eventually.True(t, "the node is ready and Redis complete", func() bool {
		status, _, body := p.server.Call(t, nil, "GET", "/readyz", "")
		return status == 200 && strings.Contains(body, `"status":"ready"`)
	})
	for n, c := range p.all {
		got, err := c.CheckinStatus(t.Context())
		if err != nil || got.Streak != 1 || got.Total != 1 {
			t.Errorf("user %d: %+v, %v; want one day", n, got, err)
		}
	}
	// While the board is loaded, it may be five seconds old.
	eventually.True(t, fmt.Sprintf("the board has all %d", len(p.all)), func() bool {
		board, err := p.all[0].Board(t.Context(), "total_days", client.BoardQuery{Limit: 100})
		return err == nil && len(board.Entries) == len(p.all)
	})
}

func TestStoaOnTheShippedSentinelSettings(t *testing.T) {
	t.Parallel()
	s := startSet(t)
	p := &people{server: testkit.Start(t, func(c *app.Config) { c.Redis = s.url() })}
	p.arrive(t, 5)
	p.right(t)

	// A failed vote is repeated after twice this time.
	if got, err := s.ask(t, s.sentinels[0], "SENTINEL", "MASTER", "stoa"); err != nil || !strings.Contains(got, "failover-timeout\n10000\n") {
		t.Errorf("the sentinel has %s, %v", got, err)
	}

	s.must(t, s.master, "admin", "SET", "marker:before", "1")
	eventually.True(t, "the replica has the marker", func() bool { return s.must(t, s.replica, "admin", "EXISTS", "marker:before") == "1" })
	host, port, _ := net.SplitHostPort(s.replica.Addr)
	backup := s.path("backup.rdb")
	s.run(t, "backup", "HOST="+host, "PORT="+port, "BACKUP="+backup, "REDISCLI_AUTH="+s.passwords["replica"])
	s.must(t, s.master, "admin", "SET", "marker:after", "1")
	p.arrive(t, 3)

	// The master dies. Check-ins continue, and no check-in is missing afterwards.
	s.master.Kill()
	p.arrive(t, 3)
	eventually.True(t, "the replica is promoted", func() bool {
		out, err := s.cli(t, s.replica, "admin", "ROLE")
		return err == nil && strings.HasPrefix(out, "master")
	})
	p.right(t)
	p.arrive(t, 2)
	s.master.Restart() // with its old file; it becomes a replica
	s.copied(t, s.master)
	p.right(t)

	// Everything is stopped, and the backup is restored.
	for _, i := range append(s.sentinels, s.master, s.replica) {
		i.Stop()
	}
	p.arrive(t, 1)
	s.write(t, "redis.conf", regexp.MustCompile(`(?m)^replicaof .*\n`).ReplaceAllString(read(t, s.path("redis.conf")), ""))
	s.run(t, "restore", "DIR="+s.master.Dir, "BACKUP="+backup)
	s.master.Restart()
	if got := s.must(t, s.master, "admin", "EXISTS", "marker:before"); got != "1" {
		t.Error("the restored server lacks what was backed up")
	}
	if got := s.must(t, s.master, "admin", "EXISTS", "marker:after"); got != "0" {
		t.Error("the restored server has what came after the backup")
	}
	s.follow(t, "replica.conf", "replica-of.conf")
	s.replica.Restart()
	s.copied(t, s.replica)
	for n, i := range s.sentinels {
		s.follow(t, "sentinel.conf", fmt.Sprintf("sentinel-%d.conf", n))
		i.Restart()
	}
	p.right(t)
	p.arrive(t, 1)
	p.right(t)
	for _, i := range []*redistest.Instance{s.master, s.replica} {
		if out := s.must(t, i, "admin", "ACL", "LOG"); out != "" {
			t.Errorf("%s refused somebody:\n%s", i.Addr, out)
		}
	}
}

func TestStoaOnTheShippedClusterSettings(t *testing.T) {
	t.Parallel()
	s := install(t)
	var nodes []*redistest.Instance
	var addrs, buses []string
	for range 3 {
		bus := strconv.Itoa(redistest.FreePort(t))
		i := redistest.Conf(t, s.path("cluster.conf"), "--cluster-port", bus)
		nodes, addrs, buses = append(nodes, i), append(addrs, i.Addr), append(buses, i.Addr+"@"+bus)
	}
	s.run(t, "cluster", "NODES="+strings.Join(buses, " "), "REDISCLI_AUTH="+s.passwords["admin"])
	url := "redis-cluster://stoa:" + s.passwords["stoa"] + "@" + strings.Join(addrs, ",")
	p := &people{server: testkit.Start(t, func(c *app.Config) { c.Redis = url })}
	p.arrive(t, 5)
	p.right(t)
	// A node is killed and restarts with its file.
	nodes[1].Kill()
	p.arrive(t, 3)
	nodes[1].Restart()
	p.right(t)
	// A slot with a user's days is migrating to another node, and stays in this state.
	var source, target *redistest.Instance
	var key string
	for n := 0; key == ""; n++ {
		source, target = nodes[n], nodes[(n+1)%3]
		key, _, _ = strings.Cut(s.must(t, source, "admin", "KEYS", "stoa:user:sign:*"), "\n")
	}
	id := func(i *redistest.Instance) string { return s.must(t, i, "admin", "CLUSTER", "MYID") }
	slot := s.must(t, source, "admin", "CLUSTER", "KEYSLOT", key)
	s.must(t, target, "admin", "CLUSTER", "SETSLOT", slot, "IMPORTING", id(source))
	s.must(t, source, "admin", "CLUSTER", "SETSLOT", slot, "MIGRATING", id(target))
	host, port, _ := net.SplitHostPort(target.Addr)
	keys := strings.Fields(s.must(t, source, "admin", "CLUSTER", "GETKEYSINSLOT", slot, "100"))
	s.must(t, source, "admin", append([]string{"MIGRATE", host, port, "", "0", "5000", "AUTH2", "admin", s.passwords["admin"], "KEYS"},
		keys...)...)
	p.right(t)
	for _, i := range []*redistest.Instance{target, source} {
		s.must(t, i, "admin", "CLUSTER", "SETSLOT", slot, "NODE", id(target))
	}
	p.right(t)
	for _, i := range nodes {
		if out := s.must(t, i, "admin", "ACL", "LOG"); out != "" {
			t.Errorf("%s refused somebody:\n%s", i.Addr, out)
		}
	}
}

// A URL of sentinels has one setting for the encryption of both kinds of servers.
func TestTheSentinelsAreEncryptedAsTheDataServersAre(t *testing.T) {
	lines := func(file, port string) []string {
		var found []string
		for _, m := range regexp.MustCompile(`(?m)^#   (port|tls-\S+) (.*)$`).FindAllStringSubmatch(read(t, "redis/"+file), -1) {
			if m[1] != "tls-cluster" {
				found = append(found, m[1]+" "+strings.ReplaceAll(m[2], port, "PORT"))
			}
		}
		return found
	}
	got, want := lines("sentinel.conf", "26379"), lines("redis.conf", "6379")
	if len(want) != 7 || !slices.Equal(got, want) {
		t.Errorf("sentinel.conf has %q, redis.conf %q", got, want)
	}
}

func TestTheShippedSettingsHold(t *testing.T) {
	t.Parallel()
	s := install(t)
	i := redistest.Conf(t, s.path("redis.conf"))
	for setting, want := range map[string]string{
		"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "everysec", "save": "3600 1",
		"lazyfree-lazy-expire": "yes", "lazyfree-lazy-user-del": "yes", "latency-monitor-threshold": "25",
		"stop-writes-on-bgsave-error": "no",
	} {
		if got := s.must(t, i, "admin", "CONFIG", "GET", setting); got != setting+"\n"+want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	for _, args := range [][]string{
		{"FLUSHALL"}, {"KEYS", "*"}, {"CONFIG", "GET", "*"}, {"SHUTDOWN"}, {"ACL", "LIST"},
		{"SCRIPT", "FLUSH"}, {"FUNCTION", "FLUSH"}, {"CLIENT", "KILL", "ID", "1"}, {"CLUSTER", "RESET"}, {"SWAPDB", "0", "1"},
		{"GET", "other:key"}, {"PUBLISH", "other", "x"}, {"EVAL", "return redis.call('GET', KEYS[1])", "1", "other:key"},
	} {
		if out, err := s.cli(t, i, "stoa", args...); err == nil || !strings.Contains(out, "NOPERM") && !strings.Contains(out, "ACL") {
			t.Errorf("the user stoa may %s: %s", strings.Join(args, " "), out)
		}
	}
	if out, err := s.cli(t, i, "stoa", "SET", "stoa:key", "x"); err != nil {
		t.Errorf("the user stoa may not write under its prefix: %s", out)
	}
	for _, args := range [][]string{{"GET", "stoa:key"}, {"AUTH", "default", ""}, {"AUTH", ""}} {
		if reply, err := i.Do(args...); err == nil {
			t.Errorf("%s without a password: got %v", args[0], reply)
		}
	}
	// Writes of scripts are transactions in the append-only file.
	s.must(t, i, "stoa", "EVAL", "redis.call('SET', KEYS[1], '1') redis.call('SET', KEYS[2], '1')", "2", "stoa:{a}:1", "stoa:{a}:2")
	eventually.True(t, "the file has it", func() bool {
		return strings.Contains(s.must(t, i, "admin", "INFO", "persistence"), "aof_buffer_length:0\r")
	})
	i.Restart()
	if got := s.must(t, i, "stoa", "EXISTS", "stoa:{a}:1", "stoa:{a}:2", "stoa:key"); got != "3" {
		t.Errorf("after a crash %s of 3 keys are there", got)
	}
}

// At its start, a server logs which data the settings may lose. It logs no such warning with the settings of the
// README.
func TestRedisFirstModeOnTheShippedSettings(t *testing.T) {
	t.Parallel()
	const warning = "answered check-ins may be lost"
	mayAsk := func(t *testing.T, s *site) {
		user := acl.User{Secret: ">" + s.passwords["stoa"], Wide: true, Commands: []string{"config|get"}}
		file := s.path("users.acl")
		s.write(t, "users.acl", strings.ReplaceAll(read(t, file), line(t, file, "stoa"), user.Line(app.Keys()...)))
	}
	for _, c := range []struct {
		name     string
		prepare  func(*testing.T, *site)
		warnings []string
	}{
		{"as they are", func(*testing.T, *site) {}, []string{"--config-get"}},
		{"for durable", mayAsk, []string{"has appendfsync everysec", "has no-appendfsync-on-rewrite yes"}},
		{"for redis first", func(t *testing.T, s *site) { mayAsk(t, s); s.run(t, "redis-first") }, nil},
	} {
		var log logtest.Buffer
		t.Run(c.name, func(t *testing.T) {
			s := install(t)
			c.prepare(t, s)
			i := redistest.Conf(t, s.path("redis.conf"))
			server := testkit.StartLogged(t, log.Logger(), func(cfg *app.Config) {
				cfg.Redis, cfg.Checkin.Mode = s.userURL(i, "stoa"), checkin.RedisFirst
			})
			(&people{server: server}).arrive(t, 1)
			eventually.True(t, "redis has been asked", func() bool {
				told := log.String()
				return !strings.Contains(told, "redis does not answer; it will be asked") ||
					strings.Contains(told, "checkin: durability of redis checked")
			})
		})
		told := log.String() // the server has ended
		if strings.Count(told, warning) != len(c.warnings) || !strings.Contains(told, "checkin.mode=redis") {
			t.Errorf("%s: want %d warnings:\n%s", c.name, len(c.warnings), told)
		}
		for _, want := range c.warnings {
			if !strings.Contains(told, want) {
				t.Errorf("%s: %q is not said:\n%s", c.name, want, told)
			}
		}
	}
}

func TestAPasswordThatIsChangedIsAnOutageUntilItIsChangedBack(t *testing.T) {
	t.Parallel()
	s := install(t)
	i := redistest.Conf(t, s.path("redis.conf"))
	url := "redis://stoa:" + s.passwords["stoa"] + "@" + i.Addr
	p := &people{server: testkit.Start(t, func(c *app.Config) { c.Redis = url })}
	p.arrive(t, 2)
	p.right(t)
	s.must(t, i, "admin", "ACL", "SETUSER", "stoa", "resetpass", ">another")
	s.must(t, i, "admin", "CLIENT", "KILL", "USER", "stoa")
	p.arrive(t, 2)
	eventually.True(t, "the node says that it is degraded", func() bool {
		status, _, body := p.server.Call(t, nil, "GET", "/readyz", "")
		return status == 200 && strings.Contains(body, `"status":"degraded"`)
	})
	p.arrive(t, 2)
	s.must(t, i, "admin", "ACL", "SETUSER", "stoa", ">"+s.passwords["stoa"])
	p.right(t)
}

func TestNoShippedPasswordOpensAnything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"redis.conf", "users.acl"} {
		text := strings.NewReplacer("/etc/redis", dir, "/var/lib/redis", dir).Replace(read(t, "redis/"+name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-server", filepath.Join(dir, "redis.conf"), "--port", strconv.Itoa(redistest.FreePort(t)),
		"--dir", dir).CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(out), "ACL") {
		t.Errorf("a server without passwords started, or ended for another reason: %v\n%s", err, out)
	}
}
