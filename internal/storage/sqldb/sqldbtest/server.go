//go:build unix

package sqldbtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// patience bounds each wait for a server. It is a hundred times the usual time.
const patience = 30 * time.Second

// Instance is one empty database on a mariadbd or mysqld.
type Instance struct {
	// URL is for sqldb.Config.
	URL string

	server *server
	own    bool
}

// Options configure a server for one test.
type Options struct {
	// Engine is the kind of server; empty means [Default].
	Engine Engine

	// Durable syncs the log at every commit, as production does.
	Durable bool

	// TCP makes the server listen on a port of 127.0.0.1 instead of a socket, for tests with a proxy. Addr returns it.
	TCP bool
}

// share is a server that all tests of this binary use.
type share struct {
	sync.Once
	server atomic.Pointer[server] // nil until it runs
	err    error

	tables func() ([]string, error)
}

var shared = func() map[Engine]*share {
	all := map[Engine]*share{}
	for _, e := range []Engine{mariaDB, mySQL} {
		s := &share{}
		s.tables = sync.OnceValues(func() ([]string, error) { return s.server.Load().tables() })
		all[e] = s
	}
	return all
}()

var databases atomic.Int64

// Server returns a new, empty database without durability on the [Default] server that all tests of this binary share.
// The server ends with the binary.
func Server(t testing.TB) *Instance {
	t.Helper()
	return Default(t).server(t)
}

func (e Engine) server(t testing.TB) *Instance {
	t.Helper()
	s := shared[e]
	s.Do(func() {
		one, err := prepare(Options{Engine: e}, 0)
		if err == nil {
			err = one.start()
		}
		if s.err = err; err == nil {
			s.server.Store(one)
		}
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server.Load().instance(t, false)
}

// OwnServer returns a database on a separate server that the test may kill, stop and start. The server ends with the
// test.
func OwnServer(t testing.TB, o Options) *Instance {
	t.Helper()
	if o.Engine == (Engine{}) {
		o.Engine = Default(t)
	}
	port := 0
	if o.TCP {
		port = redistest.FreePort(t)
	}
	s, err := prepare(o, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		if err := s.reap(); err != nil {
			t.Errorf("clear up after the server: %v", err)
		}
	})
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	return s.instance(t, true)
}

// Addr is host:port of a server with Options.TCP.
func (i *Instance) Addr() string { return i.server.addr }

// Kill9 kills the server. Unlike a power cut it keeps the data in the kernel's cache.
func (i *Instance) Kill9(t testing.TB) {
	t.Helper()
	i.mustOwn(t)
	i.server.end(syscall.SIGKILL)
}

// Stop shuts the server down cleanly.
func (i *Instance) Stop(t testing.TB) {
	t.Helper()
	i.mustOwn(t)
	i.server.end(syscall.SIGTERM)
}

// Pause stops the process but keeps its connections open, so that the server no longer answers. It returns when the
// process has stopped. Resume continues it.
func (i *Instance) Pause(t testing.TB) {
	t.Helper()
	i.mustOwn(t)
	redistest.StandStill(t, i.server.cmd.Process)
}

// Resume ends a Pause.
func (i *Instance) Resume(t testing.TB) {
	t.Helper()
	i.mustOwn(t)
	i.signal(t, syscall.SIGCONT)
}

func (i *Instance) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := i.server.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Restart starts the server again with its data after Kill9 or Stop. It returns when the server answers.
func (i *Instance) Restart(t testing.TB) {
	t.Helper()
	i.RestartWith(t)
}

// RestartWith is Restart with additional flags for this start.
func (i *Instance) RestartWith(t testing.TB, flags ...string) {
	t.Helper()
	i.mustOwn(t)
	if err := i.server.start(flags...); err != nil {
		t.Fatal(err)
	}
}

func (i *Instance) mustOwn(t testing.TB) {
	t.Helper()
	if !i.own {
		t.Fatal("this server is shared with other tests; use OwnServer")
	}
}

type server struct {
	dir, addr string
	args      []string
	cmd       *exec.Cmd
	ending    atomic.Bool   // whether its end is expected
	done      chan struct{} // closed when the child has ended
	reap      func() error  // removes dir
}

// prepare copies the template and sets the flags. port is for TCP.
func prepare(o Options, port int) (*server, error) {
	program, err := o.Engine.program()
	if err != nil {
		return nil, err
	}
	template, err := program.template()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stoa-sql-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	if err := s.startReaper(); err != nil {
		return nil, err
	}
	if err := os.CopyFS(s.path("data"), os.DirFS(template)); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.path("tmp"), 0o700); err != nil {
		return nil, err
	}
	flush := "0"
	if o.Durable {
		flush = "1"
	}
	s.args = append([]string{program.bin, "--no-defaults", "--datadir=" + s.path("data"), "--socket=" + s.path("sock"),
		"--pid-file=" + s.path("pid"), "--skip-name-resolve",
		"--tmpdir=" + s.path("tmp"), // a server that starts removes the temporary tables of other servers from this folder
		"--innodb-flush-log-at-trx-commit=" + flush, "--innodb-doublewrite=0"}, program.flags...)
	if !o.Durable { // the kernel's cache survives a kill
		s.args = append(s.args, program.careless...)
	}
	if os.Geteuid() == 0 {
		s.args = append(s.args, "--user=root") // it refuses to run as root without this flag
	}
	if o.TCP {
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		s.args = append(s.args, "--bind-address=127.0.0.1", "--port="+strconv.Itoa(port))
	} else {
		s.args = append(s.args, "--skip-networking")
	}
	return s, nil
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

// start runs the child with additional flags, and waits until it answers.
func (s *server) start(flags ...string) error {
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(s.args[0], slices.Concat(s.args[1:], flags)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	dieWithParent(s.cmd)
	s.ending.Store(false)
	s.done = make(chan struct{})
	started := make(chan error)
	go func() {
		// The thread that starts the child must live as long as the child.
		runtime.LockOSThread()
		defer close(s.done)
		err := s.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if err := s.cmd.Wait(); !s.ending.Load() { // explains why the tests on this server fail
			fmt.Fprintf(os.Stderr, "%s ended by itself: %v\n%s\n", s.args[0], err, s.tail())
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	db, err := sql.Open("mysql", "root@unix("+s.path("sock")+")/")
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.done:
			return fmt.Errorf("it ended at start:\n%s", s.tail())
		case <-ctx.Done():
			s.end(syscall.SIGKILL)
			return fmt.Errorf("it does not answer: %w\n%s", err, s.tail())
		}
	}
}

func (s *server) tail() []byte {
	log, err := os.ReadFile(s.path("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-4000):]
}

// end signals the child and waits for its end.
func (s *server) end(sig syscall.Signal) {
	if s.done == nil {
		return // never started
	}
	s.ending.Store(true)
	_ = s.cmd.Process.Signal(sig) // an error means that it has already ended
	<-s.done
	_ = os.Remove(s.path("pid")) // a killed server leaves the file, and its pid may be reused
}

// instance creates a database.
func (s *server) instance(t testing.TB, own bool) *Instance {
	t.Helper()
	db, err := sql.Open("mysql", "root@unix("+s.path("sock")+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	name := "stoa_" + strconv.FormatInt(databases.Add(1), 10)
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return &Instance{URL: s.url(name), server: s, own: own}
}

// url returns a URL for sqldb.Config.
func (s *server) url(database string) string {
	if s.addr != "" {
		return "mysql://root@" + s.addr + "/" + database
	}
	return "mysql://root@/" + database + "?socket=" + s.path("sock")
}

// has reports whether a URL names a database of s.
func (s *server) has(url string) bool {
	return s != nil && strings.HasSuffix(url, "?socket="+s.path("sock"))
}

// tables returns the statements that copy the schema into an empty database. It runs the migrations once, in a model
// database.
func (s *server) tables() ([]string, error) {
	db, err := sql.Open("mysql", "root@unix("+s.path("sock")+")/")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	const model = "stoa_model"
	if _, err := db.Exec("CREATE DATABASE " + model); err != nil {
		return nil, err
	}
	if err := migrated(sqldb.Config{URL: s.url(model)}); err != nil {
		return nil, err
	}
	rows, err := db.Query("SELECT table_name FROM information_schema.tables WHERE table_schema = ?", model)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		all = append(all, "CREATE TABLE "+name+" LIKE "+model+"."+name)
	}
	return append(all, "INSERT INTO schema_migrations SELECT * FROM "+model+".schema_migrations"), rows.Err()
}

// copyTables copies the schema into a database of a shared server, if the database is empty.
func (s *share) copyTables(url string) error {
	name, _, _ := strings.Cut(url[strings.LastIndex(url, "@/")+2:], "?")
	db, err := sql.Open("mysql", "root@unix("+s.server.Load().path("sock")+")/"+name+"?multiStatements=true")
	if err != nil {
		return err
	}
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&n); err != nil || n > 0 {
		return err
	}
	all, err := s.tables()
	if err == nil {
		_, err = db.Exec(strings.Join(all, ";"))
	}
	return err
}

// startReaper starts a shell that cleans up after this process ends in any way, or after s.reap.
func (s *server) startReaper() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := exec.Command("/bin/sh", "-c", `cat >/dev/null; test -f "$0/pid" && kill -9 "$(cat "$0/pid")" 2>/dev/null; rm -rf "$0"`, s.dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C must not end it
	if err := cmd.Start(); err != nil {
		return errors.Join(err, w.Close())
	}
	s.reap = func() error { return errors.Join(w.Close(), cmd.Wait()) } // the closure also keeps w open
	return nil
}
