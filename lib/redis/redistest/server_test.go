package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
)

func TestFreePort_ReservedUntilTestEnds(t *testing.T) {
	taken := func(port int) bool {
		c, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", port)) // as FreePort does
		if err == nil {
			c.Close()
		}
		return err != nil
	}
	var port int
	t.Run("of one", func(t *testing.T) {
		s := Server(t)
		port = s.port
		s.Kill()
		if !taken(port) {
			t.Error("another test can reserve the port of a stopped server")
		}
		s.Restart()
	})
	if taken(port) {
		t.Error("the port is not released")
	}
}

func TestPause_StopsReplies(t *testing.T) {
	s := Server(t)
	for range 100 {
		s.Pause()
		if !stopped(s.cmd.Process.Pid) {
			t.Fatal("the server still replies")
		}
		s.Resume()
	}
}

func TestSentinel_ShortSilenceIsNoFailover(t *testing.T) {
	t.Parallel()
	s := Sentinel(t)
	s.Master.Pause()
	for _, i := range s.Sentinels {
		poll(t, "two seconds without an answer", func() bool {
			m := pairs(i.must("SENTINEL", "MASTER", "stoa"))
			if strings.Contains(m["flags"], "down") {
				t.Fatalf("the master counts as dead: %v", m)
			}
			ms, _ := strconv.Atoi(m["last-ok-ping-reply"])
			return ms > 2000
		})
	}
}

func TestShared_SharesServerButNoKeys(t *testing.T) {
	note := keyspace.Def0(keyspace.New("shared"), "note", keyspace.BytesOf("text"), keyspace.Expire(time.Minute), keyspace.Doc{})
	for _, e := range SharedEngines(t)[2:] { // the others are not shared
		t.Run(e.Name, func(t *testing.T) {
			cfg, other := e.Config(t), e.Config(t)
			if cfg.URL != other.URL {
				t.Errorf("two servers, %s and %s, want one", cfg.URL, other.URL)
			}
			if err := note.At().Set(t.Context(), OpenConfig(t, cfg), "mine"); err != nil {
				t.Fatal(err)
			}
			if got, _, err := note.At().Get(t.Context(), OpenConfig(t, cfg)); got != "mine" || err != nil {
				t.Errorf("over a second connection: %q, %v, want the same keys", got, err)
			}
			if got, found, err := note.At().Get(t.Context(), OpenConfig(t, other)); found || err != nil {
				t.Errorf("in another test: %q, %v, want nothing", got, err)
			}
		})
	}
}
