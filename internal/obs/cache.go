package obs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/cacheprom"
)

// Caches is the [cacheprom.Collector] of this process. Pass its Hooks to the caches' runtime, and then the runtime to
// [Caches.Watch].
type Caches struct {
	*cacheprom.Collector
	reg prometheus.Registerer
}

// NewCaches returns a collector; Watch registers it in reg.
func NewCaches(reg prometheus.Registerer) *Caches { return &Caches{cacheprom.New(), reg} }

// Watch starts to collect from the caches of rt.
func (c *Caches) Watch(rt *cache.Runtime) {
	c.Collector.Watch(rt)
	c.reg.MustRegister(c)
}

// kinds returns the type of every metric that may have no value yet.
func (c *Caches) kinds() map[*prometheus.Desc]string { return c.Types() }
