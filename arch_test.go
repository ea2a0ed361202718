package stoa

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/stoa-dev/stoa"

// layers lists the module's packages from the lowest layer up. A package imports only packages of lower layers.
// Packages of one layer do not import each other.
var layers = [][]string{
	{"lib/keyspace/internal/commands", "lib"},
	{"lib/keyspace", "api", "lib/testing/eventually", "lib/testing/bubble", "lib/testing/logtest", "lib/redis/internal/engine",
		"lib/redis/internal/pipe"},
	{"lib/keyspace/acl", "lib/keyspace/catalogue"},
	{"lib/keyspace/lock"},
	{"lib/redis/embedded", "lib/redis/spawn"},
	{"lib/redis"},
	{"lib/redis/redistest"},
	{"lib/redis/redistest/conformance"},
	{"lib/groupcommit", "lib/leaderboard", "lib/ratelimit", "lib/lease", "lib/bus", "lib/keyspace/audit"},
	{"lib/keyspace/tools/adopt", "lib/keyspace/tools/keyvet", "lib/keyspace/tools/move"},
	{"lib/keyspace/tools/cli"},
	{"lib/keyspace/tools/cmd/keyspace", "lib/keyspace/tools/cmd/keyvet"},
	{"lib/cache/internal/shapes", "lib/cache/internal/slots"},
	{"lib/cache"},
	{"lib/cache/cachetest", "lib/cache/cacheprom", "lib/cache/collection", "lib/cache/inspect"},
	{"internal/base/errs", "internal/base/fairqueue", "internal/base/clientnet", "internal/base/leaktest", "internal/base/origin",
		"internal/httpapi/assets", "internal/httpapi/openapi", "internal/base/i18n", "internal/qr", "internal/base/words",
		"internal/base/weblink"},
	{"internal/base/ids", "internal/base/civil", "internal/config", "internal/obs"},
	{"internal/realtime/events", "internal/base/cursor", "internal/httpapi/bind"},
	{"internal/storage/migrations"},
	{"internal/storage/sqldb"},
	{"internal/storage/sqldb/sqldbtest"},
	{"internal/storage/sqlcopy", "internal/httpapi/idempotency"},
	{"internal/httpapi/web", "internal/background/worker", "internal/background/queue", "internal/storage/projection",
		"internal/background/runs", "internal/background/supervise", "internal/mail", "internal/picture"},
	{"internal/background/drops", "internal/realtime/gateway"},
	{"internal/webhooks", "internal/aggregate"},
	{"internal/accounts/password", "internal/accounts/trail", "internal/accounts/emails", "internal/accounts/attempts"},
	{"internal/accounts/codes"},
	{"internal/accounts", "internal/cluster"},
	{"internal/checkin/streak"},
	{"internal/checkin/checkintest"},
	{"internal/checkin/ranking", "internal/checkin/records", "internal/checkin/transfer"},
	{"internal/checkin/reconcile"},
	{"internal/notices", "internal/membership"},
	{"internal/social", "internal/checkin", "internal/servicekeys", "internal/jwtlogin", "internal/transfers/storage"},
	{"internal/groups", "internal/transfers", "internal/transfers/storage/storagetest"},
	{"internal/rooms/playback", "internal/rooms/danmaku", "internal/live/media", "internal/live/livetest"},
	{"internal/messaging", "internal/presence", "internal/activity", "internal/rooms", "internal/live"},
	{"internal/push"},
	{"internal/serviceapi"},
	{"client", "web"},
	{"internal/app"},
	{"internal/testkit", "internal/testkit/costs", "internal/cli/reference", "internal/cli/demo"},
	{"internal/cli", "internal/wholeserver", "internal/wholeserver/integration", "internal/checkin/hazards", "examples/backend",
		"examples/bot", "examples/library", "examples/library/people", "examples/library/board", "examples/library/report", "e2e", "deploy"},
	{"cmd/stoa"},
}

// library packages can be imported by anyone.
var library = []string{"lib/keyspace", "lib/keyspace/acl", "lib/keyspace/catalogue", "lib/keyspace/lock", "lib/keyspace/audit",
	"lib/keyspace/tools/adopt", "lib/keyspace/tools/cli", "lib/keyspace/tools/keyvet", "lib/keyspace/tools/move",
	"lib/keyspace/tools/cmd/keyspace", "lib/keyspace/tools/cmd/keyvet", "lib/redis", "lib/redis/embedded", "lib/redis/spawn",
	"lib/groupcommit", "lib/leaderboard", "lib/ratelimit", "lib/lease", "lib/bus", "lib/cache", "lib/cache/cacheprom",
	"lib/cache/collection", "lib/cache/inspect", "api", "client"}

// domains keep each technology in its own file.
var domains = []string{"accounts", "accounts/attempts", "accounts/codes", "cluster", "social", "membership", "groups", "messaging",
	"presence", "activity", "transfers", "rooms", "live", "notices", "push", "webhooks", "servicekeys", "serviceapi", "jwtlogin", "checkin",
	"checkin/ranking", "checkin/records", "checkin/reconcile", "checkin/transfer"}

// importers lists which files of a domain may import a package.
var importers = map[string][]string{
	"database/sql":                         {"sql.go", "sql_*.go"},
	"github.com/uptrace/bun":               {"sql.go", "sql_*.go"},
	module + "/lib/redis":                  {"redis.go", "redisfirst.go", "service.go", "boards.go"},
	module + "/lib/leaderboard":            {"redis.go", "boards.go", "keys.go"},
	"net/http":                             {"http.go", "http_*.go"},
	module + "/internal/httpapi/web":       {"http.go", "http_*.go"},
	module + "/internal/background/worker": {"jobs.go"},
	module + "/internal/background/queue":  {"jobs.go", "log.go", "redisfirst.go"},
}

type pkg struct {
	ImportPath, Dir, Doc string
	Imports, GoFiles     []string
	TestImports          []string
	TestGoFiles          []string
	XTestImports         []string
}

func (p pkg) rel() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

func packages(t *testing.T) []pkg {
	t.Helper()
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run, because Go's cache of test results does not track the files of the program
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,Imports,GoFiles,TestImports,TestGoFiles,XTestImports", "./...",
		module+"/lib/...")
	cmd.Env = append(os.Environ(), "GOWORK=off") // modules next to these two do not belong to the project
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.rel() != "" {
			all = append(all, p)
		}
	}
	if len(all) < 20 {
		t.Fatalf("looked at %d packages; the walk is broken", len(all))
	}
	return all
}

func layerOf(rel string) int {
	return slices.IndexFunc(layers, func(l []string) bool { return slices.Contains(l, rel) })
}

func checkLayer(p pkg) (faults []string) {
	at := layerOf(p.rel())
	if at < 0 {
		return []string{p.rel() + " is in no layer: place it in layers"}
	}
	for _, imp := range p.Imports {
		if dep, ours := strings.CutPrefix(imp, module+"/"); ours && layerOf(dep) >= at {
			faults = append(faults, fmt.Sprintf("%s (layer %d) imports %s (layer %d)", p.rel(), at, dep, layerOf(dep)))
		}
	}
	return faults
}

// checkTests finds external tests that start whole servers in packages with internal tests. For these tests, the
// package is compiled a second time. The same holds for all packages between it and testkit.
func checkTests(p pkg) (faults []string) {
	for _, imp := range p.XTestImports {
		if len(p.TestGoFiles) > 0 && (imp == module+"/internal/app" || imp == module+"/internal/testkit") {
			faults = append(faults, fmt.Sprintf("%s has internal tests and external ones that import %s: move these to internal/wholeserver",
				p.rel(), imp))
		}
	}
	return faults
}

func checkLibrary(p pkg) (faults []string) {
	for _, imp := range p.Imports {
		if strings.HasPrefix(imp, module+"/internal/") || imp == "database/sql" || strings.Contains(imp, "/bun") ||
			imp == module+"/lib/redis/embedded" || imp == module+"/lib/redis/spawn" {
			faults = append(faults, fmt.Sprintf("%s is library and imports %s", p.rel(), imp))
		}
	}
	return faults
}

func checkDoc(p pkg) (faults []string) {
	if p.Doc == "" {
		faults = append(faults, p.rel()+" has no package comment")
	}
	return faults
}

func checkFile(file string, imports []string) (faults []string) {
	for _, imp := range imports {
		if where, ruled := importers[imp]; ruled && !slices.ContainsFunc(where, func(name string) bool {
			ok, _ := path.Match(name, path.Base(file))
			return ok
		}) {
			faults = append(faults, fmt.Sprintf("%s imports %s, which belongs in %s", file, imp, strings.Join(where, " or ")))
		}
	}
	return faults
}

// begins lists the methods that begin a statement or a transaction.
var begins = []string{"Tx", "Batch", "ExecContext", "QueryContext", "QueryRowContext", "NewRaw", "SQL", "Inserter", "Writer", "Reader"}

// checkStatements finds statements and transactions that begin outside of sql.go and sql_*.go. Other files use a
// transaction that began there, and pass it on.
func checkStatements(file string, f *ast.File) (faults []string) {
	if base := path.Base(file); base == "sql.go" || strings.HasPrefix(base, "sql_") {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains(begins, sel.Sel.Name) {
				faults = append(faults, fmt.Sprintf("%s calls %s: statements and transactions begin in sql.go or sql_*.go", file, sel.Sel.Name))
			}
		}
		return true
	})
	return faults
}

var (
	luaRef  = regexp.MustCompile(`(KEYS|ARGV)\[(\d+)\]`)
	luaKey  = regexp.MustCompile(`redis\.p?call\('\w+', *['"][^'"]*:|['"][a-z_]+:[a-z_:{]*['"] *\.\.`)
	luaRest = regexp.MustCompile(`(KEYS|ARGV)\[\d+\] …`)
)

// checkLua compares a script with its header, which must declare exactly the KEYS and ARGV of the script. "ARGV[2] …"
// declares all from there on.
func checkLua(file, src string) (faults []string) {
	declared, used, rest := map[string]bool{}, map[string]bool{}, map[string]bool{}
	lines := 0
	for line := range strings.SplitSeq(src, "\n") {
		set := used
		if strings.HasPrefix(line, "--") {
			set = declared
			if m := luaRest.FindStringSubmatch(line); m != nil {
				rest[m[1]] = true
				continue
			}
		} else if strings.TrimSpace(line) != "" {
			lines++
		}
		for _, m := range luaRef.FindAllString(line, -1) {
			set[m] = true
		}
	}
	for k := range used {
		if !declared[k] && !rest[k[:4]] {
			faults = append(faults, fmt.Sprintf("%s uses %s and its header does not say so", file, k))
		}
	}
	for k := range declared {
		if !used[k] {
			faults = append(faults, fmt.Sprintf("%s declares %s and never uses it", file, k))
		}
	}
	if lines > 45 {
		faults = append(faults, fmt.Sprintf("%s has %d lines: one verb, about 40", file, lines))
	}
	if m := luaKey.FindString(src); m != "" {
		faults = append(faults, fmt.Sprintf("%s spells a key: %s; keys come in KEYS, from keys.go", file, m))
	}
	for _, word := range []string{"'TIME'", "math.random", "RANDOMKEY"} {
		// A fencing token needs the time when the lease was acquired, and a value that arrives too late is not written.
		// Redis replicates the effects of a script: the token, and the value or its removal.
		if word == "'TIME'" && (file == "lib/lease/lua/acquire.lua" || file == "lib/cache/lua/put.lua") {
			continue
		}
		if strings.Contains(src, word) {
			faults = append(faults, fmt.Sprintf("%s uses %s: replicas and the Go twin would differ", file, word))
		}
	}
	return faults
}

// checkBackground finds contexts without a parent.
func checkBackground(name string, f *ast.File) (faults []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "context" && (sel.Sel.Name == "Background" || sel.Sel.Name == "TODO") {
				faults = append(faults, fmt.Sprintf("%s makes a context out of nothing; take the caller's", name))
			}
		}
		return true
	})
	return faults
}

func report(t *testing.T, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

// planted verifies that a check finds a violation.
func planted(t *testing.T, faults []string, what string) {
	t.Helper()
	if len(faults) == 0 {
		t.Errorf("a planted violation passed: %s", what)
	}
}

func TestLayers(t *testing.T) {
	planted(t, checkLayer(pkg{ImportPath: module + "/lib/redis", Imports: []string{module + "/lib/leaderboard"}}),
		"an import from a higher layer")
	planted(t, checkLayer(pkg{ImportPath: module + "/lib/lease", Imports: []string{module + "/lib/ratelimit"}}),
		"an import from the same layer")
	planted(t, checkLayer(pkg{ImportPath: module + "/internal/attic"}), "a package in no layer")
	for _, p := range packages(t) {
		report(t, checkLayer(p))
	}
}

func TestNoWholeServerIsCompiledForADomainsTests(t *testing.T) {
	planted(t, checkTests(pkg{TestGoFiles: []string{"a_test.go"}, XTestImports: []string{module + "/internal/testkit"}}),
		"a whole server beside internal tests")
	report(t, checkTests(pkg{XTestImports: []string{module + "/internal/testkit"}}))
	for _, p := range packages(t) {
		report(t, checkTests(p))
	}
}

func TestLibraryStandsAlone(t *testing.T) {
	planted(t, checkLibrary(pkg{ImportPath: module + "/lib/lease", Imports: []string{module + "/internal/base/errs"}}), "library on internal")
	planted(t, checkLibrary(pkg{ImportPath: module + "/lib/lease", Imports: []string{"database/sql"}}), "library on SQL")
	planted(t, checkLibrary(pkg{ImportPath: module + "/lib/lease", Imports: []string{module + "/lib/redis/embedded"}}),
		"library with a server")
	for _, p := range packages(t) {
		if slices.Contains(library, p.rel()) {
			report(t, checkLibrary(p))
		}
	}
}

func TestPackageDocs(t *testing.T) {
	planted(t, checkDoc(pkg{ImportPath: module + "/lib/lease"}), "no package comment")
	for _, p := range packages(t) {
		report(t, checkDoc(p))
	}
}

func TestFilesOfADomain(t *testing.T) {
	planted(t, checkFile("internal/checkin/service.go", []string{"database/sql"}), "SQL in service.go")
	planted(t, checkFile("internal/checkin/redis.go", []string{"net/http"}), "HTTP in redis.go")
	statement, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc (s *Service) f() { s.db.Tx(ctx, g) }", 0)
	if err != nil {
		t.Fatal(err)
	}
	planted(t, checkStatements("internal/checkin/service.go", statement), "a transaction in service.go")
	looked := 0
	for _, d := range domains {
		files, err := filepath.Glob("internal/" + d + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			var imports []string
			for _, im := range parsed.Imports {
				p, _ := strconv.Unquote(im.Path.Value)
				imports = append(imports, p)
			}
			looked++
			report(t, checkFile(f, imports))
			report(t, checkStatements(f, parsed))
		}
	}
	if looked < 15 {
		t.Fatalf("looked at %d files", looked)
	}
}

// checkChange finds changes in a domain that bypass [aggregate.Caches.Change]. These are calls of cache.Runtime.Change
// and of drops.Tx. Their invalidations would be lost with the node, and a commit with an unknown outcome would leave no
// fences.
func checkChange(file string, f *ast.File) (faults []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if called := types.ExprString(n.Fun); strings.HasSuffix(called, "Runtime.Change") || called == "rt.Change" || called == "drops.Tx" {
				faults = append(faults, fmt.Sprintf("%s calls %s: change what is cached with aggregate.Caches.Change", file, called))
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name != "Config" {
				for _, field := range s.Fields.List {
					if types.ExprString(field.Type) == "*cache.Runtime" {
						faults = append(faults, fmt.Sprintf("%s: %s has a *cache.Runtime: use *aggregate.Caches", file, n.Name.Name))
					}
				}
			}
		}
		return true
	})
	return faults
}

func TestDomains_ChangeCachedRowsThroughAggregate(t *testing.T) {
	for what, src := range map[string]string{
		"a change of the runtime":  "package x\nfunc f() { s.caches.Runtime.Change(ctx, fn) }",
		"a transaction with drops": "package x\nfunc f() { drops.Tx(ctx, db, fn) }",
		"a runtime of its own":     "package x\ntype Service struct { caches *cache.Runtime }",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		planted(t, checkChange("x.go", f), what)
	}
	parsed := 0
	for _, d := range domains {
		names, err := filepath.Glob("internal/" + d + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			parsed++
			report(t, checkChange(name, f))
		}
	}
	if parsed < 15 {
		t.Fatalf("parsed %d files", parsed)
	}
}

func TestLuaContracts(t *testing.T) {
	planted(t, checkLua("x.lua", "-- KEYS[1] a\nredis.call('GET', KEYS[2])"), "an undeclared key")
	planted(t, checkLua("x.lua", "-- KEYS[1] a\n-- ARGV[1] b\nredis.call('GET', KEYS[1])"), "an unused argument")
	planted(t, checkLua("x.lua", "redis.call('TIME')"), "a clock in a script")
	planted(t, checkLua("x.lua", "redis.call('GET', 'user:1')"), "a key in a script")
	planted(t, checkLua("x.lua", "local k = 'user:' .. id"), "a key built in a script")
	n := 0
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(p) != ".lua" {
			return err
		}
		n++
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		report(t, checkLua(p, string(src)))
		return nil
	})
	if err != nil || n < 5 {
		t.Fatalf("looked at %d scripts: %v", n, err)
	}
}

func TestNoContextIsMadeOutOfNothing(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nvar ctx = context.Background()", 0)
	if err != nil {
		t.Fatal(err)
	}
	planted(t, checkBackground("x.go", f), "context.Background in a package")
	for _, p := range packages(t) {
		if p.rel() == "cmd/stoa" || p.rel() == "lib/keyspace/tools/cli" || strings.HasSuffix(p.rel(), "test") || p.rel() == "internal/testkit" ||
			p.rel() == "e2e" || strings.HasPrefix(p.rel(), "examples/") {
			continue
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			report(t, checkBackground(p.rel()+"/"+name, f))
		}
	}
}
