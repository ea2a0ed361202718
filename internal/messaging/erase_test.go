package messaging

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// unanswered is a proxy to a database. It forwards a COMMIT and loses its response.
type unanswered struct {
	net, addr string // of the database
	armed     atomic.Bool
	all       sync.WaitGroup
}

// carry forwards a connection until one side ends.
func (u *unanswered) carry(from net.Conn) {
	defer from.Close()
	to, err := (&net.Dialer{}).DialContext(context.Background(), u.net, u.addr)
	if err != nil {
		return
	}
	var lost atomic.Bool
	u.all.Go(func() {
		defer from.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := to.Read(buffer)
			if err != nil || lost.Load() {
				return
			}
			if _, err := from.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if strings.Contains(string(buffer[:n]), "COMMIT") && u.armed.CompareAndSwap(true, false) {
			lost.Store(true)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// open opens a database of a server through u.
func (u *unanswered) open(t *testing.T, e sqldbtest.Engine) *sqldb.DB {
	t.Helper()
	cfg := e.Config(t)
	sqldbtest.Open(t, cfg)
	at, err := url.Parse(cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.net, u.addr = "tcp", at.Host
	if socket := at.Query().Get("socket"); socket != "" {
		u.net, u.addr = "unix", socket
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			u.all.Go(func() { u.carry(conn) })
		}
	})
	db, err := sqldb.Open(t.Context(), sqldb.Config{URL: "mysql://root@" + ln.Addr().String() + at.Path, Log: cfg.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range []io.Closer{db, ln} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		u.all.Wait()
	})
	return db
}

func TestErase_LostCommitResponseLeavesNoContent(t *testing.T) {
	var way unanswered
	w := newWorld(t, way.open(t, sqldbtest.Default(t)), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	who := w.join(2)
	ann, bob := who[0], who[1]
	w.mustSend(ann, bob, "secret")
	w.listed(bob)
	if c := w.chat(bob, ann); c.Last.Text != "secret" {
		t.Fatalf("the chat is %+v", c)
	}
	way.armed.Store(true)
	wants(t, "the first try", w.Erase(t.Context(), ann), ErrStore)
	w.must(w.Erase(t.Context(), ann))
	eventually.Equal(t, "what the other's chat shows", "", func() string { return w.chat(bob, ann).Last.Text })
	w.wantReads(bob, ann, "-")
}
