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

// AnnouncementID names an announcement.
type AnnouncementID = ids.ID[Announcement]

// State is how far an announcement has come.
type State string

// The states, in their order; Stopped takes the place of Done.
const (
	Waiting State = "waiting"
	Running State = "running"
	Done    State = "done"
	Stopped State = "stopped" // nobody sees it any more
)

// Wording is what an announcement says in one language.
type Wording struct {
	Title string `json:"title"`
	Text  string `json:"text,omitempty"`
}

// Announcement is what an operator tells users.
type Announcement struct {
	ID        AnnouncementID     `json:"id"`
	Texts     map[string]Wording `json:"texts"` // by BCP 47 tag
	Link      string             `json:"link,omitempty"`
	Segment   accounts.Segment   `json:"segment"`
	Listed    bool               `json:"listed"` // it goes to users who were named one by one, in place of the segment
	Created   time.Time          `json:"created"`
	Expires   time.Time          `json:"expires,omitzero"`
	State     State              `json:"state"`
	Total     int64              `json:"total"`     // users of the segment when it was made
	Done      int64              `json:"done"`      // users whom the walk has passed
	Delivered int64              `json:"delivered"` // users who got it
	Started   time.Time          `json:"started,omitzero"`
	Ended     time.Time          `json:"ended,omitzero"`

	place accounts.ID // the last user whom the walk has passed
}

// Draft is an announcement that is to be made.
type Draft struct {
	Texts   map[string]Wording // by BCP 47 tag
	Link    string             // an https address, or a path of the page; empty: none
	Segment accounts.Segment
	Users   []accounts.ID // whom it goes to in place of the segment; nil: to the segment
	Life    time.Duration // how long it is listed; 0: as long as notices are
}

// clean returns d with its texts trimmed and each user once. ErrText, ErrLink, ErrLife.
func (d Draft) clean() (Draft, error) {
	if len(d.Texts) == 0 {
		return d, ErrText
	}
	said := make(map[string]Wording, len(d.Texts))
	for tag, w := range d.Texts {
		known, err := language.Parse(tag)
		if err != nil {
			return d, ErrText.On("texts", "has a language that is no BCP 47 tag")
		}
		title, ok := words.Line(w.Title, 100)
		text, fine := words.Text(w.Text, 2000)
		if !ok || title == "" || !fine {
			return d, ErrText
		}
		said[known.String()] = Wording{title, text}
	}
	d.Texts = said
	if d.Link != "" {
		link, ok := weblink.Local(d.Link)
		if !ok {
			link, ok = weblink.Foreign(d.Link)
		}
		if d.Link = link; !ok || len(d.Link) > 500 {
			return d, ErrLink
		}
	}
	if d.Life != 0 && (d.Life < time.Minute || d.Life > 366*24*time.Hour) {
		return d, ErrLife
	}
	if d.Users != nil {
		users := append([]accounts.ID{}, d.Users...) // never nil, which would be everybody
		slices.SortFunc(users, accounts.ID.Compare)
		d.Users = slices.Compact(users)
	}
	return d, nil
}

// said is what the announcement says to somebody who reads these languages, the best first, which
// may be an Accept-Language header; English, else the first language there is, to somebody who reads none of them.
func (a Announcement) said(languages ...string) (tag string, w Wording) {
	there := slices.Sorted(maps.Keys(a.Texts))
	if at := slices.Index(there, "en"); at > 0 { // the first is what the rest gets
		there[0], there[at] = there[at], there[0]
	}
	tags := make([]language.Tag, len(there))
	for i, t := range there {
		tags[i] = language.Make(t)
	}
	_, at := language.MatchStrings(language.NewMatcher(tags), languages...)
	return there[at], a.Texts[there[at]]
}

// document is the data of a notice of it.
func (a Announcement) document(languages ...string) (json.RawMessage, error) {
	_, w := a.said(languages...)
	return json.Marshal(api.Announcement{V: 1, ID: a.ID.String(), Title: w.Title, Text: w.Text, Link: a.Link})
}

// Admin is what operators do about announcements, on SQL alone.
type Admin struct{ db *sqldb.DB }

// NewAdmin returns the Admin of a database.
func NewAdmin(db *sqldb.DB) Admin { return Admin{db} }

// Reach returns to how many users an announcement would go. ErrText, ErrLink, ErrLife.
func (r Admin) Reach(ctx context.Context, d Draft) (n int64, err error) {
	defer errs.Wrap(&err, "notices.Reach")
	if d, err = d.clean(); err != nil {
		return 0, err
	}
	if d.Users == nil {
		n, err = d.Segment.Count(ctx, r.db)
		return n, asKind(err)
	}
	for some := range slices.Chunk(d.Users, atOnce) {
		found, err := accounts.ReadersOf(ctx, r.db, some)
		if err != nil {
			return 0, asKind(err)
		}
		n += int64(len(found))
	}
	return n, nil
}

// Announce has a server deliver an announcement. ErrText, ErrLink, ErrLife, ErrNobody.
func (r Admin) Announce(ctx context.Context, d Draft) (a Announcement, err error) {
	defer errs.Wrap(&err, "notices.Announce")
	total, err := r.Reach(ctx, d)
	if err == nil && total == 0 {
		err = ErrNobody
	}
	if err != nil {
		return a, err
	}
	if d, err = d.clean(); err != nil {
		return a, err
	}
	err = inTx(ctx, r.db, func(ctx context.Context, tx *sqldb.Tx) error {
		a = Announcement{ID: ids.New[Announcement](), Texts: d.Texts, Link: d.Link, Segment: d.Segment, Listed: d.Users != nil, Created: tx.Now(), State: Waiting, Total: total}
		if d.Life != 0 {
			a.Expires = a.Created.Add(d.Life)
		}
		if err := insertAnnouncement(ctx, tx, a); err != nil {
			return err
		}
		return insertListed(ctx, tx, a.ID, d.Users)
	})
	return a, asKind(err)
}

// Announcements returns the last n announcements, newest first.
func (r Admin) Announcements(ctx context.Context, n int) (_ []Announcement, err error) {
	defer errs.Wrap(&err, "notices.Announcements")
	list, err := latestAnnouncements(ctx, r.db, n)
	return list, asKind(err)
}

// Announcement returns one as it is now. ErrAnnouncement.
func (r Admin) Announcement(ctx context.Context, id AnnouncementID) (_ Announcement, err error) {
	defer errs.Wrap(&err, "notices.Announcement %s", id)
	a, err := selectAnnouncement(ctx, r.db, id, "")
	return a, asKind(err)
}

// Stop takes an announcement out of everybody's list, and ends its delivery. ErrAnnouncement.
func (r Admin) Stop(ctx context.Context, id AnnouncementID) (a Announcement, err error) {
	defer errs.Wrap(&err, "notices.Stop %s", id)
	err = inTx(ctx, r.db, func(ctx context.Context, tx *sqldb.Tx) error {
		if a, err = selectAnnouncement(ctx, tx, id, tx.Dialect().ForUpdate()); err != nil || a.State == Stopped {
			return err
		}
		a.State, a.Ended = Stopped, tx.Now()
		if err := deleteListed(ctx, tx, id); err != nil {
			return err
		}
		return updateAnnouncement(ctx, tx, a)
	})
	return a, asKind(err)
}

const (
	// slice is to how many users an announcement goes in one transaction.
	slice = 500
	// deliverFor is how long a job delivers before another one may.
	deliverFor = 20 * time.Second
)

// deliver goes on with announcements that are not done.
func (s *Service) deliver(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "notices.deliver")
	for until := s.db.Now().Add(deliverFor); s.db.Now().Before(until); {
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

// deliverSlice gives an announcement to the next users. What they get, and how far it has come, is one transaction under
// the lock of the announcement.
func (s *Service) deliverSlice(ctx context.Context, id AnnouncementID) error {
	return inTx(ctx, s.db, func(ctx context.Context, tx *sqldb.Tx) error {
		a, err := selectAnnouncement(ctx, tx, id, tx.Dialect().ForUpdate())
		if err != nil || a.State != Waiting && a.State != Running { // another node was quicker, or an operator
			return err
		}
		if a.State == Waiting {
			a.State, a.Started = Running, tx.Now()
		}
		readers, passed, last, err := a.next(ctx, tx, slice)
		if err != nil {
			return err
		}
		over := !a.Expires.IsZero() && !tx.Now().Before(a.Expires)
		if passed < slice || over {
			a.State, a.Ended = Done, tx.Now()
		}
		if passed > 0 && !over {
			fresh, err := s.give(ctx, tx, a, readers)
			if err != nil {
				return err
			}
			a.place, a.Done, a.Delivered = last, a.Done+int64(passed), a.Delivered+int64(len(fresh))
		}
		if a.Listed && a.State == Done {
			if err := deleteListed(ctx, tx, a.ID); err != nil {
				return err
			}
		}
		return updateAnnouncement(ctx, tx, a)
	})
}

// give writes the notices of an announcement for some readers, and returns those that are new.
func (s *Service) give(ctx context.Context, tx *sqldb.Tx, a Announcement, readers []accounts.Reader) ([]Notice, error) {
	list := make([]Entry, len(readers))
	documents, languages := map[i18n.Language]json.RawMessage{}, make(map[accounts.ID]i18n.Language, len(readers))
	for i, r := range readers {
		list[i] = Entry{User: r.User, Kind: api.NoticeAnnouncement, Source: "announcement:" + a.ID.String(), Data: struct{}{}, Expires: a.Expires, subject: subjectOf(a.ID)}
		languages[r.User] = r.Language
		if documents[r.Language] == nil {
			var err error
			if documents[r.Language], err = a.document(string(r.Language)); err != nil {
				return nil, err
			}
		}
	}
	fresh, err := insert(ctx, tx, list)
	if err != nil {
		return nil, err
	}
	for i := range fresh {
		fresh[i].Data = documents[languages[fresh[i].User]]
	}
	return fresh, s.told(ctx, tx, fresh)
}

// next returns the users behind the announcement's place who are to get it, how many that passes, of whom some may have no account any
// more, and the last of these.
func (a Announcement) next(ctx context.Context, tx *sqldb.Tx, n int) (readers []accounts.Reader, passed int, last accounts.ID, err error) {
	if a.Listed {
		named, err := listedBehind(ctx, tx, a.ID, a.place, n)
		if err != nil || len(named) == 0 {
			return nil, 0, last, err
		}
		readers, err := accounts.ReadersOf(ctx, tx, named)
		return readers, len(named), named[len(named)-1], err
	}
	segment := a.Segment
	if segment.RegisteredBefore.IsZero() || segment.RegisteredBefore.After(a.Created) {
		segment.RegisteredBefore = a.Created // a user who comes while it is delivered is not counted in its total
	}
	readers, err = segment.Readers(ctx, tx, a.place, n)
	if len(readers) > 0 {
		last = readers[len(readers)-1].User
	}
	return readers, len(readers), last, err
}
