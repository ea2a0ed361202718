package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// Sentinels is a master with one replica, watched by three sentinels. In a [Sentinels.Failover] they replace the master
// within about a second. Otherwise they wait for half a minute, so that a stalled machine causes no failover.
type Sentinels struct {
	URL       string    // redis-sentinel://…/stoa
	Master    *Instance // the master at the start
	Replica   *Instance // its replica at the start
	Sentinels []*Instance
}

// Sentinel starts a master, a replica and three sentinels, and waits until all know each other.
func Sentinel(t testing.TB, settings ...string) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: Server(t, settings...)}
	s.Replica = Server(t, append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", s.Master.port)}, settings...)...)
	poll(t, "the replica follows its master", func() bool { return info(s.Replica, "replication", "master_link_status") == "up" })
	var addrs []string
	for range 3 {
		i := instance(t, []string{
			fmt.Sprintf("sentinel monitor stoa 127.0.0.1 %d 2", s.Master.port),
			"sentinel down-after-milliseconds stoa " + longTimeout,
			"sentinel failover-timeout stoa 1000", // a split vote is repeated after twice this time
		})
		i.mode, i.file = "--sentinel", i.Dir+"/sentinel.conf"
		i.start()
		// Sentinels announce themselves every 50 ms instead of every 2 s and 10 s. The period of pings is unchanged,
		// because a replica must have replied within five periods.
		i.must("SENTINEL", "DEBUG", "publish-period", "50", "info-period", "100", "ask-period", "50")
		s.Sentinels = append(s.Sentinels, i)
		addrs = append(addrs, i.Addr)
	}
	for _, i := range s.Sentinels {
		poll(t, "every sentinel knows all servers", func() bool {
			m := pairs(i.must("SENTINEL", "MASTER", "stoa"))
			return m["num-other-sentinels"] == "2" && m["num-slaves"] == "1"
		})
	}
	s.URL = "redis-sentinel://" + strings.Join(addrs, ",") + "/stoa"
	return s
}

// Failover kills the present master and waits until the sentinels agree on another. It returns the killed one, which
// Restart starts again as a replica.
func (s *Sentinels) Failover(t testing.TB) *Instance {
	t.Helper()
	old := s.master(0)
	dead := s.Master
	if old != dead.Addr {
		dead = s.Replica
	}
	dead.Kill()
	s.deadAfter("500")
	defer s.deadAfter(longTimeout)
	for n := range s.Sentinels {
		poll(t, "the sentinels choose a new master", func() bool { return s.master(n) != old })
	}
	return dead
}

// Whole waits until the server that is not the master follows it again, and every sentinel knows that. After it, a
// second [Sentinels.Failover] can succeed.
func (s *Sentinels) Whole(t testing.TB) {
	t.Helper()
	for n, i := range s.Sentinels {
		replica := s.Replica
		if s.master(n) == replica.Addr {
			replica = s.Master
		}
		poll(t, "the replica follows its master", func() bool { return info(replica, "replication", "master_link_status") == "up" })
		poll(t, "the sentinel knows", func() bool {
			r := pairs(i.must("SENTINEL", "REPLICAS", "stoa"))
			return r["flags"] == "slave" && r["master-link-status"] == "ok"
		})
	}
}

// deadAfter sets the silence in milliseconds that makes a server count as dead for the sentinels.
func (s *Sentinels) deadAfter(ms string) {
	for _, i := range s.Sentinels {
		i.must("SENTINEL", "SET", "stoa", "down-after-milliseconds", ms)
	}
}

func (s *Sentinels) master(n int) string {
	a := s.Sentinels[n].must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "stoa")
	return net.JoinHostPort(a[0], a[1])
}

// info returns one field of INFO.
func info(i *Instance, section, field string) string {
	reply, err := i.Do("INFO", section)
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(reply[0], "\n"+field+":")
	value, _, _ := strings.Cut(rest, "\r")
	return value
}

func pairs(list []string) map[string]string {
	m := make(map[string]string, len(list)/2)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}
