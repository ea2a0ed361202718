// Package servers starts a real redis-server and a real MariaDB as children,
// for benchmarks.
package servers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver
)

// Redis starts a redis-server on a free loopback port, without persistence.
func Redis(ctx context.Context, dir string) (url string, stop func(), err error) {
	addr, port, err := free()
	if err != nil {
		return "", nil, err
	}
	stop, err = child(exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir))
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
	addr, port, err := free()
	if err != nil {
		return "", nil, err
	}
	data := filepath.Join(dir, "mariadb")
	install := exec.CommandContext(ctx, "mariadb-install-db", "--no-defaults", "--user="+whoami(), "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	if out, err := install.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	stop, err = child(exec.Command("mariadbd", "--no-defaults", "--user="+whoami(), "--datadir="+data, "--socket="+filepath.Join(dir, "m.sock"),
		"--port="+port, "--bind-address=127.0.0.1", "--skip-log-bin", "--innodb-doublewrite=0", "--innodb-buffer-pool-size=256M", "--performance-schema=OFF",
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_bin", "--transaction-isolation=READ-COMMITTED", "--innodb-flush-log-at-trx-commit=1"))
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

// child starts cmd and returns what ends it.
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
