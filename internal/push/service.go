package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// People is the part of accounts that this domain uses; *accounts.Service implements it.
type People interface {
	// Profiles returns the profiles of the users that exist or existed.
	Profiles(ctx context.Context, ids []accounts.ID) (accounts.Profiles, error)
}

// Presence returns who is online; *presence.Service implements it.
type Presence interface {
	// Online returns the connected ones of users. partial reports whether others may be connected, too.
	Online(ctx context.Context, users []accounts.ID) (_ map[accounts.ID]bool, partial bool, err error)
}

// Chats returns unread messages; *messaging.Service implements it.
type Chats interface {
	// Waiting returns the unread messages of users in conversations, without places that have none.
	UnreadChats(ctx context.Context, places []messaging.Place) (map[messaging.Place]messaging.UnreadChat, error)
}

// Notices returns the notices of users; *notices.Service implements it.
type Notices interface {
	// Pending returns the listed and unread ones of some notices.
	Pending(ctx context.Context, places []notices.SeqKey) (map[notices.SeqKey]notices.Notice, error)
}

// Config configures the domain.
type Config struct {
	DB       *sqldb.DB
	People   People
	Presence Presence
	Chats    Chats
	Notices  Notices
	Secret   []byte // the server's secret, which encrypts the keys in SQL
	// Previous is another secret that the keys may be encrypted with, while the secret is rotated; nil means none.
	Previous []byte
	// Origin is the secret for deriving keys that are not stored yet; nil means Secret.
	Origin  []byte
	Page    string // URL of the page, as the contact for push services
	Sender  string // address of the server's mails, as the contact if Page is not https
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil disables metrics

	// Offline passes pushes to a backend that sends its own (APNs, FCM), once per push, and perhaps twice after a kill.
	// It is called while no device of the user is online, with or without subscriptions and whatever the push settings
	// are, except for muted chats and groups without notifications. After an error it is retried. It may be nil.
	Offline func(ctx context.Context, user accounts.ID, p api.Push) error

	// Transport replaces the transport for public addresses in tests. Nil means that one.
	Transport Transport

	Settings
}

// Service is the domain. It is safe for concurrent use.
type Service struct {
	db       *sqldb.DB
	people   People
	presence Presence
	chats    Chats
	notices  Notices
	secret   []byte
	previous []byte
	origin   []byte
	contact  string
	log      *slog.Logger
	offline  func(ctx context.Context, user accounts.ID, p api.Push) error
	http     poster
	hosts    hosts
	cfg      Settings
	metrics  *metrics

	mu   sync.Mutex
	keys keys // zero until first used

	mark     marks        // of the follower
	followed atomic.Int64 // mark.at in Unix ms; 0 means unknown
	// of the follower: conversations of the last minute without a member left to notify
	done map[messaging.ConversationID]messaging.ActiveConversation
}

// New returns the domain. Its error contains all faults of the settings.
func New(cfg Config) (*Service, error) {
	config.Defaults(&cfg.Settings)
	if err := cfg.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	origin := cfg.Origin
	if origin == nil {
		origin = cfg.Secret
	}
	return &Service{db: cfg.DB, people: cfg.People, presence: cfg.Presence, chats: cfg.Chats, notices: cfg.Notices, secret: cfg.Secret,
		previous: cfg.Previous, origin: origin, contact: cfg.Settings.contact(cfg.Page, cfg.Sender), log: cfg.Log,
		offline: cfg.Offline, cfg: cfg.Settings, metrics: newMetrics(cfg.Metrics), hosts: hosts{until: map[string]time.Time{}},
		done: map[messaging.ConversationID]messaging.ActiveConversation{},
		http: newPoster(cfg.Transport, cfg.Private)}, nil
}

// signing returns the keys of the deployment.
func (s *Service) signing(ctx context.Context) (keys, error) {
	s.mu.Lock()
	have := s.keys
	s.mu.Unlock()
	if have.public != "" {
		return have, nil
	}
	have, err := s.stored(ctx)
	if err != nil {
		return keys{}, asKind(err)
	}
	s.mu.Lock()
	s.keys = have
	s.mu.Unlock()
	return have, nil
}

// stored returns the keys from SQL, which are encrypted with the secret. The first node stores them, and a node with a
// new secret encrypts them again.
func (s *Service) stored(ctx context.Context) (k keys, err error) {
	sealed, err := setting(ctx, s.db, keyName)
	if err != nil {
		return keys{}, err
	}
	if sealed == "" {
		seed, err := firstSetting(ctx, s.db, seedName, newSeed())
		if err != nil {
			return keys{}, err
		}
		if sealed, err = firstSetting(ctx, s.db, keyName, keysOf(s.origin, seed).seal(s.secret)); err != nil {
			return keys{}, err
		}
	}
	k, ok := unseal(s.secret, sealed)
	if !ok && s.previous != nil {
		if k, ok = unseal(s.previous, sealed); ok && bytes.Equal(s.origin, s.previous) {
			err = storeSetting(ctx, s.db, keyName, k.seal(s.secret))
		}
	}
	if !ok {
		return keys{}, errSealed
	}
	return k, err
}

// errSealed reports keys that this node cannot decrypt.
var errSealed = errors.New("push: the stored keys belong to another secret; set secret_previous to it")

// Key returns the public key for subscriptions of browsers, in base64url.
func (s *Service) Key(ctx context.Context) (_ string, err error) {
	defer errs.Wrap(&err, "push.Key")
	k, err := s.signing(ctx)
	return k.public, err
}

// Subscribe subscribes a device of a user to pushes until its log-out. It replaces an earlier subscription of the
// device or of the same endpoint.
func (s *Service) Subscribe(ctx context.Context, sub Subscription) (err error) {
	defer errs.Wrap(&err, "push.Subscribe %s", sub.User)
	if err := sub.check(); err != nil {
		return err
	}
	return asKind(inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		sub.Created = tx.Now().UnixMilli()
		return insertSubscription(ctx, tx, sub)
	}))
}

// Unsubscribe ends the subscription of a device. It is idempotent.
func (s *Service) Unsubscribe(ctx context.Context, user accounts.ID, device accounts.DeviceID) (err error) {
	defer errs.Wrap(&err, "push.Unsubscribe %s", user)
	return asKind(deleteSubscription(ctx, s.db, user, device))
}

// Status is the push status of a user.
type Status struct {
	Choice
	Devices []accounts.DeviceID // devices with a subscription
}

// Status returns the push status of a user.
func (s *Service) Status(ctx context.Context, user accounts.ID) (st Status, err error) {
	defer errs.Wrap(&err, "push.Status %s", user)
	found, err := selectSubscriptions(ctx, s.db, []accounts.ID{user})
	if err != nil {
		return st, asKind(err)
	}
	for _, sub := range found {
		st.Devices = append(st.Devices, sub.Device)
	}
	all, err := choices(ctx, s.db, []accounts.ID{user}, "")
	st.Choice = all[user]
	return st, asKind(err)
}

// Update changes a choice; nil fields stay.
type Update struct{ Messages, Requests, Notices, Previews *bool }

// Choose changes the push settings of a user.
func (s *Service) Choose(ctx context.Context, user accounts.ID, u Update) (err error) {
	defer errs.Wrap(&err, "push.Choose %s", user)
	return asKind(inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		c, err := lockChoice(ctx, tx, user)
		if err != nil {
			return err
		}
		aggregate.Set(&c.Messages, u.Messages)
		aggregate.Set(&c.Requests, u.Requests)
		aggregate.Set(&c.Notices, u.Notices)
		aggregate.Set(&c.Previews, u.Previews)
		return setChoice(ctx, tx, user, c)
	}))
}

// Erase deletes all data of a user without an account. It may be repeated.
func (s *Service) Erase(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "push.Erase %s", user)
	return asKind(erase(ctx, s.db, user))
}

// EnqueueNotices returns a notices.Config.EnqueuePushes, which enqueues pushes of new notices in their transaction.
// offline is whether Config.Offline is set.
func EnqueueNotices(offline bool) func(ctx context.Context, tx *sqldb.Tx, added []notices.Notice) error {
	return func(ctx context.Context, tx *sqldb.Tx, added []notices.Notice) (err error) {
		defer errs.Wrap(&err, "push.EnqueueNotices")
		users := make([]accounts.ID, len(added))
		for i, n := range added {
			users[i] = n.User
		}
		subs, err := selectSubscriptions(ctx, tx, users)
		if err != nil {
			return err
		}
		devices := byUser(subs)
		var all []job
		for _, n := range added {
			all = append(all, jobs(job{User: n.User, Notice: n.Seq, At: n.At}, devices[n.User], offline)...)
		}
		return enqueue(ctx, tx, all)
	}
}

// jobs returns a job for each device, and with offline one for the hook.
func jobs(of job, devices []accounts.DeviceID, offline bool) (all []job) {
	for _, d := range devices {
		of.Device = d
		all = append(all, of)
	}
	if offline {
		of.Device = accounts.DeviceID{}
		all = append(all, of)
	}
	return all
}

func byUser(subs []Subscription) map[accounts.ID][]accounts.DeviceID {
	devices := make(map[accounts.ID][]accounts.DeviceID, len(subs))
	for _, s := range subs {
		devices[s.User] = append(devices[s.User], s.Device)
	}
	return devices
}
