package push

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
	"github.com/stoa-dev/stoa/internal/foundation/texts"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/messaging"
	"github.com/stoa-dev/stoa/internal/notices"
)

// reader is a user to whom something is pushed.
type reader struct {
	choice Choice
	lang   texts.Language
	there  bool // has an account
}

// readers returns what is to be known of users.
func (s *Service) readers(ctx context.Context, users []accounts.ID) (map[accounts.ID]reader, error) {
	picked, err := choices(ctx, s.db, users)
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

// compose returns what a job comes to by now; there is false where nothing is to be pushed.
func (s *Service) compose(ctx context.Context, j job, to reader) (p api.Push, there bool, err error) {
	switch {
	case !to.there:
		return p, false, nil
	case j.Device.IsZero(): // whoever sends pushes of their own has settings of their own
		to.choice = Choice{true, true, true, true}
	}
	p = api.Push{V: 1, Lang: string(to.lang), At: j.At}
	if j.Notice != 0 {
		there, err = s.ofNotice(ctx, &p, j, to)
	} else {
		there, err = s.ofMessages(ctx, &p, j, to)
	}
	return p, there, err
}

// previewed is how many characters of a message a push has.
const previewed = 200

func (s *Service) ofMessages(ctx context.Context, p *api.Push, j job, to reader) (there bool, err error) {
	if !to.choice.Messages {
		return false, nil
	}
	w, err := s.chats.Waiting(ctx, j.User, j.Conv)
	if errors.Is(err, messaging.ErrChat) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	group, inGroup := w.Chat.Group()
	if inGroup && !w.Mentioned {
		seat := groups.Seat{Group: group, User: j.User}
		wish, err := groups.Notifies(ctx, s.db, []groups.Seat{seat})
		if err != nil {
			return false, asKind(err)
		}
		if wish[seat] != groups.All {
			return false, nil
		}
	}
	from, err := s.name(ctx, w.Newest.From, to.lang)
	if err != nil {
		return false, err
	}
	p.What, p.Tag, p.Chat, p.Unread, p.Seq = api.PushMessages, w.Chat.String(), w.Chat.String(), int(w.Unread), w.Seq
	p.Title, p.Body = from, to.lang.Say("A new message")
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
	return true, nil
}

// name is what somebody is called.
func (s *Service) name(ctx context.Context, id string, lang texts.Language) (string, error) {
	user, err := ids.Parse[accounts.User](id)
	if err != nil {
		return lang.Say("Somebody"), nil
	}
	found, err := s.people.Profiles(ctx, []accounts.ID{user})
	if name := found[user].Wire().Name; err == nil && name != "" {
		return name, nil
	}
	return lang.Say("Somebody"), err
}

// saying is the body of a push of a notice: what it says, with the name of whoever it tells of in the place of %s.
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

// ofNotice composes the push of a notice. What nobody wants to be woken for, a refusal, is none.
func (s *Service) ofNotice(ctx context.Context, p *api.Push, j job, to reader) (there bool, err error) {
	n, err := s.told.Pending(ctx, j.User, j.Notice)
	if errors.Is(err, notices.ErrNotice) {
		return false, nil
	}
	if err != nil || !to.choice.wants(n.Kind) {
		return false, err
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
	said, there := saying[n.Kind]
	if !there {
		return false, nil
	}
	name, err := s.name(ctx, n.Subject.String(), to.lang)
	if err != nil {
		return false, err
	}
	p.Title, p.Body = to.lang.Say("Your account"), to.lang.Say(said)
	switch notices.Category(n.Kind) {
	case "friend":
		p.Title, p.Body = name, to.lang.Sprintf(said, name)
	case "group":
		var g api.NoticeOfGroup
		if err := json.Unmarshal(n.Data, &g); err != nil {
			return false, err
		}
		p.Title = g.Name
		if n.Kind == api.NoticeGroupAdded || n.Kind == api.NoticeGroupRequested {
			p.Body = to.lang.Sprintf(said, name)
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

// topicOf is a tag as the Topic header takes it: at most 32 characters of base64url. Of one topic a push service keeps
// the newest push for a browser that is away.
func topicOf(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return base64.RawURLEncoding.EncodeToString(sum[:24])
}
