package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// enough bounds a test that hangs; no result depends on it.
const enough = time.Minute

// TestStories runs testdata/*.txtar with the released program. Additional commands of the stories:
//
//	exits CODE program args…   runs a program that must end with that code
//	serving args…              starts stoa serve on a free port, sets $SERVER and, without http://, $ADDR; it may open $FILES files
//	crowd                      opens sockets until the server has no slot left, and leaves them open
//	restarts                   restarts Redis without its keys, and waits until the server has written to it
//	soon program args…         retries a program until it succeeds
//	stopping                   ends the server with SIGTERM; it must drain and exit 0
//	hangup                     sends the server SIGHUP
//	code ADDRESS               requests a code by mail from $SERVER
//	mariadb                    creates an empty database on a MariaDB server, sets $MARIADB
//	redis                      starts a Redis server, sets $REDIS and its folder $REDIS_DIR
//	send COMMAND args…         sends that server a command
//	letters sql|redis N        stores N dead letters of the topic story, which no server handles
//	member ADDRESS             registers at $SERVER, sets $MEMBER to the user's id
//	freezes N                  waits until that user has N freezes
//	erased ID                  waits until that account is erased in the local database
//	counted FOLDER [estimates] stores some counts of active users in a database in that folder
//	today                      sets $TODAY and $YESTERDAY
//	waits TEXT program args…   runs a program until its output has that text
//	answers CODE               that user's calls must return that: 200 or a problem's code
func TestStories(t *testing.T) {
	_ = os.Getenv("STOA_TEST_RUN") // a new value for each run, because Go's cache of test results does not track the files of the program
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "../../cmd/stoa").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[serverKey{}] = new(server)
			env.Vars = slices.DeleteFunc(env.Vars, func(kv string) bool { return strings.HasPrefix(kv, "STOA_") })
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"hangup": func(ts *testscript.TestScript, _ bool, _ []string) {
				ts.Check(ts.Value(serverKey{}).(*server).cmd.Process.Signal(syscall.SIGHUP))
			},
			"exits": exits, "serving": serving, "crowd": crowd, "restarts": restarts, "soon": soon, "stopping": stopping, "node": node,
			"code": mailCode, "letters": letters,
			"mariadb": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Setenv("MARIADB", sqldbtest.Server(t).URL) },
			"redis": func(ts *testscript.TestScript, _ bool, _ []string) {
				i := redistest.Server(t)
				ts.Value(serverKey{}).(*server).redis = i
				ts.Setenv("REDIS", i.URL)
				ts.Setenv("REDIS_DIR", i.Dir)
			},
			"send": func(ts *testscript.TestScript, _ bool, args []string) {
				_, err := ts.Value(serverKey{}).(*server).redis.Do(args...)
				ts.Check(err)
			},
			"member": member, "freezes": freezes, "answers": answers, "erased": erased, "asks": asks, "blocks": blocks, "room": room,
			"closed": closed, "stream": stream,
			"counted": counted, "today": today, "waits": waits, "delivered": delivered,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want || neg {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func soon(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(enough); ; {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("it ends with %v", err)
		}
	}
}

// serverKey is the key of a story's server.
type serverKey struct{}

type server struct {
	cmd   *exec.Cmd
	user  *client.Client            // the latest member
	users map[string]*client.Client // all, by id
	redis *redistest.Instance
	out   bytes.Buffer // the output after the ready line
	err   bytes.Buffer
	read  chan struct{} // closed at the end of out
}

func serving(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("stoa")
	ts.Check(err)
	s := ts.Value(serverKey{}).(*server)
	s.cmd = exec.Command(path, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	if files := ts.Getenv("FILES"); files != "" {
		s.cmd = exec.Command("sh", slices.Concat([]string{"-c", `ulimit -n "$0"; exec "$@"`, files}, s.cmd.Args)...)
	}
	s.read = make(chan struct{})
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "STOA_") })
	s.cmd.Stderr = &s.err
	out, err := s.cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(func() { _ = s.cmd.Process.Kill() }) // does nothing after stopping
	late := time.AfterFunc(enough, func() { _ = s.cmd.Process.Kill() })
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	late.Stop()
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "stoa ready on ")
	if err != nil || !ok {
		_ = s.cmd.Wait()
		ts.Fatalf("the server began with %q (%v) and said\n%s", line, err, &s.err)
	}
	go func() {
		defer close(s.read)
		_, _ = io.Copy(&s.out, lines)
	}()
	ts.Setenv("SERVER", url)
	ts.Setenv("ADDR", strings.TrimPrefix(url, "http://"))
}

func crowd(ts *testscript.TestScript, _ bool, _ []string) {
	for {
		conn, err := net.Dial("tcp", ts.Getenv("ADDR"))
		ts.Check(err)
		ts.Defer(func() { conn.Close() })
		ts.Check(conn.SetDeadline(time.Now().Add(enough)))
		_, err = io.WriteString(conn, "GET /v1/socket HTTP/1.1\r\nHost: stoa\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		ts.Check(err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		ts.Check(err)
		if resp.StatusCode == http.StatusSwitchingProtocols {
			continue
		}
		var p api.Problem
		ts.Check(json.NewDecoder(resp.Body).Decode(&p))
		if p.Code != "connections.full" {
			ts.Fatalf("a socket got %d %s", resp.StatusCode, p.Code)
		}
		return
	}
}

func restarts(ts *testscript.TestScript, _ bool, _ []string) {
	i := ts.Value(serverKey{}).(*server).redis
	i.RestartEmpty()
	for end := time.Now().Add(enough); ; time.Sleep(10 * time.Millisecond) {
		reply, err := i.Do("DBSIZE")
		ts.Check(err)
		if len(reply) == 1 && reply[0] != "0" {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("the server wrote nothing to Redis")
		}
	}
}

// node stores the id of the only live node in NODE.
func node(ts *testscript.TestScript, _ bool, _ []string) {
	out, err := exec.Command("stoa", "nodes", "--json", "--redis", ts.Getenv("REDIS")).Output()
	ts.Check(err)
	var list struct{ Nodes []struct{ ID string } }
	ts.Check(json.Unmarshal(out, &list))
	if len(list.Nodes) != 1 {
		ts.Fatalf("%d nodes: %s", len(list.Nodes), out)
	}
	ts.Setenv("NODE", list.Nodes[0].ID)
}

func stopping(ts *testscript.TestScript, _ bool, _ []string) {
	s := ts.Value(serverKey{}).(*server)
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	late := time.AfterFunc(enough, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	<-s.read
	if err := s.cmd.Wait(); err != nil {
		ts.Fatalf("the server ended with %v, want exit code 0; it said\n%s", err, &s.err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("welcome"), s.out.Bytes(), 0o600))
}

func mailCode(ts *testscript.TestScript, _ bool, args []string) {
	c, err := client.New(ts.Getenv("SERVER"))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	_, err = c.RequestCode(ctx, api.CodeRequest{Email: args[0], Purpose: api.PurposeRegister})
	ts.Check(err)
}

func letters(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	var store queue.Store
	if args[0] == "redis" {
		db, err := redis.Open(ctx, redis.Config{URL: ts.Getenv("REDIS")})
		ts.Check(err)
		defer db.Close()
		store = queue.NewRedis(db)
	} else {
		db, err := sqldb.Open(ctx, sqldb.Config{Dir: ts.MkAbs("here")})
		ts.Check(err)
		defer db.Close()
		store = queue.NewSQL(db)
	}
	var ms []queue.Message
	for i := range n {
		ms = append(ms, queue.Message{Topic: "story", Key: strconv.Itoa(i), Payload: []byte("payload " + strconv.Itoa(i))})
	}
	ts.Check(store.Publish(ctx, ms...))
	left := n
	c, err := queue.NewConsumer(store, nil, []queue.Batch{{Topics: []string{"story"},
		Handle: func(_ context.Context, ds []queue.Delivery) []error {
			if left -= len(ds); left == 0 {
				cancel()
			}
			return slices.Repeat([]error{fmt.Errorf("%w: boom", queue.ErrGiveUp)}, len(ds))
		}}}, queue.Config{})
	ts.Check(err)
	ts.Check(c.Run(ctx))
}

func member(ts *testscript.TestScript, _ bool, args []string) {
	mailCode(ts, false, args)
	c, err := client.New(ts.Getenv("SERVER"))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	code := ""
	for code == "" {
		mails, err := c.DevMails(ctx, args[0])
		ts.Check(err)
		if len(mails) > 0 {
			code = mails[0].Code
		}
		time.Sleep(10 * time.Millisecond)
	}
	joined, err := c.Register(ctx, api.RegisterRequest{Email: args[0], Code: code, Name: "Ann"})
	ts.Check(err)
	s := ts.Value(serverKey{}).(*server)
	if s.users == nil {
		s.users = map[string]*client.Client{}
	}
	s.user, s.users[joined.User.ID] = c, c
	ts.Setenv("MEMBER", joined.User.ID)
}

// asks sends a friend request from one member to another, and blocks lets one member block another.
func asks(ts *testscript.TestScript, _ bool, args []string) {
	_, err := ts.Value(serverKey{}).(*server).users[args[0]].AskFriend(context.Background(), api.FriendRequestNew{User: args[1]})
	ts.Check(err)
}

func blocks(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Value(serverKey{}).(*server).users[args[0]].Block(context.Background(), args[1]))
}

// delivered waits until the newest announcement has reached all users, and stores its id in $ANNOUNCEMENT.
func delivered(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	db, err := sqldb.Open(ctx, sqldb.Config{Dir: ts.MkAbs("here")})
	ts.Check(err)
	defer db.Close()
	for {
		list, err := notices.NewAdmin(db).Announcements(ctx, 1)
		ts.Check(err)
		if len(list) > 0 && list[0].State == notices.Done {
			ts.Setenv("ANNOUNCEMENT", list[0].ID.String())
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// room creates a room of a member, and closed waits until a room is closed.
func room(ts *testscript.TestScript, _ bool, args []string) {
	open := "open"
	made, err := ts.Value(serverKey{}).(*server).users[args[0]].CreateRoom(context.Background(), api.RoomNew{Name: args[1], Access: &open})
	ts.Check(err)
	ts.Setenv("ROOM", made.Room.ID)
}

// stream creates a live stream of a member.
func stream(ts *testscript.TestScript, _ bool, args []string) {
	made, err := ts.Value(serverKey{}).(*server).users[args[0]].CreateStream(context.Background(), api.StreamNew{Title: args[1]})
	ts.Check(err)
	ts.Setenv("STREAM", made.Stream.ID)
	ts.Setenv("PLAYKEY", made.Keys.Play)
}

func closed(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	for {
		_, err := ts.Value(serverKey{}).(*server).user.Room(ctx, args[0])
		if client.CodeOf(err) == "room.unknown" {
			return
		}
		ts.Check(err)
		time.Sleep(10 * time.Millisecond)
	}
}

func freezes(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	for {
		st, err := ts.Value(serverKey{}).(*server).user.CheckinStatus(ctx)
		ts.Check(err)
		if st.Freezes == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func erased(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	db, err := sqldb.Open(ctx, sqldb.Config{Dir: ts.MkAbs("here")})
	ts.Check(err)
	defer db.Close()
	for {
		a, err := accounts.NewDirectory(db).Find(ctx, args[0])
		ts.Check(err)
		if a.Email == "" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// counted stores days: one partial and one estimated, or estimates only.
func counted(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	db, err := sqldb.Open(ctx, sqldb.Config{Dir: ts.MkAbs(args[0])})
	ts.Check(err)
	defer db.Close()
	ts.Check(db.Migrate(ctx, migrations.FS))
	days := func(date string) civil.Day {
		d, err := civil.ParseDay(date)
		ts.Check(err)
		return d
	}
	insert := func(query string, args ...any) {
		_, err := db.ExecContext(ctx, query, args...)
		ts.Check(err)
	}
	insert("INSERT INTO activity_days (day, actives, exact, partial, closed, updated) VALUES (?, 1000, 0, 0, 1, 1)", days("2026-11-01"))
	if len(args) > 1 {
		return
	}
	insert("INSERT INTO activity_days (day, actives, exact, partial, closed, updated) VALUES (?, 5, 1, 1, 1, 1), (?, 7, 1, 0, 0, ?)",
		days("2026-11-02"), days("2026-11-03"), int64(days("2026-11-03"))*86400000)
	insert("INSERT INTO activity_ranges (period, first_day, last_day, through_day, actives, exact, partial, updated) VALUES ('week', ?, ?, "+
		"?, 9, 1, 0, 1), ('week', ?, ?, ?, 12, 1, 0, 1), ('month', ?, ?, ?, 3000, 0, 1, 1)",
		days("2026-11-02"), days("2026-11-08"), days("2026-11-03"), days("2020-12-28"), days("2021-01-03"), days("2021-01-03"),
		days("2026-10-01"), days("2026-10-31"), days("2026-10-31"))
	insert("INSERT INTO activity_retention (cohort, days_after, size, active, updated) VALUES (?, 1, 4, 2, 1), (?, 2, 4, 1, 1)",
		days("2026-11-01"), days("2026-11-01"))
}

func today(ts *testscript.TestScript, _ bool, _ []string) {
	now := time.Now().UTC()
	ts.Setenv("TODAY", now.Format(time.DateOnly))
	ts.Setenv("YESTERDAY", now.AddDate(0, 0, -1).Format(time.DateOnly))
}

func waits(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(enough); ; {
		path, err := exec.LookPath(args[1])
		ts.Check(err)
		cmd := exec.Command(path, args[2:]...)
		cmd.Dir, cmd.Env = ts.MkAbs("."), append(os.Environ(), "STOA_REDIS="+ts.Getenv("STOA_REDIS"))
		out, err := cmd.CombinedOutput()
		if err == nil && strings.TrimSpace(string(out)) == args[0] {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("it says %q (%v), want %q", out, err, args[0])
		}
	}
}

func answers(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	_, err := ts.Value(serverKey{}).(*server).user.Me(ctx)
	got := "200"
	if e, ok := errors.AsType[*client.Error](err); ok {
		got = e.Code
	}
	if got != args[0] {
		ts.Fatalf("the user's calls come to %s (%v), want %s", got, err, args[0])
	}
}

func run(t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), args, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestEverySettingHasAFlagThatArrives(t *testing.T) {
	args, want := []string{"serve"}, map[string]string{}
	for _, set := range config.Reference(new(app.Config)) {
		flag, value := "--"+set.Flag+"=of "+set.Key, "of "+set.Key
		if set.Switch() {
			flag, value = "--no-"+set.Flag, "false"
		}
		args, want[set.Key] = append(args, flag), value
	}
	var r root
	if _, err := parser(&r, &console{out: io.Discard, err: io.Discard}, "serve").Parse(args); err != nil {
		t.Fatal(err)
	}
	if got := r.Serve.given(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	r = root{}
	if _, err := parser(&r, &console{out: io.Discard, err: io.Discard}, "serve").Parse([]string{"serve", "--dev"}); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Serve.given(), map[string]string{"dev": "true"}; !reflect.DeepEqual(got, want) {
		t.Errorf("--dev alone: got %v, want %v", got, want)
	}
}

func TestAPortThatIsTakenIsFoundOutBeforeAnythingIsWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	code, _, said := run(t, "serve", "--addr", ln.Addr().String())
	if code != exitFailed || !strings.Contains(said, "address already in use") {
		t.Errorf("got code %d and %q, want %d and that the address is in use", code, said, exitFailed)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("the folder holds %v (%v), want nothing", left, err)
	}
}

// A proxy tries the next node at once if a connection is refused. An accepted connection would wait until the
// migrations end.
func TestServe_RefusesConnectionsUntilItCanAnswer(t *testing.T) {
	t.Chdir(t.TempDir())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(redistest.FreePort(t)))
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer stop()
	ended.Go(func() {
		Main(ctx, []string{"serve", "--addr", addr, "--dev", "--sql", "mysql://a:b@" + silent.Addr().String() + "/c"}, io.Discard, io.Discard)
	})
	conn, err := silent.Accept() // the server waits for its database
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if conn, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a starting server takes a connection: %v", err)
		if err == nil {
			conn.Close()
		}
	}
}

// Log collectors read both output streams of a container.
func TestWelcome_IsJSONIfTheLogIs(t *testing.T) {
	var cfg app.Config
	rep, err := config.Load(&cfg, config.Sources{Env: []string{"STOA_LOG=json"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	(&console{out: &out}).welcome(cfg, rep, &net.TCPAddr{Port: 8080}, nil)
	var line struct{ Ready string }
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Ready != "http://127.0.0.1:8080" {
		t.Errorf("got %q, %v", &out, err)
	}
}

func TestAServerAskedToStopBeforeItIsUpExitsWell(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said bytes.Buffer
	if code := Main(ctx, []string{"serve", "--addr", "127.0.0.1:0"}, &said, &said); code != exitOK {
		t.Errorf("got code %d and %q, want 0", code, &said)
	}
}

func TestMailExplainsWhyThereIsNone(t *testing.T) {
	t.Chdir(t.TempDir())
	sends := httptest.NewServer(http.NotFoundHandler())
	defer sends.Close()
	code, _, said := run(t, "mail", "--server", sends.URL)
	if code != exitFailed || !strings.Contains(said, "sends its mails") {
		t.Errorf("a server that sends: got code %d and %q, want %d and why", code, said, exitFailed)
	}
	sends.Close()
	code, _, said = run(t, "mail", "--addr", strings.TrimPrefix(sends.URL, "http://"))
	if want := "stoa: the server cannot be reached at " + sends.URL + ": is it running?\n"; code != exitUnreachable || said != want {
		t.Errorf("no server: got code %d and %q, want %d and %q", code, said, exitUnreachable, want)
	}
}

func TestMailWaitsForACode(t *testing.T) {
	t.Chdir(t.TempDir())
	asked := 0
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		text := `[{"to":"a@b","subject":"News","text":"none","at":"2026-03-01T12:00:00Z"},{"to":"a@b","code":"000001","at":"2026-03-01T12:00:00Z"}]`
		if asked == 2 {
			now := time.Now().UTC().Format(time.RFC3339)
			text = `[{"to":"a@b","subject":"News","at":"` + now + `"},{"to":"a@b","code":"000002","at":"` + now +
				`"},{"to":"a@b","code":"000001","at":"2026-03-01T12:00:00Z"}]`
		}
		_, _ = io.WriteString(w, text)
	}))
	defer late.Close()
	if code, out, said := run(t, "mail", "--server", late.URL, "--code", "--wait", "1m"); code != exitOK || out != "000002\n" {
		t.Errorf("got code %d, %q and %q; want 000002", code, out, said)
	}
	for _, args := range [][]string{nil, {"--wait", "10ms"}} {
		if code, out, said := run(t, append([]string{"mail", "--server", late.URL, "--code"}, args...)...); code != exitOK || out != "000001\n" {
			t.Errorf("%v, and no newer one comes: got code %d, %q and %q; want 000001", args, code, out, said)
		}
	}
}

func TestADoctorKnowsAServerOfStoaAndHowItIs(t *testing.T) {
	for answer, want := range map[string]app.Check{
		`{"status":"ready"}`: {OK: true, Found: "a server of Stoa, ready"},
		`{"status":"degraded","parts":[{"name":"sql","ready":true},{"name":"redis","ready":true,"degraded":"away"},{"name":"http"}]}`: {
			Found: "a server of Stoa, degraded", Fault: "a server of Stoa, degraded; redis: away; http: not ready",
			Do: "see the log of that server"},
		`<title>404</title>`: {Fault: "in use", Do: "stop it"},
		`{}`:                 {Fault: "in use", Do: "stop it"},
	} {
		there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, answer) }))
		want.Setting, want.At = "addr", strings.TrimPrefix(there.URL, "http://")
		got := app.Check{Setting: "addr", At: want.At, Fault: "in use", Do: "stop it"}
		checkServer(t.Context(), time.Minute, &got)
		there.Close()
		if got.Took = 0; got != want {
			t.Errorf("%s: got %+v, want %+v", answer, got, want)
		}
	}
	there := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ready"}`)
	}))
	defer there.Close()
	sends := httptest.NewServer(http.RedirectHandler(there.URL, http.StatusFound))
	defer sends.Close()
	got := app.Check{Setting: "addr", At: strings.TrimPrefix(sends.URL, "http://"), Fault: "in use"}
	if checkServer(t.Context(), time.Minute, &got); got.Fault != "in use" {
		t.Errorf("what sends elsewhere is taken for a server of Stoa: %+v", got)
	}
}

// One server of a cluster may hang while the others respond.
func TestADoctorPassesNoRedisServerOver(t *testing.T) {
	for fault, s := range map[string]redis.ServerInfo{
		"":                               {Fields: map[string]string{"maxmemory_policy": "noeviction"}},
		"maxmemory-policy allkeys-lru: ": {Fields: map[string]string{"maxmemory_policy": "allkeys-lru"}},
		"no answer in time":              {Err: errors.New("no answer in time")},
	} {
		if check, told := whenFull(s); !told || (check.Do == "") != (fault == "") || !strings.HasPrefix(check.Fault, fault) {
			t.Errorf("want the fault %q: got %+v", fault, check)
		}
	}
	if check, told := whenFull(redis.ServerInfo{}); told {
		t.Errorf("of a service that does not tell: got %+v", check)
	}
}

func TestAddressesToListenOnBecomeAddressesToCall(t *testing.T) {
	for addr, want := range map[string]string{
		":8080": "127.0.0.1:8080", "0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80",
		"127.0.0.1:1": "127.0.0.1:1", "[fe80::1]:1": "[fe80::1]:1", "stoa.test:1": "stoa.test:1", "nonsense": "nonsense",
	} {
		if got := reachable(addr); got != want {
			t.Errorf("reachable(%s): got %s, want %s", addr, got, want)
		}
	}
}

// A server whose process is suspended accepts connections and sends no response.
func TestACommandGivesADatabaseUpThatIsSilent(t *testing.T) {
	t.Chdir(t.TempDir())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	code, _, said := run(t, "users", "list", "--sql", "mysql://a:b@"+silent.Addr().String()+"/c")
	if code != exitUnreachable || !strings.Contains(said, "stoa: the database does not answer") {
		t.Errorf("got code %d and %q, want %d and that it does not answer", code, said, exitUnreachable)
	}
}

func TestNoServerStartsWhereACopyIsNotFinished(t *testing.T) {
	t.Chdir(t.TempDir())
	db := sqldbtest.Default(t).Config(t)
	to, err := sqldb.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := to.ExecContext(t.Context(), "CREATE TABLE stoa_copy (name VARCHAR(64))"); err != nil {
		t.Fatal(err)
	}
	code, _, said := run(t, "serve", "--addr", "127.0.0.1:0", "--dev", "--sql", db.URL)
	if code != exitFailed || !strings.Contains(said, "a copy to this database is not finished") {
		t.Errorf("got code %d and %q, want %d and what is not finished", code, said, exitFailed)
	}
	if version, _, err := to.Version(t.Context()); err != nil || version != 0 {
		t.Errorf("the schema is %d (%v): the server has changed what it refused", version, err)
	}
}
