package transfers

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/fairqueue"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
	"github.com/stoa-dev/stoa/lib/redis"
)

// Messages decides which users see the files of messages; *messaging.Service implements it.
type Messages interface {
	// MayLink reports whether a message that the user sees gives the user the file. A message between two users does
	// not if one blocks the other.
	MayLink(ctx context.Context, user accounts.ID, file ID) (bool, error)
}

// Config has the dependencies and settings of a Service.
type Config struct {
	DB        *sqldb.DB
	Redis     *redis.DB
	Bus       *events.Bus // publishes events after the commit
	People    *accounts.Service
	Relations *social.Service
	Secret    []byte // the server's secret, which signs links
	Previous  []byte // another secret whose links are accepted, while the secret is rotated; nil: none
	Data      string // the data folder
	OpenLater bool   // the storage's folder is created at its first use, and may be missing before
	Metrics   prometheus.Registerer
	Studio    *picture.Studio // makes thumbnails; nil: a new one
	Log       *slog.Logger

	// MaySubscribe returns an error of the kind errs.NotFound if a viewer is not in the room of the channel.
	MaySubscribe func(ctx context.Context, viewer, channel string) error

	// Storage replaces the storage of the settings, unless it is nil.
	Storage storage.Storage

	Settings
}

// Service implements transfers. It is safe for concurrent use.
type Service struct {
	sql       *sqlStore
	redis     redisStore
	storage   storage.Storage
	chunk     int64 // [Chunk], except in tests
	bus       *events.Bus
	people    *accounts.Service
	relations *social.Service
	scanner   scanner  // nil: files are not scanned
	messages  Messages // nil: no message has a file
	places    places
	studio    *picture.Studio
	decoding  *fairqueue.Queue // of files in memory for decoding, in bytes
	waited    Transfer         // the last file that the finishing job has read; zero: it begins at the front
	unbegun   []Transfer       // files that this job has read and not started
	nextTries map[ID]nextTry   // files that it could not finish
	releasing sync.WaitGroup   // removals of files that messages released or that were cancelled
	signer    signer
	previous  signer // nil: none
	inRoom    func(ctx context.Context, viewer, channel string) error
	cfg       Settings
	log       *slog.Logger
	limiter   progressLimiter
	metrics   *metrics
}

// New returns a Service. The caller must close it.
func New(cfg Config) (_ *Service, err error) {
	defer errs.Wrap(&err, "transfers.New")
	config.Defaults(&cfg.Settings)
	s := &Service{sql: &sqlStore{cfg.DB}, redis: redisStore{cfg.Redis, 2 * Chunk}, chunk: Chunk, storage: cfg.Storage, bus: cfg.Bus,
		people: cfg.People, relations: cfg.Relations,
		signer: cfg.Secret, previous: cfg.Previous, inRoom: cfg.MaySubscribe, cfg: cfg.Settings, log: cfg.Log,
		limiter: progressLimiter{at: map[ID]time.Time{}}, nextTries: map[ID]nextTry{},
		places: places{most: cfg.Open, byUser: map[accounts.ID][]*placed{}}, metrics: newMetrics(cfg.Metrics),
		studio: cfg.Studio, decoding: newDecoding()}
	s.scanner = newScanner(cfg.Scan)
	if s.studio == nil {
		s.studio = picture.New(0)
	}
	if s.storage == nil {
		open := storage.Open
		if cfg.OpenLater {
			open = storage.OpenLater
		}
		s.storage, err = open(cfg.Settings.Storage, filepath.Join(cfg.Data, "files"))
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Serve sets the package that decides which users see the files of messages. It must be called before the first
// download.
func (s *Service) Serve(m Messages) { s.messages = m }

// Close closes the storage. It waits for running removals of files.
func (s *Service) Close() error {
	s.releasing.Wait()
	return s.storage.Close()
}

// Offer is a file that a user wants to send to another user, or to use in messages.
type Offer struct {
	// ID is the same for each retry of a request: the transfer of an earlier try is then returned as it is now. Zero: a
	// new id.
	ID     ID
	To     accounts.ID // zero: for messages
	Name   string
	Media  string
	Size   int64
	SHA256 string // "" if the sender does not know it
}

// Offer offers a file, or begins an upload for messages. It returns ErrSelf, ErrName, ErrSize, ErrSum, ErrRefused,
// ErrYouBlock, ErrQuota, ErrOpen or accounts.ErrNoUser. It returns ErrUnknown if another user's transfer has the id.
func (s *Service) Offer(ctx context.Context, from accounts.ID, o Offer) (Transfer, error) {
	return s.offer(ctx, from, o, s.cfg)
}

// offer is Offer with these limits for open transfers and for a day.
func (s *Service) offer(ctx context.Context, from accounts.ID, o Offer, limits Settings) (_ Transfer, err error) {
	defer errs.Wrap(&err, "transfers.Offer %s", from)
	if o.ID.IsZero() {
		o.ID = ids.New[Transfer]()
	}
	t := Transfer{ID: o.ID, From: from, To: o.To, Media: cleanMedia(o.Media), Size: o.Size, SHA256: o.SHA256}
	if t.Name, err = cleanName(o.Name); err != nil {
		return Transfer{}, err
	}
	switch {
	case from == o.To:
		return Transfer{}, ErrSelf
	case o.Size < 1 || o.Size > s.cfg.MaxSize:
		return Transfer{}, ErrSize
	case o.SHA256 != "" && !validSum(o.SHA256):
		return Transfer{}, ErrSum
	}
	if o.To.IsZero() {
		t.Status = Transferring
	} else if err := s.relations.MayContact(ctx, from, o.To, social.ParsePolicy(s.cfg.From), contactRefusals); err != nil {
		return Transfer{}, err
	}
	made, err := s.sql.insert(ctx, &t, limits)
	if err != nil {
		return Transfer{}, asKind(err)
	}
	if !made {
		s.publishChange(ctx, &t)
	}
	return t, nil
}

// contactRefusals are the errors of a file between two users.
var contactRefusals = social.Refusals{YouBlock: ErrYouBlock, Refused: ErrRefused}

// Get returns a transfer of a user, with its received bytes. It returns ErrUnknown.
func (s *Service) Get(ctx context.Context, user accounts.ID, id ID) (t Transfer, received int64, err error) {
	defer errs.Wrap(&err, "transfers.Get %s", id)
	if t, err = s.mine(ctx, user, id); err != nil {
		return Transfer{}, 0, err
	}
	return t, s.redis.received(ctx, &t), nil
}

// mine returns a transfer of a user. It returns ErrUnknown, also for a transfer of other users.
func (s *Service) mine(ctx context.Context, user accounts.ID, id ID) (Transfer, error) {
	t, err := s.sql.get(ctx, id)
	if err == nil && !t.has(user) {
		err = ErrUnknown
	}
	return t, asKind(err)
}

// transfersPerPage is the number of transfers in a page of a list.
const transfersPerPage = 50

// List returns a user's transfers, newest first, and the cursor of the next page. It returns ErrCursor.
func (s *Service) List(ctx context.Context, user accounts.ID, after string) (_ []Transfer, next string, err error) {
	defer errs.Wrap(&err, "transfers.List %s", user)
	at, id := []int64{1 << 62}, ""
	if after != "" {
		var ok bool
		if at, id, ok = cursor.Parse(after, 1); !ok {
			return nil, "", ErrCursor
		}
	}
	all, err := s.sql.list(ctx, user, at[0], id, transfersPerPage+1)
	if err != nil {
		return nil, "", asKind(err)
	}
	if len(all) > transfersPerPage {
		all = all[:transfersPerPage]
		last := all[transfersPerPage-1]
		next = cursor.Of(last.ID.String(), last.Created.UnixMilli())
	}
	return all, next, nil
}

// Accept accepts an offered file, so that the sender can upload it. A second call changes nothing. It returns
// ErrUnknown, ErrNotYours, ErrEnded, ErrRefused or ErrYouBlock.
func (s *Service) Accept(ctx context.Context, user accounts.ID, id ID) (_ Transfer, err error) {
	defer errs.Wrap(&err, "transfers.Accept %s", id)
	t, err := s.mine(ctx, user, id)
	if err != nil {
		return Transfer{}, err
	}
	if err := s.relations.NotApart(ctx, user, t.From, contactRefusals); err != nil {
		return Transfer{}, err
	}
	return s.change(ctx, user, id, func(t *Transfer, now time.Time) error {
		switch {
		case user != t.To:
			return ErrNotYours
		case t.Status == Transferring:
			return errSame
		case t.Status != Pending || !t.Expires.After(now):
			return ErrEnded
		}
		t.Status, t.Expires = Transferring, now.Add(s.cfg.IdleFor)
		return nil
	})
}

// Reject rejects an offered file. A second call changes nothing. It returns ErrUnknown, ErrNotYours or ErrEnded.
func (s *Service) Reject(ctx context.Context, user accounts.ID, id ID) (_ Transfer, err error) {
	defer errs.Wrap(&err, "transfers.Reject %s", id)
	return s.change(ctx, user, id, func(t *Transfer, now time.Time) error {
		switch {
		case user != t.To:
			return ErrNotYours
		case t.Status == Rejected:
			return errSame
		case t.Status != Pending:
			return ErrEnded
		}
		t.end(Rejected, "", now, historyFor)
		return nil
	})
}

// Cancel ends an unfinished transfer, and deletes the file of a finished one, even of a complete upload. Both sides may
// call it; a second call changes nothing. It returns ErrKept if messages have the file, or ErrUnknown.
func (s *Service) Cancel(ctx context.Context, user accounts.ID, id ID) (_ Transfer, err error) {
	defer errs.Wrap(&err, "transfers.Cancel %s", id)
	t, gone, err := s.decided(ctx, user, id, func(t *Transfer, now time.Time) error {
		switch {
		case t.isPermanent():
			return ErrKept
		case !t.Status.final():
			t.end(Failed, reasonCancelled, now, historyFor)
		case t.Content:
			t.Content, t.Expires = false, now.Add(historyFor)
		default:
			return errSame
		}
		return nil
	})
	if errors.Is(err, errSame) {
		return t, nil
	}
	if err != nil {
		return Transfer{}, err
	}
	s.ended(ctx, &t, nil)
	removed := make(chan struct{})
	s.releasing.Go(func() {
		defer close(removed)
		s.remove(ctx, gone)
	})
	select {
	case <-removed:
	case <-time.After(cancelWait):
	}
	return t, nil
}

// cancelWait bounds the caller's wait for the deletion of the bytes. The deletion continues in the background if the
// storage is slow or unavailable.
const cancelWait = 2 * time.Second

// errSame reports that a transfer already has the requested state.
var errSame = errors.New("transfers: no change")

// change lets decide update a transfer of a user, publishes the result to both sides, and deletes content that no
// longer counts.
func (s *Service) change(ctx context.Context, user accounts.ID, id ID, decide func(t *Transfer, now time.Time) error) (Transfer, error) {
	t, gone, err := s.decided(ctx, user, id, decide)
	if errors.Is(err, errSame) {
		return t, nil
	}
	if err != nil {
		return Transfer{}, err
	}
	s.ended(ctx, &t, gone)
	return t, nil
}

// decided is the SQL part of change. It returns the parts that no longer count. It returns errSame if nothing changes.
func (s *Service) decided(ctx context.Context, user accounts.ID, id ID,
	decide func(t *Transfer, now time.Time) error) (_ Transfer, gone []string, err error) {
	t, gone, err := s.sql.change(ctx, id, func(t *Transfer, now time.Time) error {
		if !t.has(user) {
			return ErrUnknown
		}
		return decide(t, now)
	})
	return t, gone, asKind(err)
}

// ended publishes a committed change, and deletes parts that no longer count.
func (s *Service) ended(ctx context.Context, t *Transfer, gone []string) {
	s.publishChange(ctx, t)
	s.remove(ctx, gone)
	if t.Status.final() {
		s.metrics.ended.WithLabelValues(t.Status.String()).Inc()
	}
}

// removeTime bounds the deletion of a large file's parts.
const removeTime = time.Minute

// remove deletes parts without rows. If it fails, the sweep deletes them.
func (s *Service) remove(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	if err := s.storage.Remove(ctx, names...); err != nil {
		s.log.Warn("transfers: parts not deleted, left to the sweep", "parts", len(names), "err", err)
	}
}

// Link returns a link to a file with its expiry. It returns ErrUnknown, ErrNotDone or ErrGone.
func (s *Service) Link(ctx context.Context, user accounts.ID, id ID) (_ api.FileLink, err error) {
	defer errs.Wrap(&err, "transfers.Link %s", id)
	t, err := s.sql.get(ctx, id)
	if err == nil {
		err = s.mayHave(ctx, user, &t)
	}
	switch {
	case err != nil:
		return api.FileLink{}, asKind(err)
	case !t.Status.final():
		return api.FileLink{}, ErrNotDone
	case t.Status != Done || !t.Content:
		return api.FileLink{}, ErrGone
	}
	return s.linkTo(&t, whole, user), nil
}

// filePath is the prefix of a link's path.
const filePath = "/v1/files/"

func (s *Service) linkTo(t *Transfer, v variant, user accounts.ID) api.FileLink {
	until := s.sql.db.Now().Add(s.cfg.LinkFor)
	if t.Expires.Before(until) {
		until = t.Expires
	}
	until = until.Truncate(time.Second)
	return api.FileLink{URL: filePath + s.signer.link(claim{id: t.ID, variant: v, user: user, until: until}), Expires: api.At(until)}
}

// RoomFile is [Service.Link] for callers with the id as text.
func (s *Service) RoomFile(ctx context.Context, user accounts.ID, file string) (url string, until time.Time, err error) {
	id, err := ids.Parse[Transfer](file)
	if err != nil {
		return "", time.Time{}, ErrUnknown
	}
	l, err := s.Link(ctx, user, id)
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrYouBlock) {
		err = ErrUnknown
	}
	return l.URL, l.Expires.Time, err
}

// ForViewer returns the URL of [Service.RoomFile] for a viewer in a room. It ends when the viewer leaves the room. It
// returns ErrLink.
func (s *Service) ForViewer(url, room, viewer string) (string, error) {
	c, ok := s.check(strings.TrimPrefix(url, filePath))
	if !ok {
		return "", ErrLink
	}
	c.room, c.viewer = room, viewer
	return filePath + s.signer.link(c), nil
}

// mayHave returns an error if a user may not have a file. The user may be its sender. For a file of messages, the
// messages decide. It refuses banned users, and receivers if one of the two blocks the other. It runs when a link is
// created and when it is used. It returns ErrUnknown, ErrRefused or ErrYouBlock.
func (s *Service) mayHave(ctx context.Context, user accounts.ID, t *Transfer) error {
	may := t.has(user)
	if t.isPermanent() {
		var err error
		if may, err = s.messages.MayLink(ctx, user, t.ID); err != nil {
			return err
		}
	}
	profiles, err := s.people.Profiles(ctx, []accounts.ID{user})
	if err != nil {
		return err
	}
	if p, ok := profiles[user]; !may || !ok || p.Deleted {
		return ErrUnknown
	}
	if user != t.To {
		return nil
	}
	return s.relations.NotApart(ctx, user, t.From, contactRefusals)
}

// Served is the content of a link.
type Served struct {
	Name    string
	Type    string // "" for octets
	Inline  bool   // may be shown, because the server encoded it
	Tag     string // changes with the content
	Changed time.Time
	Content *content // the caller must close it
}

// Fetch returns the content of a link, if its user may still have it. It returns ErrLink or ErrGone.
func (s *Service) Fetch(ctx context.Context, link string) (_ Served, err error) {
	defer errs.Wrap(&err, "transfers.Fetch")
	c, ok := s.check(link)
	if !ok || !c.until.After(s.sql.db.Now()) {
		return Served{}, ErrLink
	}
	asking, cancel := context.WithTimeout(ctx, sqlTime)
	defer cancel()
	t, err := s.sql.get(asking, c.id)
	if err == nil {
		err = s.mayHave(asking, c.user, &t)
	}
	if err == nil && c.room != "" {
		err = s.inRoom(asking, c.viewer, api.RoomChannel(c.room))
	}
	switch {
	case errs.KindOf(err) == errs.NotFound:
		return Served{}, ErrGone
	case errors.Is(err, ErrRefused), errors.Is(err, ErrYouBlock):
		return Served{}, ErrGone
	case err != nil:
		return Served{}, asKind(err)
	case t.Status != Done || !t.Content || !t.Expires.After(s.sql.db.Now()):
		return Served{}, ErrGone
	}
	out := Served{Name: t.Name, Tag: t.SHA256, Changed: t.Updated}
	if t.forMessages() {
		descriptions, err := s.sql.descriptions(asking, s.sql.db, []ID{c.id})
		if err != nil {
			return Served{}, asKind(err)
		}
		l := descriptions[c.id]
		if c.variant != whole {
			thumb, err := l.thumbnail(c.variant)
			if err != nil {
				return Served{}, ErrGone
			}
			out.Type, out.Inline, out.Tag = thumb.Type, true, out.Tag+"-"+strconv.Itoa(thumb.Side)
			out.Content, err = newContent(ctx, s.storage, []part{thumb.part}, thumb.size)
			return out, err
		}
		if strings.HasPrefix(l.Type, "audio/") {
			out.Type = l.Type
		}
	}
	out.Content, err = s.read(ctx, &t)
	return out, err
}

// read returns the content of a completely stored transfer.
func (s *Service) read(ctx context.Context, t *Transfer) (*content, error) {
	asking, cancel := context.WithTimeout(ctx, sqlTime)
	defer cancel()
	parts, err := s.sql.parts(asking, s.sql.db, t.ID)
	if err != nil {
		return nil, asKind(err)
	}
	if len(parts) == 0 {
		return nil, ErrGone // it ended a moment ago
	}
	return newContent(ctx, s.storage, parts, t.Size)
}
