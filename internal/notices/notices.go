package notices

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
)

// Errors of the domain.
var (
	ErrNotice       = errs.New(errs.NotFound, "notice.unknown", "There is no such notice.")
	ErrCursor       = errs.New(errs.Invalid, "notice.cursor", "That cursor does not come from this list.")
	ErrStore        = errs.New(errs.Unavailable, "notice.store_away", "Notices are unavailable. Please try again.").Retry(2 * time.Second)
	ErrAnnouncement = errs.New(errs.NotFound, "announcement.unknown", "There is no such announcement.")
	ErrText         = errs.New(errs.Invalid, "announcement.text",
		"Give each language a title of 1 to 100 and a text of up to 2,000 printable characters.")
	ErrLink         = errs.New(errs.Invalid, "announcement.link", "Invalid link. Use https or a local path, at most 500 characters.")
	ErrLifetime     = errs.New(errs.Invalid, "announcement.life", "The lifetime is invalid. Use one minute to one year.")
	ErrNoRecipients = errs.New(errs.Invalid, "announcement.nobody", "There are no recipients. Choose others.")
)

// Settings are the operator's settings; 0 means the default.
type Settings struct {
	Keep time.Duration `koanf:"keep" default:"2160h" help:"how long notices stay in users' lists, between a day and ten years"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	return errors.Join(config.Refuse(c.Keep < 24*time.Hour || c.Keep > 3653*24*time.Hour, "keep", "%s is not between a day and ten years",
		c.Keep))
}

// Notice is a stored notice of a user.
type Notice struct {
	User    accounts.ID
	Seq     int64 // number in the user's list
	Kind    string
	Source  string          // the cause; a user has one notice for each source
	Subject ids.ID[subject] // the user or announcement that the notice is about; may be zero
	Data    json.RawMessage // the document of the kind, see package api; an announcement's document is created at each read
	At      int64           // Unix ms, also Expires and Read; 0 means never
	Expires int64
	Read    int64
}

// subject is what a notice is about: a user or an announcement.
type subject struct{}

// Entry is a new notice.
type Entry struct {
	User    accounts.ID
	Kind    string      // one of api.Notice…
	Source  string      // at most 80 bytes
	About   accounts.ID // the user that the notice is about; may be zero
	Data    any         // the document of the kind, see package api
	Expires time.Time   // when it is no longer listed; zero means Settings.Keep later

	subject ids.ID[subject] // replaces About if it is not zero
}

// Counts are the unread counts of a user.
type Counts struct {
	Categories       map[string]int // categories without unread notices are omitted
	Newest, ReadUpTo int64          // the highest number so far; all notices up to ReadUpTo are read
	Version          int64          // increases when notices are added, read or withdrawn; see doc.go
}

// Category returns the category of a kind, the part before the point.
func Category(kind string) string {
	category, _, _ := strings.Cut(kind, ".")
	return category
}

// unread returns the sum of the categories.
func (c Counts) unread() (n int) {
	for _, count := range c.Categories {
		n += count
	}
	return n
}

// subjectOf converts an id to a subject.
func subjectOf[T any](id ids.ID[T]) ids.ID[subject] {
	s, _ := ids.Parse[subject](id.String()) // the zero ID is valid
	return s
}

// parseCursor parses the cursor of a page. All notices of the page have lower numbers than the result. It returns
// ErrCursor for a malformed cursor.
func parseCursor(cursor string) (below int64, err error) {
	if cursor == "" {
		return 1<<63 - 1, nil
	}
	below, err = strconv.ParseInt(cursor, 10, 64)
	if err != nil || below < 1 || strconv.FormatInt(below, 10) != cursor {
		return 0, ErrCursor
	}
	return below, nil
}
