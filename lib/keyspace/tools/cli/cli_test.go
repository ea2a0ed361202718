package cli_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/tools/cli"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

type userID struct{ keyspace.Int }

var shop = keyspace.New("shop")

var _ = keyspace.Def1[userID](shop, "cart:items:{{uid}}", keyspace.JSONOf[map[string]int](),
	keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "a test's"})

// run runs the program "shop" with its two schemas.
func run(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = cli.Run(t.Context(), append([]string{"/usr/bin/shop"}, args...), &stdout, &stderr, shop)
	return code, stdout.String(), stderr.String()
}

// expect runs the program and checks that its output contains a part.
func expect(t *testing.T, code int, part string, args ...string) {
	t.Helper()
	got, out, said := run(t, args...)
	if got != code || !strings.Contains(out+said, part) {
		t.Errorf("shop %s: exit code %d and %q, want %d and %q", strings.Join(args, " "), got, out+said, code, part)
	}
}

func TestRun_CommandsOnDeclarations(t *testing.T) {
	t.Chdir(t.TempDir())
	expect(t, cli.ExitOK, "cart:items:{{uid}}   string   1 h", "list")
	expect(t, cli.ExitOK, "1 families, 0 faults.", "lint")
	expect(t, cli.ExitOK, "## shop", "doc")
	expect(t, cli.ExitOK, "<title>Keys of shop</title>", "doc", "--html")
	expect(t, cli.ExitOK, "user app on #app-sha256 resetchannels -@all ~eu:cart:items:{*} ", "acl", "--key-prefix", "eu")
	expect(t, cli.ExitOK, "user shop on ", "acl", "--user", "shop", "--role", "shop")
	expect(t, cli.ExitUsage, `there is no user "nobody"`, "acl", "--role", "nobody")
	expect(t, cli.ExitUsage, "create it with --write", "diff")
	expect(t, cli.ExitOK, "added    cart:items:{{uid}}", "diff", "--write")
	expect(t, cli.ExitOK, "Nothing changed.", "diff")
	expect(t, cli.ExitNothing, "no family has", "explain", "user:1")
	expect(t, cli.ExitUnreachable, "shop: ", "audit", "--redis", "redis://127.0.0.1:1")
	expect(t, cli.ExitUsage, `inside the server`, "audit", "--redis", "embedded")
	expect(t, cli.ExitUsage, `Try "shop audit --help".`, "audit", "--nonsense")
	expect(t, cli.ExitUsage, `Try "shop --help".`, "nonsense")
	expect(t, cli.ExitOK, "Usage: shop audit", "audit", "--help")
}

func TestHelp_NamesValidSchemes(t *testing.T) {
	_, help, _ := run(t, "--help")
	schemes := regexp.MustCompile(`[a-z-]+://`).FindAllString(help, -1)
	if len(schemes) < 5 {
		t.Errorf("the help names %q", schemes)
	}
	for _, scheme := range schemes {
		if err := redis.CheckURL(scheme + "h/m"); err != nil && strings.Contains(err.Error(), "unknown scheme") {
			t.Error(err)
		}
	}
}

func TestRun_CommandsOnRedis(t *testing.T) {
	i := redistest.Server(t)
	send := func(args ...string) {
		t.Helper()
		if _, err := i.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	send("SET", "eu:cart:items:{7}", `{"pens":3}`, "EX", "60")
	at := []string{"--redis", i.URL, "--key-prefix", "eu"}
	expect(t, cli.ExitOK, "no faults in 1 key under eu", append(at, "audit")...)
	send("SET", "eu:cart:items:{8}", "{}")
	expect(t, cli.ExitFaults, "no_life", append(at, "audit")...)
	expect(t, cli.ExitFaults, `"fault": "no_life"`, append(at, "--json", "audit")...)
	expect(t, cli.ExitOK, "it never expires, but a TTL", append(at, "explain", "cart:items:{8}")...)
	expect(t, cli.ExitUsage, "--force", append(at, "sweep", "--prefix", "eu", "--yes")...)
	expect(t, cli.ExitOK, "2 keys with the prefix eu removed", append(at, "sweep", "--prefix", "eu", "--yes", "--force")...)
	expect(t, cli.ExitOK, "no keys with the prefix eu found", append(at, "sweep", "--prefix", "eu", "--dry-run")...)
}

func TestExplain_ClusterKeys(t *testing.T) {
	c := redistest.Cluster(t, 3, 0)
	at := []string{"--redis", c.URL, "--key-prefix", "eu"}
	asked := map[*redistest.Instance]bool{}
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		key := "eu:cart:items:{" + id + "}"
		owner := c.Owner(key)
		if _, err := owner.Do("SET", key, `{"pens":3}`, "EX", "60"); err != nil {
			t.Fatal(err)
		}
		expect(t, cli.ExitOK, "string, 10 bytes, ", append(at, "explain", key)...)
		asked[owner] = true
	}
	if len(asked) != len(c.Masters) {
		t.Errorf("the keys are on %d of %d servers, which proves little", len(asked), len(c.Masters))
	}
}

func TestRun_NoPrefix(t *testing.T) {
	i := redistest.Server(t)
	if _, err := i.Do("SET", "cart:items:{7}", `{"pens":3}`, "EX", "60"); err != nil {
		t.Fatal(err)
	}
	at := []string{"--redis", i.URL, "--no-key-prefix"}
	expect(t, cli.ExitOK, "no faults in 1 key of the whole database", append(at, "audit")...)
	expect(t, cli.ExitOK, "name     cart:items:{7}\n", append(at, "explain", "cart:items:{7}")...)
	expect(t, cli.ExitOK, "~cart:items:{*} ", append(at, "acl")...)
	expect(t, cli.ExitOK, "no faults in no keys under stoa", "--redis", i.URL, "audit")
	if _, err := i.Do("SET", "other", "1"); err != nil {
		t.Fatal(err)
	}
	expect(t, cli.ExitFaults, "other     1 ", append(at, "audit")...)
}

func TestAdopt_ProposesExistingKeys(t *testing.T) {
	i, file := redistest.Server(t), filepath.Join(t.TempDir(), "keys.go")
	for _, id := range []string{"17", "18"} {
		if _, err := i.Do("SET", "app.user-"+id, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	at := []string{"--redis", i.URL, "adopt"}
	expect(t, cli.ExitOK, `keyspace.Def1[keyspace.Int](Keys, "app.user-{user}", `, at...)
	expect(t, cli.ExitOK, `"Pattern": "app.user-{user}"`, append([]string{"--json"}, at...)...)
	expect(t, cli.ExitOK, "Wrote 1 pattern of 2 keys to "+file, append(at, "-o", file)...)
	expect(t, cli.ExitUsage, "file exists", append(at, "-o", file)...)
	expect(t, cli.ExitUsage, "no name of a package", append(at, "--package", "a-b")...)
	expect(t, cli.ExitUsage, "--rate", append(at, "--rate", "-1")...)
	expect(t, cli.ExitNothing, "no key matches", append(at, "--match", "nothing*")...)
	expect(t, cli.ExitUnreachable, "shop: ", "adopt", "--redis", "redis://127.0.0.1:1")
	if source, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(source), "package keys\n") {
		t.Errorf("%v: %s", err, source)
	}
}

func TestDiff_ForbiddenChangeIsExitCodeFive(t *testing.T) {
	t.Chdir(t.TempDir())
	expect(t, cli.ExitOK, "added", "diff", "--write")
	text, err := os.ReadFile("keyspace.lock")
	if err != nil {
		t.Fatal(err)
	}
	was := strings.Replace(string(text), "life     1 h", "life     2 h", 1)
	for _, c := range []struct {
		name, lock, said string
		code             int
	}{
		{"a family came", "end\n", "added", cli.ExitOK},
		{"a life was shortened", was, "existing keys have a larger TTL", cli.ExitFaults},
		{"the file is cut off", string(text[:len(text)-4]), "truncated", cli.ExitFaults},
		{"the file is empty", "", "truncated", cli.ExitFaults},
	} {
		if err := os.WriteFile("keyspace.lock", []byte(c.lock), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Log(c.name)
		expect(t, c.code, c.said, "diff")
		if c.code == cli.ExitFaults {
			if code, _, _ := run(t, "diff", "--write"); code == cli.ExitOK {
				t.Errorf("%s: --write exit code 0", c.name)
			}
			if left, err := os.ReadFile("keyspace.lock"); err != nil || string(left) != c.lock {
				t.Errorf("%s: --write wrote over it (%v)", c.name, err)
			}
		}
	}
}

// TestDocs_ProgramWorksInOtherModule builds the program of docs/keyspace.md in another module, like a user.
func TestDocs_ProgramWorksInOtherModule(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/keyspace.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	needs, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, requires, _ := strings.Cut(strings.ReplaceAll(string(needs), "=> ../..", "=> "+filepath.Join(root, "../..")), "\nrequire (")
	write("go.mod", "module example.com/shop\n\ngo 1.26.0\n\nrequire github.com/stoa-dev/stoa/lib/keyspace/tools v0.0.0\n\nreplace "+
		"github.com/stoa-dev/stoa/lib/keyspace/tools => "+root+"\n\nrequire ("+requires)
	write("go.sum", string(sums))
	files := 0
	for _, block := range strings.Split(string(text), "```go\n// ")[1:] {
		block, _, _ = strings.Cut(block, "```")
		name, program, _ := strings.Cut(block, "\n")
		write(name, program)
		if files++; name == "keys/main.go" && strings.Count(program, "\n") > 10 {
			t.Errorf("%s has %d lines, and ten are promised", name, strings.Count(program, "\n"))
		}
	}
	if files != 2 {
		t.Fatalf("docs/keyspace.md shows %d files, want 2", files)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // ends a test that hangs
	defer cancel()
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run: Go's cache of results does not know what the program below reads
	for _, c := range []struct{ args, want string }{
		{"lint", "1 families, 0 faults."},
		{"diff --write", "added    cart:items:{{uid}}"},
		{"diff", "Nothing changed."},
		{"explain shop:cart:items:{7}", "what a customer has put aside"},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"run", "./keys"}, strings.Fields(c.args)...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath", "GOWORK=off", "GOPROXY=off")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Fatalf("go run ./keys %s: %v\n%s\nwant %q", c.args, err, out, c.want)
		}
	}
}
