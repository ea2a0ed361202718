package app

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/mail"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/lib/redis"
)

// A Check is the result of one try of something that a server with these settings needs.
type Check struct {
	Setting string `json:"setting"`      // the setting whose value was tried, such as "sql"
	At      string `json:"at,omitempty"` // address or path, without credentials
	OK      bool   `json:"ok"`
	Found   string `json:"found,omitempty"` // what the check found
	Fault   string `json:"fault,omitempty"` // why it cannot be used
	Do      string `json:"do,omitempty"`    // how to correct it

	// Away reports a fault that may end by itself, because no response came.
	Away bool `json:"away,omitempty"`

	Took time.Duration `json:"-"`
}

// Connect tries everything outside of the process that a server with these settings needs. These are SQL, Redis, the
// mail server, the data folder and the addresses to listen on. The tries run at once, and each may last for the time
// within. Connect changes nothing: it migrates no schema, writes no key, sends no mail and creates no folder. No Check
// contains a password.
func (c Config) Connect(ctx context.Context, within time.Duration) []Check {
	tries := []func(context.Context) []Check{c.connectSQL, c.connectRedis, c.connectSMTP, c.checkData,
		func(ctx context.Context) []Check { return checkListen(ctx, "addr", c.Addr) }}
	if c.does(roleGateway) {
		tries = append(tries, c.checkFiles)
	}
	if c.AdminAddr != "" {
		tries = append(tries, func(ctx context.Context) []Check { return checkListen(ctx, "admin_addr", c.AdminAddr) })
	}
	found := make([][]Check, len(tries))
	var all sync.WaitGroup
	for i, try := range tries {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			began := time.Now()
			found[i] = try(ctx)
			for j := range found[i] {
				check := &found[i][j]
				check.Took, check.OK = cmp.Or(check.Took, time.Since(began)), check.Fault == ""
			}
		})
	}
	all.Wait()
	var checks []Check
	for _, f := range found {
		checks = append(checks, f...)
	}
	return checks
}

func (c Config) connectSQL(ctx context.Context) []Check {
	check := Check{Setting: "sql"}
	path, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data})
	if isFile {
		check.At = path
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) { // opening would create a database
			check.Found = "no database yet: the server makes one"
			return []Check{check}
		}
	}
	noWrites := func(err error) []Check {
		check.Fault, check.Do = err.Error(), "name the server that takes writes: this one is a replica, or set to read_only"
		return []Check{check}
	}
	fault := func(err error) []Check {
		switch {
		case errors.Is(err, sqldb.ErrNoWrites):
			return noWrites(err)
		case errors.Is(err, sqldb.ErrStatementLog):
			check.Fault, check.Do = err.Error(), "set binlog_format = ROW, or MIXED, in the server's configuration"
			return []Check{check}
		}
		check.Fault = err.Error()
		check.Away = sqldb.IsUnavailable(err) && !sqldb.IsDenied(err) || errors.Is(err, context.DeadlineExceeded)
		switch {
		case isFile:
			check.Do = "look at the file and its owner; stoa restore puts a backup in its place"
		case check.Away:
			check.Do = "start the database, or correct host and port; look whether a firewall lies between"
		default:
			check.Do = "correct user, password and database of the URL, or create them on the server"
		}
		return []Check{check}
	}
	db, err := sqldb.Open(ctx, sqldb.Config{URL: c.SQL, Dir: c.Data, MaxConns: 1, Patience: -1})
	if err != nil {
		return fault(err)
	}
	defer db.Close()
	_, check.At, _ = strings.Cut(db.String(), " at ")
	server, err := db.Server(ctx)
	if err != nil {
		return fault(err)
	}
	switch err := db.Ping(ctx); {
	case errors.Is(err, driver.ErrBadConn): // reads have just succeeded, so the server refuses writes
		return noWrites(err)
	case err != nil:
		return fault(err)
	}
	have, dirty, err := db.Version(ctx)
	if err != nil {
		return fault(err)
	}
	newest := migrations.Newest()
	check.Found = fmt.Sprintf("%s, schema %04d", server, have)
	switch {
	case have > newest:
		check.Fault = fmt.Sprintf("the schema is newer than this program, which knows %04d", newest)
		check.Do = "run the newer program, or restore the backup from before the upgrade"
	case dirty:
		check.Found += ", whose migration was interrupted; stoa migrate, or the server as it starts, completes it"
	case have == newest:
		check.Found += ", the newest"
	default:
		check.Found += fmt.Sprintf("; stoa migrate, or the server as it starts, brings it to %04d", newest)
	}
	if check.Fault == "" && have >= settingsSince {
		previous, err := previousSecret(c)
		if err != nil {
			return []Check{check, {Setting: "secret_previous", Fault: err.Error(),
				Do: "remove the file if no rotation is under way, or restore it from a backup"}}
		}
		if agreed, err := c.secretAgrees(ctx, db, previous); err != nil {
			return fault(err)
		} else if !agreed {
			check.Fault, check.Do = errSecret.Error(), "set secret to that of the other nodes, or copy their file secret into the data folder"
		}
	}
	return []Check{check}
}

// settingsSince is the migration that creates the table settings.
const settingsSince = 8

// secretAgrees reports whether the nodes on a database have the secret that this node would have.
func (c Config) secretAgrees(ctx context.Context, db *sqldb.DB, previous []byte) (bool, error) {
	var held string
	switch err := db.QueryRowContext(ctx, "SELECT value FROM settings WHERE name = ?", secretSum).Scan(&held); {
	case errors.Is(err, sql.ErrNoRows):
		return true, nil
	case err != nil:
		return false, err
	}
	text := c.Secret
	if text == "" {
		b, err := os.ReadFile(filepath.Join(c.Data, secretFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // without one the server would generate another secret
			return false, err
		}
		text = strings.TrimSpace(string(b))
	}
	return held == sumOf([]byte(text)) || previous != nil && held == sumOf(previous), nil
}

func (c Config) connectRedis(ctx context.Context) []Check {
	servers, err := redis.Probe(ctx, redis.Config{URL: c.Redis, Prefix: c.KeyPrefix, Dial: c.DialRedis}, Keys()...)
	if err != nil {
		return []Check{{Setting: "redis", Fault: err.Error(), Do: "correct the URL"}}
	}
	var checks []Check
	for _, s := range servers {
		check := Check{Setting: "redis", At: s.Addr, Took: s.Took, Found: s.Mode}
		if s.Version != "" {
			check.Found += ", Redis " + s.Version
		}
		if s.Role != "" {
			check.Found += ", " + s.Role
		}
		if s.Master != "" {
			check.Found += ", whose master is " + s.Master
		}
		if s.Err != nil {
			reply, said := errors.AsType[redis.ServerError](s.Err)
			check.Fault = s.Err.Error()
			check.Away = errors.Is(s.Err, redis.ErrUnavailable)
			switch {
			case errors.Is(s.Err, redis.ErrForbidden), said && reply.Code() == "NOPERM":
				check.Do = "give the user what stoa keys acl prints"
			case said && (reply.Code() == "WRONGPASS" || reply.Code() == "NOAUTH"):
				check.Away = false
				check.Do = "correct user and password of the URL"
			case check.Away:
				check.Do = "start Redis, or correct host and port; look whether a firewall lies between"
			default:
				check.Do = "correct the URL"
			}
		} else if s.Role != "" && s.Mode != "embedded" && s.Mode != "spawn" {
			check.Found += ", the user may do all that is needed"
		}
		checks = append(checks, check)
	}
	return checks
}

func (c Config) connectSMTP(ctx context.Context) []Check {
	check := Check{Setting: "smtp.host"}
	if c.Development() {
		check.Found = "development mode: mails are shown on this machine, none is sent"
		return []Check{check}
	}
	if c.SMTP.Host == "" && !c.needsMailServer() {
		check.Found = "none, and this node needs none"
		return []Check{check}
	}
	server, err := mail.NewSMTP(c.SMTP)
	if err != nil {
		check.Fault, check.Do = err.Error(), "name a mail server, or set dev = true"
		return []Check{check}
	}
	check.At = server.At()
	greeting, err := server.Check(ctx)
	if err != nil {
		_, network := errors.AsType[*net.OpError](err)
		check.Fault, check.Away = err.Error(), network || errors.Is(err, context.DeadlineExceeded)
		check.Do = "correct smtp.user, smtp.password and smtp.tls to what the server wants"
		if check.Away {
			check.Do = "correct smtp.host and smtp.port, and smtp.tls, which must be how that port is spoken to; look whether a firewall lies " +
				"between"
		}
		return []Check{check}
	}
	how := []string{"encryption: " + c.SMTP.TLS, "no log-in"}
	if c.SMTP.User != "" {
		how[1] = "logged in"
	}
	check.Found = fmt.Sprintf("%q, %s", greeting, strings.Join(how, ", "))
	return []Check{check}
}

// checkData tries the data folder and the folder of files.
func (c Config) checkData(ctx context.Context) []Check {
	_, isFile := sqldb.SQLitePath(sqldb.Config{URL: c.SQL, Dir: c.Data})
	var checks []Check
	if cmp.Or(c.Files.Storage, "folder") == "folder" || isFile || c.Secret == "" {
		checks = append(checks, checkFolder("data", c.Data))
	} else {
		checks = append(checks, Check{Setting: "data", At: c.Data,
			Found: "not tried: it is for recordings alone, with a database server, a secret in the settings and files elsewhere"})
	}
	if path, ok := strings.CutPrefix(c.Files.Storage, "folder:"); ok {
		checks = append(checks, checkFolder("files.storage", path))
	} else if strings.HasPrefix(c.Files.Storage, "s3:") {
		checks = append(checks, checkBucket(ctx, c.Files.Storage))
	}
	return checks
}

// checkFolder tries whether files can be created in a folder, or in the parent if the folder does not exist.
func checkFolder(setting, path string) Check {
	check := Check{Setting: setting, At: path, Found: "writable"}
	dir, err := filepath.Abs(path)
	if err == nil {
		for info, statErr := os.Stat(dir); ; info, statErr = os.Stat(dir) {
			if errors.Is(statErr, fs.ErrNotExist) && dir != filepath.Dir(dir) {
				dir = filepath.Dir(dir)
				check.Found = "not there yet: the server makes it"
				continue
			}
			if err = statErr; err == nil && !info.IsDir() {
				err = fmt.Errorf("%s is no folder", dir)
			}
			break
		}
	}
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(dir, ".stoa-check-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		check.Fault, check.Do = err.Error(), "give the folder to the user that runs the server, or name another one"
	}
	return check
}

// checkBucket tries whether the server of a bucket responds and lists its files.
func checkBucket(ctx context.Context, setting string) Check {
	check := Check{Setting: "files.storage"}
	at, versions, err := storage.TryBucket(ctx, setting)
	check.At, check.Found = at, "its files can be listed"
	if versions {
		check.Found += "; it keeps versions, so that what Stoa removes stays stored until a lifecycle rule of the bucket removes it"
	}
	if err != nil {
		check.Fault, check.Away = err.Error(), errors.Is(err, context.DeadlineExceeded)
		check.Do = "correct key, secret, host, bucket and region of the URL; look whether a firewall lies between"
	}
	return check
}

// checkFiles compares the open files that this user's processes may have with the sockets allowed for one client
// network.
func (c Config) checkFiles(context.Context) []Check {
	can := web.CapacityOf(c.SQLConns)
	check := Check{Setting: "gateway.max_from", Found: fmt.Sprintf("%d connections, of which %d sockets and streams", can.Conns, can.Lasting)}
	if can.Files > 0 {
		check.Found = fmt.Sprintf("%d open files: ", can.Files) + check.Found
	}
	if can.Lasting < c.Gateway.MaxFrom {
		check.Fault, check.Do = fmt.Sprintf("%s, fewer than %d", check.Found, c.Gateway.MaxFrom), "raise ulimit -n, or LimitNOFILE of the service"
	}
	return []Check{check}
}

// checkListen tries whether a server could listen on addr.
func checkListen(ctx context.Context, setting, addr string) []Check {
	check := Check{Setting: setting, At: addr, Found: "free"}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err == nil {
		err = ln.Close()
	}
	if err != nil {
		check.Fault, check.Do = err.Error(), "stop what listens there (a running stoa serve does), or name an address of this machine with "+
			"another port"
	}
	return []Check{check}
}
