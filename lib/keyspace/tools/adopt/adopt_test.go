package adopt_test

import (
	"context"
	"crypto/sha512"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/tools/adopt"
	"github.com/stoa-dev/stoa/lib/redis"
	_ "github.com/stoa-dev/stoa/lib/redis/embedded"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// fill writes keys like those of programs without declarations.
func fill(t *testing.T, db *redis.DB) {
	t.Helper()
	owners, err := db.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer owners[0].Close()
	var cmds [][]string
	add := func(cmd ...string) { cmds = append(cmds, cmd) }
	for i := range 60 {
		n := strconv.Itoa(i + 100)
		add("SET", "app.user-"+n, `{"name":"Ada"}`, "EX", "3600")
		add("HSET", "user_"+n+"_profile", "name", "Ada")
		add("INCR", "visits:2026:"+n)
		add("SADD", "session:"+fmt.Sprintf("550e8400-e29b-41d4-a716-4466554400%02d", i), "x")
		add("ZADD", "board:{"+n+"}:scores", "1", "ada")
		add("LPUSH", "timeline:"+strings.Repeat(string(rune('a'+i%26)), 3)+string(rune('a'+i/26))+":posts", "1")
		add("SET", "v2:cache:"+n, "text")
		add("SET", "token:"+secret(i), "text")
		add("SET", "mark:"+n, []string{"7", "seven"}[i%2])
		add("XADD", fmt.Sprintf("a:%d:b:%d:c:%d:d:%d", i, i, i, i), "*", "k", "v")
	}
	add("SET", "config:flags", "on")
	add("SADD", "odd\x01key", "x")
	for _, r := range owners[0].Do(t.Context(), cmds...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// secret is an identifier of 128 letters.
func secret(i int) string { return fmt.Sprintf("%x", sha512.Sum512([]byte{byte(i)})) }

func read(t *testing.T) *adopt.Layout {
	t.Helper()
	db := redistest.Open(t, redistest.Server(t).URL)
	fill(t, db)
	l, err := adopt.Read(t.Context(), db, adopt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRead_FindsFamilies(t *testing.T) {
	t.Parallel()
	l := read(t)
	var got []string
	for _, f := range l.Families {
		var args []string
		for _, a := range f.Args {
			args = append(args, a.Type)
		}
		for typ := range f.Types {
			got = append(got, fmt.Sprintf("%q %d %s %s %s", f.Pattern, f.Keys, typ, strings.Join(args, ","), f.Value))
		}
	}
	want := []string{
		`"a:{a}:b:{b}:c:{c}:d:{d}" 60 stream Int,Int,Int,Int `,
		`"app.user-{user}" 60 string Int JSON`,
		`"board:{{board}}:scores" 60 zset Int `,
		`"config:flags" 1 string  `,
		`"mark:{mark}" 60 string Int `,
		`"odd{odd}key" 1 set Raw `,
		`"session:{session}" 60 set Text `,
		`"timeline:{timeline}:posts" 60 list Text `,
		`"token:{token}" 60 string Raw `,
		`"user_{user}_profile" 60 hash Int `,
		`"v2:cache:{cache}" 60 string Int `,
		`"visits:2026:{id}" 60 string Int number`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, f := range l.Families {
		switch f.Pattern {
		case "app.user-{user}":
			if f.Lasting != 0 || f.Longest <= 50*time.Minute || f.Longest > time.Hour {
				t.Errorf("lives: %+v", f)
			}
		case "config:flags":
			if f.Lasting != 1 || f.Longest != 0 {
				t.Errorf("lives: %+v", f)
			}
		}
	}
}

// The source compiles, passes Lint and declares each key.
func TestSource_IsSchemaOfTheKeys(t *testing.T) {
	t.Parallel()
	l := read(t)
	source, err := l.Source("main")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"more than 3 arguments", "JSONOf[T]", "keyspace.UpTo(time.Hour)", `Forever("say what removes it")`} {
		if !strings.Contains(string(source), want) {
			t.Errorf("the source lacks %q:\n%s", want, source)
		}
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(mod), "\n")
	files := map[string]string{
		"go.mod": "module example.org/legacy\n" + rest +
			"\nrequire github.com/stoa-dev/stoa/lib v0.0.0\nreplace github.com/stoa-dev/stoa/lib => " + root + "\n",
		"go.sum":  string(sum),
		"keys.go": string(source),
		"main.go": `package main

import (
	"fmt"
	"os"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

func main() {
	if err := keyspace.Lint(Keys); err != nil {
		fmt.Println(err)
	}
	parser := keyspace.NewParser(Keys)
	for _, key := range os.Args[1:] {
		if found, ok := parser.Key(key); ok {
			fmt.Println(key, found.Family.Pattern)
		} else {
			fmt.Println(key, "unknown")
		}
	}
}
`,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"run", "-mod=mod", "."}
	want := ""
	for _, f := range l.Families {
		if len(f.Args) <= 3 && !strings.HasPrefix(f.Pattern, "odd") {
			args = append(args, f.Examples[0])
			want += f.Examples[0] + " " + f.Pattern + "\n"
		}
	}
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run: Go's cache of results does not know what the program below reads
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s\nof\n%s", err, out, want, source)
	}
}

// A key declared with an Int has no leading zeros, so a key with zeros is another one.
func TestSource_NotesPaddedNumbers(t *testing.T) {
	db := redistest.Open(t, "embedded")
	owners, err := db.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer owners[0].Close()
	for i := range 12 {
		for _, key := range []string{fmt.Sprintf("visits:2026-%02d-17", i+1), fmt.Sprintf("stat:%d:%02d", 2000+i, i+1),
			fmt.Sprintf("v007:cart:%d", 10*i)} {
			if r := owners[0].Do(t.Context(), []string{"SET", key, "1"}); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
		}
	}
	l, err := adopt.Read(t.Context(), db, adopt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := l.Source("keys")
	if err != nil {
		t.Fatal(err)
	}
	for said, want := range map[string]int{"Numbers of {id} begin with 0": 2, "begin with 0": 2} {
		if n := strings.Count(string(source), said); n != want {
			t.Errorf("%d times %q, want %d, of the months of visits and stat:\n%s", n, said, want, source)
		}
	}
}

// A long Text enters a key as its hash, which is another key.
func TestSource_LongIdentifiersAreRaw(t *testing.T) {
	db := redistest.Open(t, "embedded")
	owners, err := db.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer owners[0].Close()
	for i := range 12 {
		for _, key := range []string{"sess:" + secret(i), "blob:" + secret(i) + secret(i)} {
			if r := owners[0].Do(t.Context(), []string{"SET", key, "1"}); r[0].Err != nil {
				t.Fatal(r[0].Err)
			}
		}
	}
	l, err := adopt.Read(t.Context(), db, adopt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source, err := l.Source("keys")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`keyspace.Def1[keyspace.Raw](Keys, "sess:{sess}"`, "It cannot be declared: {blob} has more than 160 bytes"} {
		if !strings.Contains(string(source), want) {
			t.Errorf("the source lacks %q:\n%s", want, source)
		}
	}
	declared := keyspace.Def1[keyspace.Raw](keyspace.New("legacy").Brownfield(), "sess:{sess}", keyspace.CounterKind(),
		keyspace.Expire(time.Hour), keyspace.Doc{Purpose: "a test's"})
	if got, want := declared.At(keyspace.Raw{S: secret(7)}).String(), "sess:"+secret(7); got != want {
		t.Errorf("declared so, a key is %q, want %q", got, want)
	}
}

// Names of keys may be invalid names of variables, and two of them may give the same name.
func TestSource_CompilesForAllNames(t *testing.T) {
	l := &adopt.Layout{}
	for _, pattern := range []string{"init:{n}", "app-{n}", "app2:{n}", "app:{n}", "app_{n}", "main", "keys:{n}", "type:{n}", "time:{n}",
		"string:{n}"} {
		f := adopt.Family{Pattern: pattern, Keys: 1, Types: map[string]int{"string": 1}, Sampled: 1, Longest: time.Hour, Examples: []string{"x"}}
		if strings.Contains(pattern, "{") {
			f.Args = []adopt.Arg{{Name: "n", Type: "Int"}}
		}
		l.Families = append(l.Families, f)
	}
	for _, pkg := range []string{"keys", "main"} {
		source, err := l.Source(pkg)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), "keys.go", source, 0)
		if err != nil {
			t.Fatal(err)
		}
		declared := map[string]int{}
		for _, decl := range file.Decls {
			for _, spec := range decl.(*ast.GenDecl).Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					declared[v.Names[0].Name]++
				}
			}
		}
		if len(declared) != len(l.Families)+1 || declared["init"] > 0 || pkg == "main" && declared["main"] > 0 {
			t.Errorf("package %s declares %v, want Keys and %d others, and none of them is init or main", pkg, declared, len(l.Families))
		}
	}
}

func TestRead_ManyWordsBecomeOneFamily(t *testing.T) {
	db := redistest.Open(t, "embedded")
	owners, err := db.Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer owners[0].Close()
	letters := func(n int) (s string) {
		for ; n > 0 || s == ""; n /= 26 {
			s += string(rune('a' + n%26))
		}
		return s
	}
	var cmds [][]string
	for i := range 5000 {
		cmds = append(cmds, []string{"SET", "name:" + letters(i) + ":x", "1"})
	}
	for _, r := range owners[0].Do(t.Context(), cmds...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	l, err := adopt.Read(t.Context(), db, adopt.Options{Match: "name:*"})
	if err != nil || len(l.Families) != 1 || l.Families[0].Pattern != "name:{name}:x" || l.Families[0].Keys != 5000 {
		t.Errorf("got %+v, %v", l, err)
	}
}

func Example() {
	ctx := context.Background()
	db, err := redis.Open(ctx, redis.Config{URL: "embedded", Prefix: "shop"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	carts := keyspace.Named1[keyspace.Int]("cart:{uid}", keyspace.CounterKind(), keyspace.Expire(time.Hour),
		keyspace.Doc{Owner: "shop", Purpose: "things in it"})
	for uid := range int64(3) { // a program that spells its keys
		if _, err := carts.At(keyspace.Int{N: 100 + uid}).Add(ctx, db, 1); err != nil {
			log.Fatal(err)
		}
	}
	layout, err := adopt.Read(ctx, db, adopt.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range layout.Families {
		fmt.Println(f.Pattern, f.Keys, f.Types)
		for _, arg := range f.Args {
			fmt.Println(arg.Name, "is an", arg.Type)
		}
	}
	// Output:
	// shop:cart:{cart} 3 map[string:3]
	// cart is an Int
}
