package deploy

import (
	"context"
	"io/fs"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/acl"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/lease"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// line returns a user's line of an ACL file, without its password.
func line(t *testing.T, file, user string) string {
	t.Helper()
	for l := range strings.Lines(read(t, file)) {
		if strings.HasPrefix(l, "user "+user+" ") {
			return strings.TrimSpace(l)
		}
	}
	t.Fatalf("%s has no user %s", file, user)
	return ""
}

func TestTheShippedUserIsMadeFromTheSchema(t *testing.T) {
	if got, want := line(t, "redis/users.acl", "stoa"), (acl.User{Wide: true}).Line(app.Keys()...); got != want {
		t.Errorf("run make generate; got\n%s\nwant\n%s", got, want)
	}
}

var sends = []*regexp.Regexp{
	regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`),
	regexp.MustCompile(`Name: +"([A-Z]{3,})"`),
}

// Tests do not run every command, so this test also reads the sources.
func TestTheShippedUserMaySendWhateverTheProgramSends(t *testing.T) {
	may := strings.Fields(line(t, "redis/users.acl", "stoa"))
	allowed := func(command string) bool {
		return slices.ContainsFunc(may, func(rule string) bool {
			rule, _, _ = strings.Cut(rule, "|") // for a subcommand, its command is enough
			return rule == "+"+strings.ToLower(command)
		})
	}
	planted := sends[0].FindStringSubmatch("redis.call('FLUSHALL')")
	if allowed(planted[1]) {
		t.Error("FLUSHALL is allowed")
	}
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"node_modules", ".git", "bench", "testdata", "redistest"}, d.Name()):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && filepath.Ext(path) != ".lua":
			return nil
		}
		text := read(t, path)
		for _, re := range sends {
			for _, m := range re.FindAllStringSubmatch(text, -1) {
				found[m[1]] = path
			}
		}
		return nil
	})
	if err != nil || len(found) < 30 {
		t.Fatalf("found %d commands: %v", len(found), err)
	}
	for command, path := range found {
		if !allowed(command) {
			t.Errorf("%s sends %s, which the user stoa may not: package keyspace/acl lacks it", path, command)
		}
	}
}

func (s *site) userURL(i *redistest.Instance, user string) string {
	return "redis://" + user + ":" + url.QueryEscape(s.passwords[user]) + "@" + i.Addr
}

func TestTheShippedUserMayTakeALease(t *testing.T) {
	t.Parallel()
	s := install(t)
	i := redistest.Conf(t, s.path("redis.conf"))
	schema := keyspace.New("test")
	keys := lease.Keys{
		Lease: keyspace.Def1[keyspace.Int](schema, "job:{{n}}:lease", keyspace.BytesOf("token"), keyspace.Lease(10*time.Second),
			keyspace.Doc{}).At(keyspace.Int{N: 1}),
		Fence: keyspace.Def1[keyspace.Int](schema, "job:{{n}}:fence", keyspace.CounterKind(), keyspace.Forever("test"),
			keyspace.Doc{}).At(keyspace.Int{N: 1}),
	}
	leases := lease.New(redistest.Open(t, s.userURL(i, "stoa")))
	err := leases.Run(t.Context(), keys, "node-1", 10*time.Second, func(ctx context.Context, _ int64) error {
		h, ok, err := leases.Holder(ctx, keys)
		if !ok || h.Owner != "node-1" {
			t.Errorf("held by %+v, %v", h, ok)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if out := s.must(t, i, "admin", "ACL", "LOG"); out != "" {
		t.Errorf("refused:\n%s", out)
	}
}

// TestTheNarrowUsersSuffice runs Stoa as a user who may access only the declared families. It also asks Redis for each
// user's rights to every family.
func TestTheNarrowUsersSuffice(t *testing.T) {
	t.Parallel()
	s := install(t)
	s.passwords["operator"] = "look"
	server := acl.User{Secret: ">" + s.passwords["stoa"]}
	operator := acl.User{Name: "operator", Secret: ">look", ReadOnly: true}
	s.write(t, "users.acl", strings.ReplaceAll(read(t, s.path("users.acl")), line(t, s.path("users.acl"), "stoa"),
		server.Line(app.Keys()...)+"\n"+operator.Line(app.Keys()...)))
	i := redistest.Conf(t, s.path("redis.conf"))

	p := &people{server: testkit.Start(t, func(c *app.Config) { c.Redis, c.Queue = s.userURL(i, "stoa"), "redis" })}
	p.arrive(t, 3)
	p.right(t)
	if out := s.must(t, i, "admin", "ACL", "LOG"); out != "" {
		t.Errorf("Stoa was refused something:\n%s", out)
	}

	report, err := audit.Run(t.Context(), redistest.Open(t, s.userURL(i, "operator")), app.Keys(), audit.Options{Full: true})
	if err != nil || report.Faults > 0 || report.Denied > 0 || report.Looked < 5 {
		t.Errorf("an audit by the operator: %+v, %v", report, err)
	}
	if out := s.must(t, i, "admin", "ACL", "LOG"); out != "" {
		t.Errorf("the operator was refused something:\n%s", out)
	}

	write := map[string][]string{
		"string": {"SET", "x"}, "hash": {"HSET", "f", "x"}, "set": {"SADD", "x"}, "zset": {"ZADD", "1", "x"}, "list": {"RPUSH", "x"},
		"stream": {"XADD", "*", "f", "x"}, "channel": {"PUBLISH", "x"},
	}
	look := map[string][]string{
		"string": {"GET"}, "hash": {"HGETALL"}, "set": {"SMEMBERS"}, "zset": {"ZRANGE", "0", "9"}, "list": {"LRANGE", "0", "9"},
		"stream": {"XRANGE", "-", "+"}, "channel": {"SUBSCRIBE"},
	}
	for _, schema := range app.Keys() {
		for _, f := range schema.Families() {
			may := func(user, prefix string, command []string) bool {
				args := append([]string{"ACL", "DRYRUN", user, command[0], prefix + ":" + f.Example()}, command[1:]...)
				return s.must(t, i, "admin", args...) == "OK"
			}
			for _, c := range []struct {
				user, prefix string
				command      []string
				want         bool
			}{
				{"stoa", "stoa", write[f.Type], true},
				{"stoa", "stoa", look[f.Type], true},
				{"stoa", "stoa2", write[f.Type], false},
				{"stoa", "other", look[f.Type], false},
				{"operator", "stoa", look[f.Type], true},
				{"operator", "stoa", write[f.Type], false},
				{"operator", "other", look[f.Type], false},
			} {
				if got := may(c.user, c.prefix, c.command); got != c.want {
					t.Errorf("%s may %s %s:%s: %v, want %v", c.user, c.command[0], c.prefix, f.Pattern, got, c.want)
				}
			}
		}
	}
	for _, args := range [][]string{{"SET", "stoa:undeclared", "x"}, {"GET", "stoa:user:profile:x"}, {"PUBLISH", "stoa:undeclared", "x"},
		{"CONFIG", "GET", "*"}, {"FLUSHALL"}, {"KEYS", "*"}} {
		if out, err := s.cli(t, i, "stoa", args...); err == nil || !strings.Contains(out, "NOPERM") {
			t.Errorf("the narrow user may %s: %s", strings.Join(args, " "), out)
		}
	}
}
