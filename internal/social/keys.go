package social

import (
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this domain.
var Keys = keyspace.New("social")

// emptyTTL is the TTL of an empty list. It is short, because a new user's first friend should be cached soon.
const emptyTTL = 5 * time.Minute

// pairTTL is the TTL of the relations of two users. It is short, because the pairs that exchange messages change.
const pairTTL = 15 * time.Minute

var (
	friendsKeys = keyspace.Def1[accounts.ID](Keys, "user:relation:friend:{uid}", keyspace.CachedHashOf[accounts.ID, cachedFriend](),
		keyspace.Expire(24*time.Hour).Jitter(2*time.Hour).Negative(emptyTTL),
		keyspace.Doc{
			Purpose:       "a user's friends, with remark, tag and order",
			InvalidatedBy: []string{FriendsChanged.Name()},
			MaxBytes:      2 << 20, // 5,000 friends with long remarks
		})

	pairKeys = keyspace.Def2[accounts.ID, accounts.ID](Keys, "user:relation:pair:{low}:{high}", keyspace.CachedOf[pairRelations](),
		keyspace.Expire(pairTTL).Jitter(pairTTL/4),
		keyspace.Doc{
			Purpose:       "whether two users are friends, and who blocks the other; each message between them needs it",
			InvalidatedBy: []string{RelationChanged.Name()},
			MaxBytes:      256,
		})

	blocksKeys = keyspace.Def1[accounts.ID](Keys, "user:relation:blacklist:{uid}", keyspace.CachedSetOf[accounts.ID](),
		keyspace.Expire(24*time.Hour).Jitter(2*time.Hour).Negative(emptyTTL),
		keyspace.Doc{
			Purpose:       "the users whom a user blocks",
			InvalidatedBy: []string{BlocksChanged.Name()},
			MaxBytes:      1 << 20,
		})

	blockersKeys = keyspace.Def1[accounts.ID](Keys, "user:relation:blocked_by:{uid}", keyspace.CachedSetOf[accounts.ID](),
		keyspace.Expire(24*time.Hour).Jitter(2*time.Hour).Negative(emptyTTL),
		keyspace.Doc{
			Purpose:       "the users who block a user",
			InvalidatedBy: []string{BlocksChanged.Name()},
			MaxBytes:      1 << 20,
		})

	pendingKeys = keyspace.Def1[accounts.ID](Keys, "user:apply:pending:{uid}", keyspace.CachedZSetOf[accounts.ID](),
		keyspace.Expire(24*time.Hour).Jitter(2*time.Hour).Negative(emptyTTL),
		keyspace.Doc{
			Purpose:       "the senders of pending requests to a user, by the time of the request (Unix ms)",
			InvalidatedBy: []string{RequestsChanged.Name()},
			MaxBytes:      1 << 20,
		})

	// Reads extend its TTL, at most to twice the TTL.
	unreadKeys = keyspace.Def1[accounts.ID](Keys, "user:notify:friend_apply:unread:{uid}", keyspace.CachedOf[int](),
		keyspace.Expire(7*24*time.Hour).Jitter(12*time.Hour).StaleIfError(7*24*time.Hour),
		keyspace.Doc{
			Purpose:       "the red dot: the number of pending requests that the user has not seen",
			InvalidatedBy: []string{RequestsChanged.Name()},
			MaxBytes:      256,
		})

	requestsChannel = keyspace.DefChannel1[accounts.ID](Keys, "channel:friend_request:{uid}", events.Payload(
		api.EventFriendRequested, api.EventFriendRequestClosed, api.EventFriendUnread, api.EventFriendAdded,
		api.EventFriendUpdated, api.EventFriendRemoved, api.EventBlockAdded, api.EventBlockRemoved),
		keyspace.Doc{Purpose: "events of a user's requests, friends and blocks", MaxBytes: 8 << 10, Version: 3})
)
