package groups

import (
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this domain.
var Keys = keyspace.New("groups")

var (
	// Each change of a group edits the cached members, so no event drops them.
	membersKeys = keyspace.Def1[ID](Keys, "group:members:{gid}", keyspace.CachedHashOf[accounts.ID, cachedMember](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute),
		keyspace.Doc{
			Purpose:  "a group's members with role (0 member, 1 admin, 2 owner), nickname, mute, time of joining and inviter",
			MaxBytes: 1 << 20, // 5,000 members with long nicknames
		})

	groupsChannel = keyspace.DefChannel1[accounts.ID](Keys, "channel:group:{uid}", events.Payload(
		api.EventGroupMine, api.EventGroupChanged, api.EventGroupLeft,
		api.EventGroupRequested, api.EventGroupRequestClosed),
		keyspace.Doc{Purpose: "events of a user's groups", MaxBytes: 64 << 10, Version: 4})
)
