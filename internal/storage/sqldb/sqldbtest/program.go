//go:build unix

package sqldbtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The engines.
var (
	inFile  = Engine{"sqlite"}
	mariaDB = Engine{"mariadb"}
	mySQL   = Engine{"mysql"}
)

// choice is the environment variable that names the server.
const choice = "STOA_TEST_SQL"

// Default returns the server of tests that do not choose one: MariaDB, or the value of STOA_TEST_SQL.
func Default(t testing.TB) Engine {
	t.Helper()
	switch e := (Engine{os.Getenv(choice)}); e {
	case Engine{}:
		return mariaDB
	case mariaDB, mySQL:
		return e
	default:
		t.Fatalf("%s is %q: expected mariadb or mysql", choice, e.Name)
		return e
	}
}

// program describes how to start a server on this machine.
type program struct {
	bin      string
	flags    []string // for a small server that starts quickly
	careless []string // to skip flushing
	stamp    string   // a file that changes with the version
	install  func(data string, me *user.User) *exec.Cmd
}

func (e Engine) program() (*program, error) {
	if e == mySQL {
		return mysqlProgram()
	}
	return mariadbProgram()
}

func mariadbProgram() (*program, error) {
	bin, err := exec.LookPath("mariadbd")
	if err != nil {
		bin, err = exec.LookPath("/usr/sbin/mariadbd") // Debian installs it outside the PATH of users
	}
	install, missing := exec.LookPath("mariadb-install-db")
	if err := errors.Join(err, missing); err != nil {
		return nil, fmt.Errorf("mariadbd is needed for this test: run `make deps` (%w)", err)
	}
	flags := []string{"--skip-log-bin", "--skip-slave-start", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M",
		"--performance-schema=OFF"}
	return &program{
		bin: bin, flags: flags, careless: []string{"--debug-no-sync", "--innodb-flush-method=nosync"},
		stamp: install, // mariadbd itself does not show its version here
		install: func(data string, me *user.User) *exec.Cmd {
			return exec.Command(install, append([]string{"--no-defaults", "--datadir=" + data, "--user=" + me.Username, "--skip-test-db",
				"--auth-root-authentication-method=normal", "--skip-name-resolve"}, flags...)...)
		},
	}, nil
}

// mysqlProgram finds the mysqld that scripts/mysql.sh installed, or the one in STOA_MYSQLD. It does not search PATH,
// because mysqld is MariaDB on many systems.
func mysqlProgram() (*program, error) {
	bin := os.Getenv("STOA_MYSQLD")
	if bin == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		bin = filepath.Join(cache, "stoa-mysql", "mysqld")
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("a mysqld is needed for this test: run scripts/mysql.sh, or name one in STOA_MYSQLD (%w)", err)
	}
	flags := []string{"--innodb-buffer-pool-size=64M", "--innodb-redo-log-capacity=8M", "--performance-schema=OFF", "--mysqlx=OFF",
		"--secure-file-priv=NULL"}
	return &program{
		// otherwise MySQL writes and flushes a binary log
		bin: bin, flags: flags, careless: []string{"--innodb-flush-method=nosync", "--skip-log-bin"},
		stamp: bin,
		install: func(data string, me *user.User) *exec.Cmd {
			cmd := exec.Command(bin, append([]string{"--no-defaults", "--initialize-insecure", "--init-file=/dev/stdin", "--datadir=" + data,
				"--user=" + me.Username}, flags...)...)
			cmd.Stdin = strings.NewReader(overTCP)
			return cmd
		},
	}, nil
}

// overTCP creates root for TCP. On MySQL, unlike MariaDB, root may connect only through the socket.
const overTCP = `CREATE USER root@127.0.0.1;
GRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION;
`

// template returns the data folder of a new installation. It is created once per user and version, and reused by later
// runs.
func (p *program) template() (string, error) {
	info, err := os.Stat(p.stamp)
	if err != nil {
		return "", err
	}
	me, err := user.Current()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, fmt.Sprintf("stoa-%s-template-%s-%x", filepath.Base(p.bin), me.Uid, info.ModTime().Unix()))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	// Test binaries run in parallel; one of them creates the template.
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(cache, "stoa-sql-install-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	data := filepath.Join(tmp, "data")
	if out, err := p.install(data, me).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(p.bin), err, bytes.TrimSpace(out))
	}
	return dir, os.Rename(data, dir)
}
