package keyspace_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// program is the source around every snippet; the snippet replaces the verb.
const program = `package main

import ("context"; "fmt"; "time"; "github.com/stoa-dev/stoa/lib/keyspace")

type (
	UserID struct{ keyspace.Int }
	ChatID struct{ keyspace.Int }
	DayID  struct{ keyspace.Int }
	News   struct{ Text string }
	User   struct{ Name string }
	Room   struct{ Title string }
	boards struct{}
	kinds  struct{}
)

func (boards) Words() []string { return []string{"streak"} }
func (kinds) Words() []string { return []string{"streak"} }

var (
	s      = keyspace.New("test")
	doc    = keyspace.Doc{}
	info   = keyspace.Def1[UserID](s, "user:info:{{uid}}", keyspace.JSONOf[User](), keyspace.Expire(time.Hour), doc)
	count  = keyspace.Def1[UserID](s, "user:count:{uid}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
	unread = keyspace.Def2[UserID, ChatID](s, "user:unread:{{uid}}:{chat}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
	board  = keyspace.Def1[keyspace.Word[boards]](s, "leaderboard:{board}", keyspace.ZSetOf("user"), keyspace.Forever("rebuilt"), doc)
	news   = keyspace.DefChannel1[UserID](s, "channel:news:{uid}", keyspace.MessagesOf[News](), doc)
	raw    = keyspace.DefChannel0(s, "channel:raw", keyspace.RawMessages("text"), doc)
	daily  = keyspace.Def3[UserID, ChatID, DayID](s, "user:daily:{{uid}}:{chat}:{day}", keyspace.CounterKind(), keyspace.Expire(time.Hour), doc)
)

func run(ctx context.Context, db keyspace.Executor, pub keyspace.Publisher, uid UserID, chat ChatID, day DayID, text string) {
	_ = fmt.Sprint()
	%s
}
`

// TestWrongUsesDoNotCompile type-checks each snippet against the compiled package. The reason detects a snippet that
// fails for another reason.
func TestWrongUsesDoNotCompile(t *testing.T) {
	imp := exported(t, "github.com/stoa-dev/stoa/lib/keyspace", "context", "fmt", "time")
	for _, c := range []struct{ name, snippet, reason string }{
		{"right use", `_ = info.At(uid).Set(ctx, db, User{}); _ = info.In(keyspace.Atomic(uid)); _ = unread.At(uid, chat)
			_ = board.At(keyspace.WordOf[boards]("streak")); _ = news.At(uid).Publish(ctx, pub, News{}); _ = pub.Publish(ctx, raw.At(), text)
			_ = daily.At(uid, chat, day); _ = daily.In(keyspace.Atomic(uid), chat, day); db.Do(ctx, keyspace.Cmd{Name: "GET", Key: count.At(uid).Key})`, ""},
		{"identifier of another kind", `info.At(chat)`, "cannot use chat"},
		{"missing argument", `unread.At(uid)`, "not enough arguments"},
		{"argument too many", `info.At(uid, chat)`, "too many arguments"},
		{"swapped arguments", `unread.At(chat, uid)`, "cannot use chat"},
		{"string constant as identifier", `info.At("42")`, "cannot use \"42\""},
		{"number as identifier", `info.At(42)`, "cannot use 42"},
		{"string variable as identifier", `info.At(text)`, "cannot use text"},
		{"forged word", `board.At(keyspace.Word[boards]{text})`, "implicit assignment to unexported field s"},
		{"computed word", `keyspace.WordOf[boards](text)`, "cannot use text"},
		{"word of another list", `board.At(keyspace.WordOf[kinds]("streak"))`, "cannot use keyspace.WordOf"},
		{"forged key", `db.Do(ctx, keyspace.Cmd{Name: "GET", Key: keyspace.Key{text, nil}})`, "implicit assignment to unexported field s"},
		{"string as key", `db.Do(ctx, keyspace.Cmd{Name: "GET", Key: "user:info:42"})`, "cannot use \"user:info:42\""},
		{"forged channel", `_ = keyspace.Channel{s: text}`, "cannot refer to unexported field s"},
		{"channel as key", `db.Do(ctx, keyspace.Cmd{Name: "GET", Key: news.At(uid)})`, "cannot use news.At(uid)"},
		{"value of another type", `info.At(uid).Set(ctx, db, Room{})`, "cannot use Room{}"},
		{"raw text into JSON", `info.At(uid).Set(ctx, db, text)`, "cannot use text"},
		{"raw command into JSON", `info.At(uid).SetCmd(text, 0)`, "cannot use text"},
		{"command of another type", `count.At(uid).SetBitCmd(1)`, "SetBitCmd undefined"},
		{"handle as another type's", `var _ keyspace.Bitmap = count.At(uid)`, "cannot use count.At(uid)"},
		{"computed pattern", `p := fmt.Sprintf("user:%s:{id}", text); keyspace.Def1[UserID](s, p, keyspace.CounterKind(), keyspace.Expire(1), doc)`, "cannot use p"},
		{"arguments of three swapped", `daily.At(uid, day, chat)`, "cannot use day"},
		{"argument of three missing", `daily.At(uid, chat)`, "not enough arguments"},
		{"message of another type", `news.At(uid).Publish(ctx, pub, Room{})`, "cannot use Room{}"},
		{"raw text as a message", `news.At(uid).Publish(ctx, pub, text)`, "cannot use text"},
		{"message decoded as another type", `var v Room; v, _ = news.At(uid).Decode(text)`, "cannot use news.At(uid).Decode"},
		{"string as channel", `pub.Publish(ctx, "channel:raw", text)`, "cannot use \"channel:raw\""},
		{"key as channel", `pub.Publish(ctx, count.At(uid).Key, text)`, "cannot use count.At(uid).Key"},
		{"channel of another argument", `news.At(chat)`, "cannot use chat"},
		{"channel without a payload", `keyspace.DefChannel0(s, "channel:none", doc)`, "not enough arguments"},
		{"computed payload", `keyspace.RawMessages(text)`, "cannot use text"},
		{"forged payload", `_ = keyspace.Payload[keyspace.Channel]{form: text}`, "cannot refer to unexported field form"},
		{"computed channel", `keyspace.DefChannel0(s, text, keyspace.RawMessages("json"), doc)`, "cannot use text"},
		{"computed reason", `keyspace.Forever(text)`, "cannot use text"},
		{"no reason to live for ever", `keyspace.Forever()`, "not enough arguments"},
		{"no life", `keyspace.Def1[UserID](s, "a:{id}", keyspace.CounterKind(), doc)`, "not enough arguments"},
		{"string as argument type", `keyspace.Def1[string](s, "a:{id}", keyspace.CounterKind(), keyspace.Expire(1), doc)`,
			"does not satisfy keyspace.Segment"},
		{"key of another tag in a transaction", `info.In(keyspace.Atomic(chat))`, "cannot use keyspace.Atomic(chat)"},
		{"forged transaction", `_ = keyspace.Tx[UserID]{uid}`, "implicit assignment to unexported field tag"},
		{"family outside its schema", `s.add("a", "string", "json", keyspace.Expire(1), doc)`, "s.add undefined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "main.go", fmt.Sprintf(program, c.snippet), 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = (&types.Config{Importer: imp}).Check("main", fset, []*ast.File{file}, nil)
			switch {
			case c.reason == "" && err != nil:
				t.Errorf("does not compile: %v", err)
			case c.reason != "" && err == nil:
				t.Error("compiles")
			case c.reason != "" && !strings.Contains(err.Error(), c.reason):
				t.Errorf("does not compile for another reason: %v, want %q", err, c.reason)
			}
		})
	}
}

// exported imports packages from the compiled output of the go command.
func exported(t *testing.T, paths ...string) types.Importer {
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"},
		paths...)...)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, faults.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}
