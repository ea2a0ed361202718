package redistest

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A ClusterSet is a Redis Cluster.
type ClusterSet struct {
	URL      string      // redis-cluster://…
	Masters  []*Instance // with equal shares of the slots, in their order
	Replicas []*Instance // replica n follows master n modulo the number of masters
}

const slots = 16384

// Cluster starts masters, replicas for each of them, and waits until all agree. Settings are lines of redis.conf, such
// as "cluster-require-full-coverage no". A silent server counts as dead after a second if replicas can replace it, and
// otherwise after half a minute, unless "cluster-node-timeout" sets another time.
func Cluster(t testing.TB, masters, replicas int, settings ...string) *ClusterSet {
	t.Helper()
	c := &ClusterSet{}
	var addrs []string
	var all []*Instance
	timeout := longTimeout
	if replicas > 0 {
		timeout = "1000"
	}
	for n := range masters * (1 + replicas) {
		bus := FreePort(t)
		i := Server(t, append([]string{
			"cluster-enabled yes", "cluster-node-timeout " + timeout, "cluster-port " + strconv.Itoa(bus),
		}, settings...)...)
		all = append(all, i)
		i.must("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(n+1))
		if n < masters {
			c.Masters = append(c.Masters, i)
			i.must("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(n*slots/masters), strconv.Itoa((n+1)*slots/masters-1))
		} else {
			c.Replicas = append(c.Replicas, i)
		}
		if n > 0 {
			all[0].must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(i.port), strconv.Itoa(bus))
		}
		addrs = append(addrs, i.Addr)
	}
	for _, i := range all {
		poll(t, "every node knows all nodes", func() bool {
			info := i.must("CLUSTER", "INFO")[0]
			return strings.Contains(info, "cluster_state:ok\r") &&
				strings.Contains(info, "cluster_known_nodes:"+strconv.Itoa(len(all))+"\r")
		})
	}
	for n, i := range c.Replicas {
		i.must("CLUSTER", "REPLICATE", c.Masters[n%masters].must("CLUSTER", "MYID")[0])
	}
	for _, i := range c.Replicas {
		poll(t, "every replica follows its master", func() bool { return info(i, "replication", "master_link_status") == "up" })
	}
	if replicas > 0 {
		for _, i := range all {
			poll(t, "every node knows all replicas", func() bool {
				return strings.Count(i.must("CLUSTER", "NODES")[0], "slave") == len(c.Replicas)
			})
		}
	}
	c.URL = "redis-cluster://" + strings.Join(addrs, ",")
	return c
}

// Owner returns the master that had the slot of a physical key at the start.
func (c *ClusterSet) Owner(physical string) *Instance {
	for _, i := range c.Masters {
		reply, err := i.Do("CLUSTER", "KEYSLOT", physical)
		if err != nil {
			continue // this server is down; any other can reply
		}
		slot, _ := strconv.Atoi(reply[0])
		for n := len(c.Masters) - 1; n >= 0; n-- {
			if slot >= n*slots/len(c.Masters) {
				return c.Masters[n]
			}
		}
	}
	return nil
}

// Move moves the slot of a physical name without a key from its owner at the start to the next master, and waits until
// all masters know it.
func (c *ClusterSet) Move(t testing.TB, physical string) {
	t.Helper()
	from := c.Owner(physical)
	to := c.Masters[(slices.Index(c.Masters, from)+1)%len(c.Masters)]
	slot, id := from.must("CLUSTER", "KEYSLOT", physical)[0], to.must("CLUSTER", "MYID")[0]
	to.must("CLUSTER", "SETSLOT", slot, "IMPORTING", from.must("CLUSTER", "MYID")[0])
	from.must("CLUSTER", "SETSLOT", slot, "MIGRATING", id)
	to.must("CLUSTER", "SETSLOT", slot, "NODE", id)
	for _, i := range c.Masters {
		i.must("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
}
