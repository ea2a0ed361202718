package app

import (
	"context"
	"sync"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/codes"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/background/drops"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/ranking"
	"github.com/stoa-dev/stoa/internal/checkin/records"
	"github.com/stoa-dev/stoa/internal/cluster"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/presence"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/rooms"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/keyspace/audit"
	"github.com/stoa-dev/stoa/lib/lease"
)

var keys = keyspace.New("app")

// jobLease is the lifetime of the lease for the jobs of one node. When its node dies, the jobs continue on another node
// after this time.
const jobLease = 10 * time.Second

var (
	jobLeaseKeys = keyspace.Def1[keyspace.Text](keys, "cluster:job:{{job}}:lease", keyspace.BytesOf("token and holder"),
		keyspace.Lease(jobLease), keyspace.Doc{Purpose: "which node runs the jobs of one node at a time"})
	jobFenceKeys = keyspace.Def1[keyspace.Text](keys, "cluster:job:{{job}}:fence", keyspace.CounterKind(),
		keyspace.Forever("one small counter"), keyspace.Doc{Purpose: "the last token given with that lease"})

	hotKey = keyspace.Def0(keys, "cluster:hot_keys", keyspace.HashOf("node → json: when, and keys with commands per second"),
		keyspace.Expire(hotLife), keyspace.Doc{Purpose: "the keys that each node uses most, for stoa keys audit", MaxBytes: 1 << 20})
)

var jobKeys = lease.Keys{Lease: jobLeaseKeys.At(allJobs), Fence: jobFenceKeys.At(allJobs)}

var allJobs = keyspace.Text{S: "all"} // of the jobs that run on one node at a time

// Keys returns every key family of the server, by owner.
func Keys() []*keyspace.Schema {
	return []*keyspace.Schema{keys, events.Keys, cluster.Keys, queue.Keys, web.Keys, cache.Keys, accounts.Keys, codes.Keys, social.Keys,
		groups.Keys, messaging.Keys, presence.Keys, activity.Keys, transfers.Keys, live.Keys, rooms.Keys, checkin.Keys, records.Keys,
		ranking.Keys}
}

// Cached lists the cached families of [Keys].
var Cached = sync.OnceValue(func() *drops.Cached { return drops.NewCached(Keys()...) })

// Audit compares the contents of this node's Redis with [Keys].
func (a *App) Audit(ctx context.Context, opt audit.Options) (*audit.Report, error) {
	return audit.Run(ctx, a.redis, Keys(), opt)
}
