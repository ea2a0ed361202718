//go:build unix

package sqldbtest

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// A Line proxies connections to a server until it fails. Connections made after a failure work again, as with a server
// that replaced a lost one.
type Line struct {
	URL string // for sqldb.Config

	lose    atomic.Int64 // COMMITs that will still be lost
	refuse  atomic.Int64 // ROLLBACKs that will still be refused
	packets atomic.Int64

	mu    sync.Mutex
	links []*link
}

// link is one connection through a line.
type link struct {
	near, far net.Conn
	mute      atomic.Bool
}

// NewLine returns a line to a server with Options.TCP. It closes when the test ends.
func NewLine(t testing.TB, to *Instance) *Line {
	t.Helper()
	quiet := net.ListenConfig{KeepAlive: -1} // no keep-alive: a failed line sends nothing
	listener, err := quiet.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Line{URL: strings.Replace(to.URL, to.Addr(), listener.Addr().String(), 1)}
	var accepting, carrying sync.WaitGroup
	accepting.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to.Addr())
			if err != nil {
				near.Close()
				continue
			}
			c := &link{near: near, far: far}
			l.mu.Lock()
			l.links = append(l.links, c)
			l.mu.Unlock()
			carrying.Go(func() { defer c.close(); _, _ = io.Copy(commits{l, far}, near) })
			carrying.Go(func() { defer c.close(); _, _ = io.Copy(c, far) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		accepting.Wait()
		for _, c := range l.links {
			c.close()
		}
		carrying.Wait()
	})
	return l
}

// Mute drops the responses of the server on the existing connections, which stay open. The server still receives and
// runs statements.
func (l *Line) Mute() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.links {
		c.mute.Store(true)
	}
}

// LoseCommits makes the next n COMMITs fail with error 1213, as on a Galera node whose transaction lost against another
// node. It creates a procedure with db.
func (l *Line) LoseCommits(t testing.TB, db *sqldb.DB, n int64) {
	t.Helper()
	const body = " BEGIN ROLLBACK; SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found when trying to get " +
		"lock'; END"
	for _, query := range []string{"DROP PROCEDURE IF EXISTS lose_commit", "CREATE PROCEDURE lose_commit()" + body} {
		if _, err := db.Writer().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	l.lose.Store(n)
}

// RefuseRollbacks makes the next n ROLLBACKs fail with error 1317, as after a KILL QUERY. The transactions stay open.
func (l *Line) RefuseRollbacks(n int64) { l.refuse.Store(n) }

// Packets returns the number of packets that clients have sent.
func (l *Line) Packets() int64 { return l.packets.Load() }

// commits forwards to the server and replaces COMMITs and ROLLBACKs that will fail.
type commits struct {
	line *Line
	io.Writer
}

// Write implements io.Writer. The driver writes a packet in one call.
func (c commits) Write(p []byte) (int, error) {
	c.line.packets.Add(1)
	send := string(p)
	if before, ends := strings.CutSuffix(send, "COMMIT"); ends && c.line.lose.Add(-1) >= 0 {
		send = packet(before[packetHeader:] + "CALL lose_commit()")
	}
	if strings.HasSuffix(send, "ROLLBACK") && c.line.refuse.Add(-1) >= 0 {
		send = packet("SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317")
	}
	if _, err := io.WriteString(c.Writer, send); err != nil {
		return 0, err
	}
	return len(p), nil
}

// packetHeader is the number of bytes before a statement in its packet: length, number and kind.
const packetHeader = 5

// packet encodes a statement in the protocol of MySQL.
func packet(statement string) string {
	n := len(statement) + 1
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), 0, 3}) + statement
}

// Write receives the responses of the server.
func (c *link) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return len(p), nil
	}
	return c.near.Write(p)
}

func (c *link) close() {
	c.near.Close()
	c.far.Close()
}
