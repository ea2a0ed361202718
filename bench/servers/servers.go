// Package servers starts a real redis-server and a real MariaDB or MySQL as children, for benchmarks, and reads their
// statistics.
package servers

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
)

// Build builds the program of this repository into dir and returns its path. Benchmarks run in the folder bench.
func Build(ctx context.Context, dir string) (binary string, err error) {
	binary = filepath.Join(dir, "stoa")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", binary, "./cmd/stoa").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
}

// Setup is what a node on real servers needs.
type Setup struct {
	Dir, Binary, Redis, SQL string // a temporary folder, the program, and the URLs of Redis and MariaDB
}

// NewSetup builds the program and starts Redis and MariaDB. stop ends both and removes the folder; after an error, this
// has been done.
func NewSetup(ctx context.Context, name string, redisSettings ...string) (s Setup, stop func() error, err error) {
	if s.Dir, err = os.MkdirTemp("", "stoa-bench-"+name+"-*"); err != nil {
		return s, nil, err
	}
	var ends []func()
	end := func() error {
		for _, end := range slices.Backward(ends) {
			end()
		}
		return os.RemoveAll(s.Dir)
	}
	started := func(url string, stop func(), err error) (string, error) {
		if stop != nil { // also of a server that does not answer
			ends = append(ends, stop)
		}
		return url, err
	}
	if s.Binary, err = Build(ctx, s.Dir); err == nil {
		s.Redis, err = started(Redis(ctx, s.Dir, redisSettings...))
	}
	if err == nil {
		s.SQL, err = started(MariaDB(ctx, s.Dir))
	}
	if err != nil {
		return s, nil, errors.Join(err, end())
	}
	return s, end, nil
}

// Redis starts a redis-server on a free loopback port. It has no persistence unless settings enable it: "--appendonly",
// "yes".
func Redis(ctx context.Context, dir string, settings ...string) (url string, stop func(), err error) {
	addr, port, err := free()
	if err != nil {
		return "", nil, err
	}
	stop, err = child(exec.Command("redis-server", append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--dir", dir}, settings...)...))
	if err != nil {
		return "", nil, err
	}
	return "redis://" + addr, stop, until(ctx, func() error {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// MariaDB starts a mariadbd that flushes at each commit, with an empty database.
func MariaDB(ctx context.Context, dir string) (url string, stop func(), err error) {
	data := filepath.Join(dir, "mariadb")
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--user="+whoami(), "--datadir="+data,
		"--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := install.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return start(ctx, dir, "mariadbd", data)
}

// MySQL starts a mysqld like MariaDB: the one that scripts/mysql.sh has installed, or the one in STOA_MYSQLD. Its
// binary log is off, as MariaDB's is by default.
func MySQL(ctx context.Context, dir string) (url string, stop func(), err error) {
	bin := os.Getenv("STOA_MYSQLD")
	if bin == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", nil, err
		}
		bin = filepath.Join(cache, "stoa-mysql", "mysqld")
	}
	data := filepath.Join(dir, "mysql")
	install := exec.CommandContext(ctx, bin, "--no-defaults", "--initialize-insecure", "--init-file=/dev/stdin", "--user="+whoami(),
		"--datadir="+data, "--secure-file-priv=NULL")
	install.Stdin = strings.NewReader("CREATE USER root@127.0.0.1;\nGRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION;\n")
	if out, err := install.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("mysqld, from scripts/mysql.sh: %w: %s", err, out)
	}
	return start(ctx, dir, bin, data, "--mysqlx=OFF", "--secure-file-priv=NULL")
}

func start(ctx context.Context, dir, bin, data string, flags ...string) (url string, stop func(), err error) {
	addr, port, err := free()
	if err != nil {
		return "", nil, err
	}
	tmp := data + "-tmp" // a starting server removes the temporary tables of all others in the same folder
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return "", nil, err
	}
	stop, err = child(exec.Command(bin, append([]string{"--no-defaults", "--user=" + whoami(), "--datadir=" + data, "--tmpdir=" + tmp,
		"--socket=" + filepath.Join(dir, "m.sock"),
		"--port=" + port, "--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=256M",
		"--performance-schema=OFF",
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin", "--transaction-isolation=READ-COMMITTED",
		"--innodb-flush-log-at-trx-commit=1"}, flags...)...))
	if err != nil {
		return "", nil, err
	}
	err = until(ctx, func() error {
		db, err := sql.Open("mysql", "root@tcp("+addr+")/")
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS bench")
		return err
	})
	return "mysql://root@" + addr + "/bench", stop, err
}

// Database creates another database on that server and returns its URL.
func Database(ctx context.Context, url, name string) (string, error) {
	addr := strings.TrimSuffix(strings.TrimPrefix(url, "mysql://root@"), "/bench")
	db, err := sql.Open("mysql", "root@tcp("+addr+")/")
	if err != nil {
		return "", err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE DATABASE "+name)
	return "mysql://root@" + addr + "/" + name, err
}

// Ask sends one command to a redis-server on its own connection. It returns the response, which must not be an array.
func Ask(ctx context.Context, url string, args ...string) (string, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "redis://"))
	if err != nil {
		return "", err
	}
	defer c.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '+', ':':
		return text, nil
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", err
		}
		body := make([]byte, n)
		_, err = io.ReadFull(r, body)
		return string(body), err
	}
	return "", fmt.Errorf("redis %s: %s", args[0], text)
}

// Info returns the fields of a section of INFO.
func Info(ctx context.Context, url, section string) (map[string]string, error) {
	text, err := Ask(ctx, url, "INFO", section)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

func whoami() string {
	if u := os.Getenv("USER"); u != "" && os.Getuid() != 0 {
		return u
	}
	return "root"
}

func free() (addr, port string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	addr = ln.Addr().String()
	return addr, addr[strings.LastIndexByte(addr, ':')+1:], ln.Close()
}

// child starts cmd and returns a function that ends it.
func child(cmd *exec.Cmd) (stop func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}, nil
}

func until(ctx context.Context, ok func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := ok()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
