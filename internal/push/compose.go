package push

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/i18n"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
)

// reader is a user who may get a push.
type reader struct {
	choice Choice
	lang   i18n.Language
	exists bool // has an account
}

// readers returns the settings and languages of users.
func (s *Service) readers(ctx context.Context, users []accounts.ID) (map[accounts.ID]reader, error) {
	picked, err := choices(ctx, s.db, users, "")
	if err != nil {
		return nil, err
	}
	known, err := accounts.ReadersOf(ctx, s.db, users)
	if err != nil {
		return nil, err
	}
	all := make(map[accounts.ID]reader, len(known))
	for _, r := range known {
		all[r.User] = reader{picked[r.User], r.Language, true}
	}
	return all, nil
}

// facts are the data for the pushes of a batch, read once for all of them.
type facts struct {
	readers map[accounts.ID]reader
	waiting map[messaging.Place]messaging.UnreadChat
	wishes  map[groups.MemberKey]groups.Notify
	notices map[notices.SeqKey]notices.Notice
	names   map[accounts.ID]string // of authors and actors; nil if they could not be read
}

// facts reads the current data of deliveries, with a fixed number of statements for up to a hundred of them.
func (s *Service) facts(ctx context.Context, list []delivery, about map[accounts.ID]reader) (f facts, err error) {
	f = facts{readers: about, names: map[accounts.ID]string{}}
	var chats []messaging.Place
	var notified []notices.SeqKey
	seen := map[messaging.Place]bool{}
	for _, d := range list {
		chat := messaging.Place{User: d.job.User, Conv: d.job.Conv}
		switch {
		case d.job.Notice != 0:
			notified = append(notified, notices.SeqKey{User: d.job.User, Seq: d.job.Notice})
		case !seen[chat]: // a user with two devices has two jobs
			seen[chat] = true
			chats = append(chats, chat)
		}
	}
	if len(chats) > 0 {
		if f.waiting, err = s.chats.UnreadChats(ctx, chats); err != nil {
			return f, err
		}
	}
	if len(notified) > 0 {
		if f.notices, err = s.notices.Pending(ctx, notified); err != nil {
			return f, err
		}
	}
	var members []groups.MemberKey
	var people []accounts.ID
	known := map[accounts.ID]bool{}
	person := func(id string) {
		if user, err := ids.Parse[accounts.User](id); err == nil && !known[user] {
			known[user] = true
			people = append(people, user)
		}
	}
	for at, w := range f.waiting {
		if group, in := w.Chat.Group(); in {
			members = append(members, groups.MemberKey{Group: group, User: at.User})
		}
		person(w.Newest.From)
	}
	for _, n := range f.notices {
		person(n.Subject.String())
	}
	if f.wishes, err = groups.Notifies(ctx, s.db, members); err != nil {
		return f, asKind(err)
	}
	if len(people) == 0 {
		return f, nil
	}
	found, err := s.people.Profiles(ctx, people)
	for user, profile := range found {
		f.names[user] = profile.Wire().Name
	}
	return f, err
}

// compose returns the push of a job; there is false if there is nothing to push.
func (f facts) compose(j job) (p api.Push, ok bool, err error) {
	to := f.readers[j.User]
	switch {
	case !to.exists:
		return p, false, nil
	case j.Device.IsZero(): // a backend with its own pushes has its own settings
		to.choice = Choice{true, true, true, true}
	}
	p = api.Push{V: 1, Lang: string(to.lang), At: j.At}
	if j.Notice != 0 {
		ok, err = f.composeNotice(&p, j, to)
	} else {
		ok = f.composeMessages(&p, j, to)
	}
	return p, ok, err
}

// previewed is the number of characters of a message in a push.
const previewed = 200

func (f facts) composeMessages(p *api.Push, j job, to reader) (ok bool) {
	w, ok := f.waiting[messaging.Place{User: j.User, Conv: j.Conv}]
	if !ok || !to.choice.Messages {
		return false
	}
	group, inGroup := w.Chat.Group()
	wish := f.wishes[groups.MemberKey{Group: group, User: j.User}]
	if inGroup && (wish == groups.Silent || wish == groups.Mentions && w.MentionedAt <= j.After) {
		return false
	}
	from := f.name(w.Newest.From, to.lang)
	p.What, p.Tag, p.Chat, p.Unread, p.Seq = api.PushMessages, w.Chat.String(), w.Chat.String(), int(w.Unread), w.Seq
	p.Title, p.Body = from, to.lang.Translate("A new message")
	if w.Unread > 1 {
		p.Body = to.lang.Sprintf("%d new messages", w.Unread)
	}
	if to.choice.Previews && w.Newest.Text != "" {
		p.Body = cut(w.Newest.Text, previewed)
		if inGroup {
			p.Body = from + ": " + p.Body
		}
	}
	if inGroup {
		p.Title = w.Title
	}
	return true
}

// name returns the name of a user.
func (f facts) name(id string, lang i18n.Language) string {
	user, err := ids.Parse[accounts.User](id)
	if name := f.names[user]; err == nil && name != "" {
		return name
	}
	return lang.Translate("Somebody")
}

// saying lists the bodies of notices. %s is the name of the user that the notice is about.
var saying = map[string]string{
	api.NoticeFriendRequested: "%s wants to be your friend.",
	api.NoticeFriendAccepted:  "%s has accepted your friend request.",
	api.NoticeGroupAdded:      "%s has added you to this group.",
	api.NoticeGroupRemoved:    "You were removed from this group.",
	api.NoticeGroupDissolved:  "This group was dissolved.",
	api.NoticeGroupRequested:  "%s asks to join this group.",
	api.NoticeGroupAccepted:   "Your request to join this group was accepted.",
	api.NoticeAccountLogin:    "A device has logged in.",
	api.NoticeAccountPassword: "The password was changed.",
	api.NoticeAccountEmail:    "The address was changed.",
	api.NoticeAccountRestored: "The account was brought back by a log-in.",
	api.NoticeAccountReused:   "A device was logged out, because a token of it was used twice.",
}

// composeNotice returns the push of a notice. Refusals are not pushed.
func (f facts) composeNotice(p *api.Push, j job, to reader) (ok bool, err error) {
	n, ok := f.notices[notices.SeqKey{User: j.User, Seq: j.Notice}]
	if !ok || !to.choice.wants(n.Kind) {
		return false, nil
	}
	p.What, p.Kind, p.Seq, p.Tag = api.PushNotice, n.Kind, n.Seq, "n:"+n.Source
	if n.Kind == api.NoticeAnnouncement {
		var a api.Announcement
		if err := json.Unmarshal(n.Data, &a); err != nil {
			return false, err
		}
		p.Title, p.Body = a.Title, cut(a.Text, previewed)
		return true, nil
	}
	text, ok := saying[n.Kind]
	if !ok {
		return false, nil
	}
	name := f.name(n.Subject.String(), to.lang)
	p.Title, p.Body = to.lang.Translate("Your account"), to.lang.Translate(text)
	switch notices.Category(n.Kind) {
	case "friend":
		p.Title, p.Body = name, to.lang.Sprintf(text, name)
	case "group":
		var g api.NoticeOfGroup
		if err := json.Unmarshal(n.Data, &g); err != nil {
			return false, err
		}
		p.Title = g.Name
		if n.Kind == api.NoticeGroupAdded || n.Kind == api.NoticeGroupRequested {
			p.Body = to.lang.Sprintf(text, name)
		}
	}
	return true, nil
}

// cut returns at most n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// topicOf returns a tag for the Topic header: at most 32 characters of base64url. A push service keeps only the newest
// push per topic for an offline browser.
func topicOf(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
