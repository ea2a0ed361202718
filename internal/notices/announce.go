package notices

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/text/language"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/weblink"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// AnnouncementID identifies an announcement.
type AnnouncementID = ids.ID[Announcement]

// State is the progress of an announcement.
type State string

// The states, in their order. The last state is Done or Stopped.
const (
	Waiting State = "waiting"
	Running State = "running"
	Done    State = "done"
	Stopped State = "stopped" // no longer listed
)

// Wording is the text of an announcement in one language.
type Wording struct {
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
}

// Announcement is a message of an operator to users.
type Announcement struct {
	ID        AnnouncementID     `json:"id"`
	Texts     map[string]Wording `json:"texts"` // by BCP 47 tag
	Link      string             `json:"link,omitempty"`
	Segment   accounts.Segment   `json:"segment"`
	Named     bool               `json:"listed"` // the recipients are named users instead of the segment
	Created   time.Time          `json:"created"`
	Expires   time.Time          `json:"expires,omitzero"`
	State     State              `json:"state"`
	Total     int64              `json:"total"`     // number of recipients at its creation
	Passed    int64              `json:"done"`      // number of users that the delivery has passed
	Delivered int64              `json:"delivered"` // number of users who received it
	Started   time.Time          `json:"started,omitzero"`
	Ended     time.Time          `json:"ended,omitzero"`

	lastUser accounts.ID // the last user that the delivery has passed
}

// Draft is a new announcement.
type Draft struct {
	Texts    map[string]Wording // by BCP 47 tag
	Link     string             // an https address or a path of the page; may be empty
	Segment  accounts.Segment
	Users    []accounts.ID // the recipients; nil means the segment
	Lifetime time.Duration // how long it is listed; 0 means as long as other notices
}

// normalise returns d with trimmed texts and unique users, or the error of its first fault.
func (d Draft) normalise() (Draft, error) {
	if len(d.Texts) == 0 {
		return d, ErrText
	}
	texts := make(map[string]Wording, len(d.Texts))
	for tag, w := range d.Texts {
		parsed, err := language.Parse(tag)
		if err != nil {
			return d, ErrText.On("texts", "has a language that is not a BCP 47 tag")
		}
		title, titleOK := words.Line(w.Title, 100)
		text, textOK := words.Text(w.Text, 2000)
		if !titleOK || title == "" || !textOK {
			return d, ErrText
		}
		texts[parsed.String()] = Wording{title, text}
	}
	d.Texts = texts
	if d.Link != "" {
		link, ok := weblink.Local(d.Link)
		if !ok {
			link, ok = weblink.Foreign(d.Link)
		}
		if d.Link = link; !ok || len(d.Link) > 500 {
			return d, ErrLink
		}
	}
	if d.Lifetime != 0 && (d.Lifetime < time.Minute || d.Lifetime > 366*24*time.Hour) {
		return d, ErrLifetime
	}
	if d.Users != nil {
		users := append([]accounts.ID{}, d.Users...) // never nil, because nil means the segment
		slices.SortFunc(users, accounts.ID.Compare)
		d.Users = slices.Compact(users)
	}
	return d, nil
}

// textFor returns the text in the best of languages, which are sorted by preference and may be an Accept-Language
// header. If none of them is available, it returns the English text, or else that of the first tag.
func (a Announcement) textFor(languages ...string) (tag string, w Wording) {
	available := slices.Sorted(maps.Keys(a.Texts))
	if index := slices.Index(available, "en"); index > 0 { // the matcher falls back to the first tag
		available[0], available[index] = available[index], available[0]
	}
	tags := make([]language.Tag, len(available))
	for i, t := range available {
		tags[i] = language.Make(t)
	}
	_, index := language.MatchStrings(language.NewMatcher(tags), languages...)
	return available[index], a.Texts[available[index]]
}

// document returns the data of the announcement's notices, in the best of languages.
func (a Announcement) document(languages ...string) (json.RawMessage, error) {
	_, w := a.textFor(languages...)
	return json.Marshal(api.Announcement{V: 1, ID: a.ID.String(), Title: w.Title, Text: w.Text, Link: a.Link})
}

// Admin manages announcements for operators. It uses SQL only.
type Admin struct{ db *sqldb.DB }

// NewAdmin returns the Admin of a database.
func NewAdmin(db *sqldb.DB) Admin { return Admin{db} }

// CountRecipients returns the number of recipients of an announcement.
func (r Admin) CountRecipients(ctx context.Context, d Draft) (n int64, err error) {
	defer errs.Wrap(&err, "notices.CountRecipients")
	if d, err = d.normalise(); err != nil {
		return 0, err
	}
	if d.Users == nil {
		n, err = d.Segment.Count(ctx, r.db)
		return n, asKind(err)
	}
	for chunk := range slices.Chunk(d.Users, batchSize) {
		found, err := accounts.ReadersOf(ctx, r.db, chunk)
		if err != nil {
			return 0, asKind(err)
		}
		n += int64(len(found))
	}
	return n, nil
}

// Announce stores an announcement. A worker delivers it. It returns ErrNoRecipients if no user
// matches the segment or none of the named users exists. It also returns ErrText, ErrLink or ErrLifetime.
func (r Admin) Announce(ctx context.Context, d Draft) (a Announcement, err error) {
	defer errs.Wrap(&err, "notices.Announce")
	total, err := r.CountRecipients(ctx, d)
	if err == nil && total == 0 {
		err = ErrNoRecipients
	}
	if err != nil {
		return a, err
	}
	if d, err = d.normalise(); err != nil {
		return a, err
	}
	err = inTx(ctx, r.db, func(ctx context.Context, tx *sqldb.Tx) error {
		a = Announcement{ID: ids.New[Announcement](), Texts: d.Texts, Link: d.Link, Segment: d.Segment, Named: d.Users != nil, Created: tx.Now(),
			State: Waiting, Total: total}
		if d.Lifetime != 0 {
			a.Expires = a.Created.Add(d.Lifetime)
		}
		if err := insertAnnouncement(ctx, tx, a); err != nil {
			return err
		}
		return insertNamed(ctx, tx, a.ID, d.Users)
	})
	return a, asKind(err)
}

// Announcements returns the last n announcements, newest first.
func (r Admin) Announcements(ctx context.Context, n int) (_ []Announcement, err error) {
	defer errs.Wrap(&err, "notices.Announcements")
	list, err := latestAnnouncements(ctx, r.db, n)
	return list, asKind(err)
}

// Announcement returns an announcement, or ErrAnnouncement.
func (r Admin) Announcement(ctx context.Context, id AnnouncementID) (_ Announcement, err error) {
	defer errs.Wrap(&err, "notices.Announcement %s", id)
	a, err := selectAnnouncement(ctx, r.db, id, "")
	return a, asKind(err)
}

// Stop removes an announcement from all lists, and ends its delivery.
func (r Admin) Stop(ctx context.Context, id AnnouncementID) (a Announcement, err error) {
	defer errs.Wrap(&err, "notices.Stop %s", id)
	err = inTx(ctx, r.db, func(ctx context.Context, tx *sqldb.Tx) error {
		if a, err = selectAnnouncement(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil || a.State == Stopped {
			return err
		}
		a.State, a.Ended = Stopped, tx.Now()
		if err := deleteNamed(ctx, tx, id); err != nil {
			return err
		}
		return updateAnnouncement(ctx, tx, a)
	})
	return a, asKind(err)
}

const (
	// sliceSize is the largest number of recipients of one transaction.
	sliceSize = 500
	// maxDeliverTime bounds one run of the delivery job.
	maxDeliverTime = 20 * time.Second
)

// deliver continues the delivery of unfinished announcements.
func (s *Service) deliver(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "notices.deliver")
	for until := s.db.Now().Add(maxDeliverTime); s.db.Now().Before(until); {
		next, err := nextAnnouncement(ctx, s.db)
		if errors.Is(err, ErrAnnouncement) {
			return nil
		}
		if err == nil {
			err = s.deliverSlice(ctx, next)
		}
		if err != nil {
			return asKind(err)
		}
	}
	return nil
}

// deliverSlice delivers an announcement to the next users. It stores the notices and the progress in one transaction
// that locks the announcement.
func (s *Service) deliverSlice(ctx context.Context, id AnnouncementID) error {
	return inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		a, err := selectAnnouncement(ctx, tx, id, tx.Dialect().ForUpdate())
		if err != nil || a.State != Waiting && a.State != Running { // another node has finished it, or an operator has stopped it
			return err
		}
		if a.State == Waiting {
			a.State, a.Started = Running, tx.Now()
		}
		readers, passed, last, err := a.nextRecipients(ctx, tx, sliceSize)
		if err != nil {
			return err
		}
		expired := !a.Expires.IsZero() && !tx.Now().Before(a.Expires)
		if passed < sliceSize || expired {
			a.State, a.Ended = Done, tx.Now()
		}
		if passed > 0 && !expired {
			added, err := s.storeNotices(ctx, tx, a, readers)
			if err != nil {
				return err
			}
			a.lastUser, a.Passed, a.Delivered = last, a.Passed+int64(passed), a.Delivered+int64(len(added))
		}
		if a.Named && a.State == Done {
			if err := deleteNamed(ctx, tx, a.ID); err != nil {
				return err
			}
		}
		return updateAnnouncement(ctx, tx, a)
	})
}

// storeNotices stores the notices of an announcement for readers, and returns the new ones.
func (s *Service) storeNotices(ctx context.Context, tx *sqldb.Tx, a Announcement, readers []accounts.Reader) ([]Notice, error) {
	list := make([]Entry, len(readers))
	documents, languages := map[i18n.Language]json.RawMessage{}, make(map[accounts.ID]i18n.Language, len(readers))
	for i, r := range readers {
		list[i] = Entry{User: r.User, Kind: api.NoticeAnnouncement, Source: "announcement:" + a.ID.String(), Data: struct{}{}, Expires: a.Expires,
			subject: subjectOf(a.ID)}
		languages[r.User] = r.Language
		if documents[r.Language] == nil {
			var err error
			if documents[r.Language], err = a.document(string(r.Language)); err != nil {
				return nil, err
			}
		}
	}
	added, err := insert(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	for i := range added {
		added[i].Data = documents[languages[added[i].User]]
	}
	return added, s.publishStored(ctx, tx, added)
}

// nextRecipients returns the next recipients, up to n. passed counts all users that this step covers, also named users
// without an account. last is the last of these users.
func (a Announcement) nextRecipients(ctx context.Context, tx *sqldb.Tx,
	n int) (readers []accounts.Reader, passed int, last accounts.ID, err error) {
	if a.Named {
		named, err := selectNamedAfter(ctx, tx, a.ID, a.lastUser, n)
		if err != nil || len(named) == 0 {
			return nil, 0, last, err
		}
		readers, err := accounts.ReadersOf(ctx, tx, named)
		return readers, len(named), named[len(named)-1], err
	}
	segment := a.Segment
	if segment.RegisteredBefore.IsZero() || segment.RegisteredBefore.After(a.Created) {
		segment.RegisteredBefore = a.Created // the total does not count users who register during the delivery
	}
	readers, err = segment.Readers(ctx, tx, a.lastUser, n)
	if len(readers) > 0 {
		last = readers[len(readers)-1].User
	}
	return readers, len(readers), last, err
}
