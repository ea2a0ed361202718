package messaging

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/projection"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/groupcommit"
	"github.com/stoa-dev/stoa/lib/redis"
)

// SettingsChanged is the cache event of a user's settings.
var SettingsChanged = cache.NewEvent[accounts.ID]("chat settings changed")

// groupMembers returns the members of groups from a cache; *groups.Service implements it. Decisions use
// [groups.Standings], which reads SQL.
type groupMembers interface {
	IsMember(ctx context.Context, id groups.ID, user accounts.ID) (bool, error)
	MemberIDs(ctx context.Context, id groups.ID) ([]accounts.ID, error)
}

// Config has the parts that the domain needs.
type Config struct {
	DB        *sqldb.DB
	Redis     *redis.DB
	Caches    *cache.Runtime
	Cache     cache.Policy
	Node      string // this process; see projection.Config
	Metrics   prometheus.Registerer
	Bus       *events.Bus // receives the events, after the commit
	People    *accounts.Service
	Relations *social.Service
	Groups    *groups.Service    // New registers the service as its follower
	Files     *transfers.Service // New registers the service as the one that decides who sees files of messages
	Hooks     *webhooks.Service  // before-hooks and after-hooks of messages; nil: none
	Log       *slog.Logger

	Settings
}

// Service is messaging for the rest of the program. It is safe for concurrent use.
type Service struct {
	sql             *sqlStore
	redis           *redisStore
	projection      *projection.Projection[change, derivedState]
	caches          *aggregate.Caches
	settings        *cache.Cache[accounts.ID, settings]
	bus             *events.Bus
	pendingProgress *pendingProgress
	people          *accounts.Service
	relations       *social.Service
	groups          groupMembers
	files           *transfers.Service
	hooks           *webhooks.Service
	cfg             Settings
	metrics         *metrics
	log             *slog.Logger
	messages        *groupcommit.Committer[sending, sent]
	locks           *sqldb.Locks[ConversationID, conversation]
	movedMarks      *groupcommit.Committer[marking, error]
	loader          *groupcommit.Committer[accounts.ID, []state]
	pairs           pairs
	base            context.Context //nolint:containedctx // for the work after a commit
}

// New returns the domain with the parts in cfg. Work after a commit has the values of ctx.
func New(ctx context.Context, cfg Config) *Service {
	config.Defaults(&cfg.Settings)
	s := &Service{base: context.WithoutCancel(ctx), sql: newSQLStore(cfg.DB), bus: cfg.Bus, pendingProgress: newPendingProgress(),
		people: cfg.People, relations: cfg.Relations, groups: cfg.Groups, files: cfg.Files, hooks: cfg.Hooks, cfg: cfg.Settings, log: cfg.Log}
	s.redis, s.caches, s.metrics = newRedisStore(cfg.Redis), aggregate.New(cfg.DB, cfg.Caches), newMetrics(cfg.Metrics)
	s.projection = projection.New(projection.Config[change, derivedState]{
		Redis: cfg.Redis, DB: cfg.DB, Applied: appliedKey.At(), Node: cfg.Node, Log: cfg.Log,
		Changed: s.sql.changedSince, State: s.compute, Write: s.write, Late: s.publishMissed, Metrics: cfg.Metrics, Name: "chats",
	})
	cfg.Bus.DelayEpochsWhile(s.projection.Behind)
	copies := cfg.Cache
	// A change continues without Redis. If only this node has lost Redis, another node may use the old settings until
	// the outbox has delivered the invalidation.
	copies.Unfenced = cache.Proceed
	s.settings = cache.New(cfg.Caches, settingsKeys, copies, cache.Source[accounts.ID, settings]{
		Load: func(ctx context.Context, user accounts.ID) (settings, error) {
			found, err := s.sql.settings(ctx, []accounts.ID{user})
			return found[user], err
		},
		LoadMany: s.sql.settings,
	})
	cache.Drops(cfg.Caches, SettingsChanged, s.settings)
	s.messages, s.movedMarks, s.loader = newCommitter(s), newMarker(s), newLoader(s)
	s.locks = sqldb.NewLocks(s.sql.lockWithViews, s.sql.lockFree)
	cfg.Files.Serve(s)
	cfg.Groups.Follow(s)
	return s
}

// Run commits messages and marks, loads lists of chats and keeps Redis complete until ctx ends. Then it finishes
// the submitted work.
func (s *Service) Run(ctx context.Context, ready func()) error {
	// The projection runs longer than the committers, to settle their last batches.
	settle, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var settling, committing sync.WaitGroup
	settling.Go(func() { _ = s.projection.Run(settle, ready) })
	settling.Go(func() { s.publishProgress(settle) })
	committing.Go(func() { _ = s.movedMarks.Run(ctx) })
	committing.Go(func() { _ = s.messages.Run(ctx) })
	committing.Go(func() { _ = s.loader.Run(ctx) })
	committing.Wait()
	stop()
	settling.Wait()
	return nil
}

// Degraded returns the reason why reads use SQL; it is empty if Redis is complete.
func (s *Service) Degraded() string { return s.projection.Degraded() }

// maxPairs is the largest number of pairs whose conversation is cached.
const maxPairs = 1 << 16

// pairs caches the conversation of two users, which never changes.
type pairs struct {
	mu     sync.Mutex
	byPair map[pair]ConversationID
}

func (p *pairs) get(key pair) (ConversationID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, ok := p.byPair[key]
	return id, ok
}

func (p *pairs) add(key pair, id ConversationID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byPair == nil || len(p.byPair) >= maxPairs {
		p.byPair = map[pair]ConversationID{}
	}
	p.byPair[key] = id
}

// between returns the conversation of two users, and creates it if there is none.
func (s *Service) between(ctx context.Context, a, b accounts.ID) (ConversationID, error) {
	key := pairOf(a, b)
	if id, ok := s.pairs.get(key); ok {
		return id, nil
	}
	found, err := s.sql.findPairs(ctx, s.sql.db, []pair{key}, "")
	if err == nil && len(found) == 0 {
		found, err = s.sql.createPairs(ctx, []pair{key})
	}
	if err != nil {
		return ConversationID{}, err
	}
	s.pairs.add(key, found[key])
	return found[key], nil
}

// Send stores a message to another user or a group and returns it after its commit. duplicate reports that it was
// stored already. It returns ErrMessage if the message to forward does not exist, and ErrReused if the client id
// belongs to other content. The other errors are ErrSelf, ErrClientID, ErrContent, ErrReply, ErrRefused, ErrYouBlock,
// ErrChat, ErrFile, groups.ErrMuted, groups.ErrAllMuted, groups.ErrMay, accounts.ErrNoUser, webhooks.ErrRefused,
// webhooks.ErrUnavailable and ErrStore.
func (s *Service) Send(ctx context.Context, from accounts.ID, to ChatRef, in api.Send) (_ api.Sent, duplicate bool, err error) {
	defer errs.Wrap(&err, "messaging.Send %s", from)
	return s.send(ctx, from, to, in, false)
}

// Post is [Service.Send] for the backend. It ignores the receiver's policy, and a mute of the sender in a group. A
// block between the two users still refuses the message. After-hooks receive the message, before-hooks do not. A system
// message has only a text. It names from as its sender.
func (s *Service) Post(ctx context.Context, from accounts.ID, to ChatRef, in api.Send) (_ api.Sent, duplicate bool, err error) {
	defer errs.Wrap(&err, "messaging.Post %s", from)
	return s.send(ctx, from, to, in, true)
}

func (s *Service) send(ctx context.Context, from accounts.ID, to ChatRef, in api.Send,
	trusted bool) (_ api.Sent, duplicate bool, err error) {
	if from == to.peer {
		return api.Sent{}, false, ErrSelf
	}
	if !clientIDs.MatchString(in.ClientID) {
		return api.Sent{}, false, ErrClientID
	}
	hash, err := hashOf(in)
	if err != nil {
		return api.Sent{}, false, err
	}
	req := sending{from: from, to: to, clientID: in.ClientID, hash: hash, body: messageBody{Content: in.Content}, reply: in.ReplyTo,
		since: s.sql.db.Now(), trusted: trusted}
	if !to.direct() {
		req.conv = conversationOf(to.group)
	}
	if in.Forward != nil {
		var refused error
		if req.body, req.source, refused = s.forwarded(ctx, from, *in.Forward); refused != nil {
			sent, err := s.storedResponse(ctx, req, refused)
			return sent, err == nil, asKind(ctx, err)
		}
	} else if req.body.Content, err = checkSent(in.Content, trusted); err != nil {
		return api.Sent{}, false, err
	}
	if to.direct() && slices.Contains(req.body.Mentions, api.MentionAll) {
		return api.Sent{}, false, ErrContent.On("body.mentions", "can have all only in a group")
	}
	if to.direct() {
		if refused := s.mayWrite(ctx, from, to.peer, trusted); refused != nil {
			sent, err := s.storedResponse(ctx, req, refused)
			return sent, err == nil, asKind(ctx, err)
		}
	}
	if !trusted {
		if refused := s.askSend(ctx, &req); refused != nil {
			sent, err := s.storedResponse(ctx, req, refused)
			return sent, err == nil, asKind(ctx, err)
		}
	}
	if to.direct() {
		if req.conv, err = s.between(ctx, from, to.peer); err != nil {
			return api.Sent{}, false, asKind(ctx, err)
		}
	}
	s.projection.Begin(req.since)
	got, err := s.messages.Do(ctx, req)
	s.settleUnaccepted(req.since, err)
	if err = asKind(ctx, err); err == nil {
		err = got.refusal
	}
	if err != nil {
		return api.Sent{}, false, err
	}
	return got.response(to), got.duplicate, nil
}

// askSend asks the backend for a verdict on a message that the rules allow. The verdict may change its content. Its
// errors are ErrChat, groups.ErrMuted, groups.ErrAllMuted, groups.ErrMay, webhooks.ErrRefused and
// webhooks.ErrUnavailable.
func (s *Service) askSend(ctx context.Context, req *sending) error {
	if !s.hooks.HasBefore(api.BeforeMessage) {
		return nil
	}
	refused, err := refusals(ctx, s.sql.db, []sending{*req})
	if err = cmp.Or(err, refused[req.key()]); err != nil {
		return err
	}
	v, err := s.hooks.Before(ctx, api.BeforeMessage, req.from.String(), api.HookMessage{From: req.from.String(), Chat: req.to.String(),
		Content: req.body.Content, ReplyTo: req.reply}, func(v api.HookVerdict) error {
		if v.Content == nil {
			return nil
		}
		_, err := checkContent(*v.Content)
		return err
	})
	if err != nil || v.Content == nil {
		return err
	}
	req.body.Content, err = checkContent(*v.Content)
	return err
}

// storedResponse returns the response of an earlier request if the message is now refused, or the message that it
// forwards no longer exists.
func (s *Service) storedResponse(ctx context.Context, req sending, refused error) (api.Sent, error) {
	switch errs.KindOf(refused) {
	case errs.Forbidden, errs.NotFound, errs.Conflict:
	default:
		return api.Sent{}, refused
	}
	if req.to.direct() {
		key := pairOf(req.from, req.to.peer)
		found, err := s.sql.findPairs(ctx, s.sql.db, []pair{key}, "")
		if err != nil || len(found) == 0 {
			return api.Sent{}, cmp.Or(err, refused)
		}
		req.conv = found[key]
	}
	stored, err := s.sql.sentBefore(ctx, s.sql.db, []sending{req})
	m, ok := stored[req.key()]
	if err != nil || !ok || m.hash != req.hash {
		return api.Sent{}, cmp.Or(err, refused)
	}
	return m.response(req.to), nil
}

// response returns the response to the sender of a message.
func (m message) response(to ChatRef) api.Sent {
	return api.Sent{ID: m.id.String(), Chat: to.String(), Seq: m.seq, At: api.At(sqldb.Time(m.at))}
}

// forwarded returns the content of a message that the user can read, with its origin, and its place.
func (s *Service) forwarded(ctx context.Context, user accounts.ID, ref api.MessageRef) (messageBody, *place, error) {
	chat, err := parseChat(ref.Chat)
	if err != nil {
		return messageBody{}, nil, err
	}
	_, m, err := s.messageOf(ctx, user, chat, ref.Seq)
	switch {
	case err != nil:
		return messageBody{}, nil, err
	case m.recalled != 0:
		return messageBody{}, nil, ErrRecalled
	case m.body.Kind == api.MessageSystem:
		return messageBody{}, nil, ErrSystem
	case m.body.Forwarded == nil:
		m.body.Forwarded = &api.Forwarded{From: m.from.String(), At: api.At(sqldb.Time(m.at))}
	}
	m.body.Mentions = nil
	return m.body, &place{m.conv, m.seq}, nil
}

// contactRefusals are the errors of a message between two users.
var contactRefusals = social.Refusals{YouBlock: ErrYouBlock, Refused: ErrRefused}

// mayWrite refuses a message between two users; for a trusted sender only blocks matter.
func (s *Service) mayWrite(ctx context.Context, from, to accounts.ID, trusted bool) error {
	policy := social.Everybody
	if !trusted {
		set, err := s.settings.Get(ctx, to)
		if err != nil {
			return err
		}
		if policy = set.From; policy == social.Unset {
			policy = social.ParsePolicy(s.cfg.MessagesFrom)
		}
	}
	return s.relations.MayContact(ctx, from, to, policy, contactRefusals)
}

// maxChanges is the largest number of changes in one response of [Service.Changes].
const maxChanges = 100

// Changes returns the changes of a chat's messages since a rev. It returns ErrChat or ErrStore.
func (s *Service) Changes(ctx context.Context, user accounts.ID, chat ChatRef, since int64) (_ api.MessageChanges, err error) {
	defer errs.Wrap(&err, "messaging.Changes %s", user)
	v, err := s.stateOf(ctx, user, chat)
	if err != nil {
		return api.MessageChanges{}, err
	}
	found, err := s.sql.changedMessages(ctx, s.sql.db, user, v.id, v.me.cleared, since, maxChanges)
	if err != nil {
		return api.MessageChanges{}, asKind(ctx, err)
	}
	gone, err := s.sql.hiddenSince(ctx, s.sql.db, user, v.id, since, maxChanges)
	if err != nil {
		return api.MessageChanges{}, asKind(ctx, err)
	}
	out := api.MessageChanges{Changed: []api.Message{}, Rev: v.rev}
	if len(found) == maxChanges {
		out.More, out.Rev = true, found[len(found)-1].rev
	}
	if len(gone) == maxChanges {
		out.More, out.Rev = true, min(out.Rev, gone[len(gone)-1].rev)
	}
	for _, h := range gone {
		if h.rev <= out.Rev {
			out.Hidden = append(out.Hidden, h.seq)
		}
	}
	for _, m := range found {
		if m.rev <= out.Rev {
			out.Changed = append(out.Changed, m.wire(user, chat.String()))
		}
	}
	return out, nil
}
