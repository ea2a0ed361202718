package sqldb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
)

const (
	mysqlConns  = 16
	mysqlPort   = "3306"
	dialTimeout = 5 * time.Second // for a connection to be ready, by default

	// silence is how long a host may acknowledge nothing before its connections are given up. A network finds another
	// route in less, and a host that takes long for a statement has acknowledged it.
	silence = 15 * time.Second

	// connLife lets a pool behind a name or proxy move to a new server.
	connLife = time.Hour

	// connIdle ends a connection that nobody needs before the server does, which waits a minute; see mysqlSession.
	connIdle = 30 * time.Second
)

// mysqlSession is sent once per connection, whatever the server's defaults are. Strict mode makes a value that does not fit an error instead of a
// truncation; without NO_BACKSLASH_ESCAPES, the interpolated text means what
// driver and bun think it means. The variable for the isolation has different
// names in MariaDB and MySQL, the statement is the same.
//
// The times, in seconds, end what a node has left that vanished without a word: the server keeps the locks of its transaction
// until its connection ends. A statement waits for a row's lock for less time than a batch has, so that the server ends the wait
// itself; a client that hangs up ends none, and its transaction would hold its locks until the wait is over. MySQL
// takes what only MariaDB knows for a comment.
var mysqlSession = []string{
	"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	"SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION,ONLY_FULL_GROUP_BY'",
	"SET SESSION innodb_lock_wait_timeout = 2, wait_timeout = 60 /*M!100300 , idle_transaction_timeout = 10 */",
}

func (db *DB) openMySQL(ctx context.Context, cfg Config) error {
	mc, err := mysqlConfig(cfg.URL)
	if err != nil {
		return err
	}
	mc.Logger = driverLog{db.log}
	connector, err := mysql.NewConnector(mc)
	if err != nil {
		return err
	}
	pool := sql.OpenDB(sessionConnector{connector, mc.Timeout, cmp.Or(cfg.StatementTime, statementTime)})
	conns := cfg.MaxConns
	if conns == 0 {
		conns = mysqlConns
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	pool.SetConnMaxLifetime(connLife)
	pool.SetConnMaxIdleTime(connIdle)

	db.place = mc.Addr + "/" + mc.DBName
	version, err := awaitMySQL(ctx, pool, cfg.Patience, db.log)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", db.place, err), pool.Close())
	}
	db.dialect = MySQL
	if strings.Contains(version, "MariaDB") {
		db.dialect = MariaDB
	}
	db.w = bun.NewDB(pool, mysqldialect.New())
	db.r = db.w
	db.turns = newTurns(conns)
	return nil
}

// mysqlConfig reads the URL. Its errors quote nothing of the URL: a password
// with an unescaped slash would show up in the wrong part.
func mysqlConfig(raw string) (*mysql.Config, error) {
	const form = "expected mysql://user:password@host:port/database, user and password percent-encoded"
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return nil, errors.New("the URL does not parse; " + form)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" || strings.ContainsAny(name, "/@") { // with an @, host and database are parts of a password
		return nil, errors.New("the URL names no database; " + form)
	}
	query := u.Query()
	socket := query.Get("socket")
	query.Del("socket")
	mc, err := mysql.ParseDSN("/?" + query.Encode())
	if err != nil {
		return nil, fmt.Errorf("the parameters of the URL: %w", err)
	}
	mc.User = u.User.Username()
	mc.Passwd, _ = u.User.Password()
	mc.DBName = name
	switch {
	case socket != "" && u.Host != "":
		return nil, errors.New("the URL has a host and a socket; " + form)
	case socket != "":
		mc.Net, mc.Addr = "unix", socket
	case u.Hostname() == "":
		return nil, errors.New("the URL has neither host nor socket; " + form)
	case u.Port() == "":
		mc.Net, mc.Addr = "tcp", net.JoinHostPort(u.Hostname(), mysqlPort)
	default:
		mc.Net, mc.Addr = "tcp", u.Host
	}
	if mc.Net == "tcp" {
		mc.DialFunc = dialer().DialContext
	}
	mc.TLS = nil // it is for 127.0.0.1, the default address; NewConnector makes one for this address
	if mc.Timeout == 0 {
		mc.Timeout = dialTimeout
	}
	mc.InterpolateParams = true // one round trip instead of prepare, execute, close
	mc.ParseTime = false        // times are BIGINT
	mc.MultiStatements = false
	mc.ClientFoundRows = false // a batch counts its new rows by RowsAffected
	mc.RejectReadOnly = true   // a server that became a replica keeps its connections: one that refuses a write is given up
	mc.Collation = "utf8mb4_bin"
	return mc, nil
}

// dialer connects to hosts that may vanish without a word. Keep-alive notices it on connections on which nothing is on its
// way to the host; where something is, the system would send it again for long.
func dialer() *net.Dialer {
	return &net.Dialer{
		Control:         unheard(silence),
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 3, Interval: silence / 3, Count: 2},
	}
}

// awaitMySQL asks for the version until it gets it or patience is over.
func awaitMySQL(ctx context.Context, pool *sql.DB, patience time.Duration, log *slog.Logger) (version string, _ error) {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	wait := 50 * time.Millisecond
	var away error // why the last try failed that came to an end by itself
	for try := 1; ; try++ {
		err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
		if err != nil && ctx.Err() != nil && away != nil {
			err = away
		}
		if err == nil || !IsUnavailable(err) || IsDenied(err) || errors.Is(err, ErrStatementLog) || patience < 0 {
			return version, err
		}
		away = err
		if try == 1 {
			log.LogAttrs(ctx, slog.LevelWarn, "waiting for the database", slog.Any("err", err))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("not there after %d tries: %w", try, away)
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

// ErrNoWrites says that no connection is made to a server, because its tables are read-only. [IsUnavailable] reports it, too.
var ErrNoWrites = errors.New("the server takes no writes (innodb_read_only)")

// ErrStatementLog says that no connection is made to a server, because InnoDB refuses writes there. [IsUnavailable] reports it, too.
var ErrStatementLog = errors.New("the server logs statements, which InnoDB refuses: set binlog_format to ROW")

// sessionConnector prepares every new connection with mysqlSession, and makes none to a server whose tables are read-only. The
// driver never resets a session, and tables are read-only for as long as their server runs, so once is enough.
type sessionConnector struct {
	driver.Connector
	timeout   time.Duration // bounds a Connect; database/sql does not, and its pool waits for all that are under way
	statement time.Duration // see Config.StatementTime
}

func (c sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	own, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	conn, err := c.connect(own)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		return nil, &net.OpError{Op: "dial", Net: "mysql", Err: fmt.Errorf("no answer in %s", c.timeout)}
	}
	return conn, err
}

func (c sessionConnector) connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range mysqlSession {
		if _, err := conn.(driver.ExecerContext).ExecContext(ctx, q, nil); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	if err := acceptsWrites(ctx, conn.(driver.QueryerContext)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &session{driverConn: conn.(driverConn), limit: c.statement}, nil
}

// acceptsWrites checks variables that the begin of a transaction does not: where tables are read-only, as at a reader of
// Aurora, one begins all the same. A server that lacks a variable needs no check of it.
func acceptsWrites(ctx context.Context, conn driver.QueryerContext) (err error) {
	rows, err := conn.QueryContext(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('innodb_read_only', 'log_bin', 'binlog_format')", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found, row := map[string]string{}, make([]driver.Value, 2)
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			switch {
			case found["innodb_read_only"] == "ON":
				return ErrNoWrites
			case found["log_bin"] == "ON" && found["binlog_format"] == "STATEMENT":
				return ErrStatementLog
			}
			return nil
		case err != nil:
			return err
		}
		found[fmt.Sprintf("%s", row[0])] = fmt.Sprintf("%s", row[1])
	}
}

// driverLog hands the driver's remarks (a broken connection it replaces) to
// the log; what matters comes back as an error as well.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any) {
	l.log.Debug("mysql driver", "remark", strings.TrimSpace(fmt.Sprint(v...)))
}
