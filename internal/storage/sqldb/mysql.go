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
	dialTimeout = 5 * time.Second // until a connection is ready, by default

	// unacknowledgedTimeout is how long a host may acknowledge nothing before its connections are closed. A network reroutes in less
	// time, and a host that runs a slow statement has acknowledged it.
	unacknowledgedTimeout = 15 * time.Second

	// connLife bounds the age of a connection, so that the pool follows a name or a proxy to a new server.
	connLife = time.Hour

	// connIdle closes an idle connection before the server closes it after a minute; see mysqlSession.
	connIdle = 30 * time.Second
)

// mysqlSession is sent once per connection, whatever the defaults of the server are. Strict mode rejects a value that
// does not fit instead of truncating it. Without NO_BACKSLASH_ESCAPES the server reads interpolated text as the driver
// and bun wrote it. The variable of the isolation level has different names in MariaDB and MySQL; this statement works
// for both.
//
// The timeouts, in seconds, clean up after a node that vanished: the server keeps the locks of a transaction until its
// connection ends. The lock wait of a statement is shorter than the deadline of a batch, so that the server ends the
// wait. A client that disconnects does not end it, and the transaction would keep its locks until then. MySQL reads the
// part that only MariaDB knows as a comment.
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
	statement := cmp.Or(cfg.StatementTime, statementTime)
	pool := sql.OpenDB(sessionConnector{connector, mc.Timeout, statement, mc.MultiStatements})
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
	db.packets = mc.MultiStatements
	return nil
}

// mysqlConfig parses the URL. Its errors quote no part of the URL: in a URL with an unescaped slash the password is in
// the wrong part.
func mysqlConfig(raw string) (*mysql.Config, error) {
	const form = "expected mysql://user:password@host:port/database, user and password percent-encoded"
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return nil, errors.New("the URL does not parse; " + form)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" || strings.ContainsAny(name, "/@") { // a name with @ is part of a password with a slash
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
	mc.TLS = nil // it is for 127.0.0.1, the default address; NewConnector creates one for this address
	if mc.Timeout == 0 {
		mc.Timeout = dialTimeout
	}
	mc.InterpolateParams = true // one round trip instead of three (prepare, execute, close)
	mc.ParseTime = false        // times are BIGINT
	mc.MultiStatements = query.Get("multiStatements") != "false"
	mc.ClientFoundRows = false // a batch counts its new rows by RowsAffected
	mc.RejectReadOnly = true   // closes connections to a server that became a replica, when it refuses a write
	mc.Collation = "utf8mb4_bin"
	return mc, nil
}

// dialer connects to hosts that may vanish. Keep-alive detects this on connections without unacknowledged data. For
// unacknowledged data the system would retransmit for minutes, so unacknowledgedTimeout bounds it.
func dialer() *net.Dialer {
	return &net.Dialer{
		Control:         unacknowledgedLimit(unacknowledgedTimeout),
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: unacknowledgedTimeout / 3, Interval: unacknowledgedTimeout / 3, Count: 2},
	}
}

// awaitMySQL queries the version until the server answers or patience is over.
func awaitMySQL(ctx context.Context, pool *sql.DB, patience time.Duration, log *slog.Logger) (version string, _ error) {
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	wait := 50 * time.Millisecond
	var away error // the error of the last try that was not cut off by the deadline
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
			log.LogAttrs(ctx, slog.LevelWarn, "sql: waiting for the database", slog.Any("err", err))
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("no connection after %d tries: %w", try, away)
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

// ErrNoWrites reports a server with read-only tables. No connection is made to it, and [IsUnavailable] is true for it.
var ErrNoWrites = errors.New("the server takes no writes (innodb_read_only)")

// ErrStatementLog reports a server where InnoDB refuses writes because of the format of the binary log. No connection
// is made to it, and [IsUnavailable] is true for it.
var ErrStatementLog = errors.New("the binary log has the statement format: set binlog_format to ROW")

// sessionConnector runs mysqlSession on each new connection, and refuses a server with read-only tables. Once is
// enough: the driver never resets a session, and a server with read-only tables has them until it ends.
type sessionConnector struct {
	driver.Connector
	timeout   time.Duration // bounds a Connect; database/sql does not, and its pool waits for all pending ones
	statement time.Duration // see Config.StatementTime
	pipelined bool          // see [Tx.ExecLater]
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
	return &session{driverConn: conn.(driverConn), limit: c.statement, pipelined: c.pipelined}, nil
}

// acceptsWrites checks variables that the start of a transaction does not check: a reader of Aurora starts transactions
// although its tables are read-only. A variable that the server does not have is not checked.
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

// driverLog logs the messages of the driver, such as a broken connection that it replaces. Errors that matter are also
// returned.
type driverLog struct{ log *slog.Logger }

func (l driverLog) Print(v ...any) {
	l.log.Debug("sql: mysql driver message", "remark", strings.TrimSpace(fmt.Sprint(v...)))
}
