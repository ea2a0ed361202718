package accounts

import (
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/lib/keyspace"
)

// Keys are the key families of this domain.
var Keys = keyspace.New("accounts")

var (
	// An hour bounds what Redis can still accept after an asynchronous failover lost a change together with its era.
	accessKeys = keyspace.Def2[ID, DeviceID](Keys, "auth:at:{{uid}}:{device}", keyspace.CachedOf[access](),
		keyspace.Expire(50*time.Minute).Jitter(10*time.Minute),
		keyspace.Doc{
			Purpose:       "what a check of an access token needs of its session: hash and expiry",
			InvalidatedBy: []string{SessionChanged.Name()},
			MaxBytes:      256,
			Version:       2,
		})

	// One more hour while SQL is unavailable costs little, because no profile changes then.
	userKeys = keyspace.Def1[ID](Keys, "user:info:{uid}", keyspace.CachedOf[User](),
		keyspace.Expire(time.Hour).Jitter(5*time.Minute).Negative(5*time.Minute).StaleIfError(time.Hour),
		keyspace.Doc{
			Purpose: "a user: name, address, calendar, picture, and who may find and see them",
			InvalidatedBy: []string{AvatarChanged.Name(), InfoChanged.Name(), EmailChanged.Name(),
				PasswordChanged.Name(), AccountDeleted.Name(), AccountBanned.Name()},
			MaxBytes: 4096,
			Version:  5,
		})

	notifications = keyspace.DefChannel1[ID](Keys, "channel:system_notification:{uid}", events.Payload(
		api.EventAccountUpdated, api.EventAccountNotice, api.EventSessionOpened,
		api.EventSessionEnded, api.EventNoticeNew, api.EventNoticeRead),
		keyspace.Doc{Purpose: "events of an account, its sessions and notices", MaxBytes: 8 << 10, Version: 4})

	loginFailKeys = keyspace.Def1[keyspace.Hashed](Keys, "limit:login_fail:{email}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "wrong passwords and codes of an address from unknown client networks", InvalidatedBy: []string{"another password"},
			MaxBytes: 8})

	loginFailFromKeys = keyspace.Def2[keyspace.Hashed, keyspace.Hashed](Keys, "limit:login_fail:{email}:{household}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "wrong passwords and codes of an address from one client network; at the limit log-in is locked there",
			InvalidatedBy: []string{"log-in", "another password"}, MaxBytes: 8})

	clientNetFailKeys = keyspace.Def1[keyspace.Hashed](Keys, "limit:household_fail:{household}", keyspace.CounterKind(),
		keyspace.UpTo(clientNetLife),
		keyspace.Doc{Purpose: "wrong passwords and codes from one client network, for all addresses", MaxBytes: 8})

	confirmFailKeys = keyspace.Def2[ID, DeviceID](Keys, "limit:confirm_fail:{uid}:{device}", keyspace.CounterKind(),
		keyspace.UpTo(24*time.Hour),
		keyspace.Doc{Purpose: "wrong current passwords of a logged-in device", InvalidatedBy: []string{"the right one"}, MaxBytes: 8})

	userSessionKeys = keyspace.Def2[ID, DeviceID](Keys, "user:session:{uid}:{device}",
		keyspace.HashOf("device, agent, ip, login, used: two texts, an address and two Unix ms"),
		keyspace.Expire(24*time.Hour),
		keyspace.Doc{Purpose: "facts of a logged-in device; each use renews it", InvalidatedBy: []string{"log-out"}, MaxBytes: 2048})

	cardKeys = keyspace.Def1[ID](Keys, "user:qrcode:user:{uid}", keyspace.CachedOf[Card](),
		keyspace.UpTo(cardLife),
		keyspace.Doc{Purpose: "the card of a user, until it expires", InvalidatedBy: []string{CardChanged.Name()}, MaxBytes: 256, Version: 2})

	cardTokenKeys = keyspace.Def1[keyspace.Hashed](Keys, "user:qrcode:token:{token}", keyspace.CachedOf[Card](),
		keyspace.UpTo(cardLife),
		keyspace.Doc{Purpose: "the owner of a card, until it expires", InvalidatedBy: []string{CardChanged.Name()}, MaxBytes: 256, Version: 2})
)
