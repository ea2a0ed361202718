package messaging

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/weblink"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/transfers"
)

// Refusals of this domain.
var (
	ErrSystem    = errs.New(errs.Forbidden, "message.system", "This is a system message. It cannot be changed or forwarded.")
	ErrChat      = errs.New(errs.NotFound, "chat.unknown", "There is no such chat.")
	ErrSelf      = errs.New(errs.Invalid, "chat.self", "You cannot chat with yourself.")
	ErrMessage   = errs.New(errs.NotFound, "message.unknown", "There is no such message.")
	ErrContent   = errs.New(errs.Invalid, "message.content", "The content does not match the kind of the message.")
	ErrClientID  = errs.New(errs.Invalid, "message.client_id", "A client_id is 1 to 64 letters, digits, dots, dashes and underscores.")
	ErrReply     = errs.New(errs.Invalid, "message.reply", "The message to reply to is not in this chat.")
	ErrReused    = errs.New(errs.Conflict, "message.client_id_used", "This client_id belongs to another message. Use a new one.")
	ErrRefused   = errs.New(errs.Forbidden, "message.refused", "This user does not accept messages from you.")
	ErrYouBlock  = errs.New(errs.Forbidden, "message.you_block", "You have blocked this user. Unblock them first.")
	ErrNotYours  = errs.New(errs.Forbidden, "message.not_yours", "Only the sender of this message can do this.")
	ErrTooLate   = errs.New(errs.Conflict, "message.too_late", "The message is too old to be changed.")
	ErrRecalled  = errs.New(errs.Conflict, "message.recalled", "The message was recalled.")
	ErrEmoji     = errs.New(errs.Invalid, "message.emoji", "A reaction must be one emoji.")
	ErrReactions = errs.New(errs.Conflict, "message.reactions_full", "This message has 20 different reactions, the maximum.")
	ErrFuture    = errs.New(errs.Invalid, "chat.future", "The chat has no message with this number yet.")
	ErrCursor    = errs.New(errs.Invalid, "chat.cursor", "That cursor does not come from this list.")
	ErrQuery     = errs.New(errs.Invalid, "chat.query", "The search has no word. Enter at least one.")
	ErrLarge     = errs.New(errs.Conflict, "chat.large", "Groups of more than 200 members do not show readers.")
	ErrPins      = errs.New(errs.Conflict, "chat.pins_full", "This group has 50 pinned messages, the maximum. Unpin one first.")
	ErrFile      = errs.New(errs.Invalid, "message.file", "You have no complete upload with this id. Upload it again.")
	ErrNoFile    = errs.New(errs.NotFound, "message.no_file", "This message has no file on this server.")
	ErrStore     = errs.New(errs.Unavailable, "chat.store_away", "Chats are unavailable. Please try again.").Retry(2 * time.Second)
)

// Settings are the operator's settings.
type Settings struct {
	EditFor      time.Duration `koanf:"edit_for" default:"24h" help:"a message can be edited for this time after it was sent"`
	RecallFor    time.Duration `koanf:"recall_for" default:"48h" help:"a message can be recalled for this time after it was sent"`
	MessagesFrom string        `koanf:"messages_from" default:"friends" enum:"friends,everybody,nobody" help:"users who may write to a user without an own setting"`
}

// ConversationID identifies a conversation of two users or of a group.
type ConversationID = ids.ID[conversation]

// MessageID identifies a message.
type MessageID = ids.ID[message]

// conversation is a row: the newest numbers and times of a conversation.
type conversation struct {
	id      ConversationID
	kind    int      // direct or group
	title   string   // of a group
	seq     int64    // of the newest message
	rev     int64    // of the newest change
	lastAt  int64    // Unix ms of the newest message
	changed int64    // Unix ms of the newest message or change
	sent    [2]int64 // in a chat of two, the newest messages of the user with the lower id and of the other one

	uncounted numbers // of the latest messages, the ones that no member needs to read

	lockedViews []view // of both users of a locked chat of two, before the changes of the transaction
}

// member is a user's row in a conversation.
type member struct {
	user, peer accounts.ID // peer: the other user of two; zero in a group
	conv       ConversationID
	read       int64
	delivered  int64
	cleared    int64
	pinned     int64 // Unix ms of the pinning; 0 if not pinned
	muted      int64 // Unix ms of the end
	draft      string
	changed    int64
	marked     int64 // Unix ms of the last change of marks that the other user may see; not read for the member itself
	version    int64 // grows with each change of the row
	gone       int64 // Unix ms of leaving the group; 0 for a member
}

// message is a row.
type message struct {
	conv     ConversationID
	seq, rev int64
	id       MessageID
	from     accounts.ID
	to       ChatRef // of a new message: the chat from its sender's view
	clientID string
	hash     string
	body     messageBody
	reply    int64
	at       int64 // Unix ms, as are the next two; 0: never
	edited   int64
	recalled int64
	chatSeq  int64 // the conversation's seq when this was read for an event; not part of the row

	reactions []reaction
}

// messageBody is the body in a message's row.
type messageBody struct {
	api.Content
	Forwarded *api.Forwarded `json:"forwarded,omitempty"`
}

type reaction struct {
	emoji string
	user  accounts.ID
}

const (
	maxCustom      = 8 << 10 // bytes
	maxCustomDepth = 10
	maxReactions   = 20 // different emoji for one message
	maxWaveform    = 100
	maxMentions    = 50
)

// kinds are the kinds of all messages.
var kinds = []string{api.MessageText, api.MessageImage, api.MessageVoice, api.MessageFile, api.MessageLocation, api.MessageCard,
	api.MessageCustom, api.MessageSystem}

var clientIDs = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// checkSent is [checkContent] for sent messages. The backend may send a system message.
func checkSent(c api.Content, trusted bool) (api.Content, error) {
	if !trusted || c.Kind != api.MessageSystem {
		return checkContent(c)
	}
	text, err := checkContent(api.Content{Kind: api.MessageText, Text: c.Text})
	return api.Content{Kind: api.MessageSystem, System: &api.System{Event: api.SystemApp, Text: text.Text}}, err
}

// checkContent returns c in its stored form: trimmed, with LF at line ends, and only with the parts of its kind.
func checkContent(c api.Content) (api.Content, error) {
	c.Text = strings.TrimSpace(strings.ReplaceAll(c.Text, "\r\n", "\n"))
	if utf8.RuneCountInString(c.Text) > 4000 {
		return c, ErrContent.On("body.text", "has more than 4,000 characters")
	}
	if strings.ContainsFunc(c.Text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return c, ErrContent.On("body.text", "has control characters")
	}
	if !slices.Contains(kinds, c.Kind) { // a verdict of a hook is not checked against the schema
		return c, ErrContent.On("body.kind", "is not a kind of message")
	}
	if len(c.Mentions) > maxMentions {
		return c, ErrContent.On("body.mentions", "has more than 50 entries")
	}
	if l := c.Location; l != nil && !(math.Abs(l.Latitude) <= 90 && math.Abs(l.Longitude) <= 180) {
		return c, ErrContent.On("body.location", "is not a valid place")
	}
	parts := map[string]bool{"media": c.Media != nil, "location": c.Location != nil, "card": c.Card != nil, "custom": c.Custom != nil}
	own := map[string]string{api.MessageImage: "media", api.MessageVoice: "media", api.MessageFile: "media",
		api.MessageLocation: "location", api.MessageCard: "card", api.MessageCustom: "custom"}[c.Kind]
	for part, present := range parts {
		if present != (part == own) {
			if present {
				return c, ErrContent.On("body."+part, "is not allowed for this kind")
			}
			return c, ErrContent.On("body."+part, "is required for this kind")
		}
	}
	if words.Blank(c.Text) {
		c.Text = ""
	}
	switch {
	case c.Kind == api.MessageSystem || c.System != nil:
		return c, ErrContent.On("body.kind", "is reserved for the server")
	case c.Kind == api.MessageText && c.Text == "":
		return c, ErrContent.On("body.text", "is empty")
	case c.Media != nil:
		m, err := checkMedia(c.Kind, *c.Media)
		if err != nil {
			return c, err
		}
		c.Media = &m
	case c.Card != nil:
		if _, err := ids.Parse[accounts.User](c.Card.User); err != nil {
			return c, ErrContent.On("body.card.user", "is not a user's id")
		}
	case c.Custom != nil:
		if len(c.Custom.Data) > maxCustom || depth(c.Custom.Data) > maxCustomDepth {
			return c, ErrContent.On("body.custom.data", "is larger than 8 KiB, or deeper than ten levels")
		}
	}
	for _, m := range c.Mentions {
		if m == api.MentionAll {
			continue
		}
		if _, err := ids.Parse[accounts.User](m); err != nil {
			return c, ErrContent.On("body.mentions", "has an entry that is not a user's id")
		}
	}
	return c, nil
}

// maxURL is the largest number of bytes of a stored address.
const maxURL = 2048

// checkMedia returns the stored form of a message's media.
func checkMedia(kind string, m api.Media) (api.Media, error) {
	if m.File == "" {
		var ok bool
		if m.URL, ok = cleanAddress(m.URL); !ok || len(m.URL) > maxURL {
			return m, ErrContent.On("body.media.url", "is not an https address or a path of this server")
		}
	}
	switch {
	case m.File != "" && m.URL != "":
		return m, ErrContent.On("body.media.url", "is not allowed with a file")
	case len(m.Waveform) > 0 && kind != api.MessageVoice:
		return m, ErrContent.On("body.media.waveform", "is not allowed for this kind")
	case len(m.Waveform) > maxWaveform || slices.ContainsFunc(m.Waveform, func(v int) bool { return v < 0 || v > 100 }):
		return m, ErrContent.On("body.media.waveform", "is not a list of at most 100 numbers from 0 to 100")
	case m.File == "" && (len(m.Thumbnails) > 0 || m.SHA256 != ""):
		return m, ErrContent.On("body.media", "has fields that only the server sets")
	case m.File != "":
		if _, err := ids.Parse[transfers.Transfer](m.File); err != nil {
			return m, ErrContent.On("body.media.file", "is not an id")
		}
	}
	return m, nil
}

// cleanAddress returns the stored form of an https address, or of a path of this server's API.
func cleanAddress(s string) (string, bool) {
	if path, ok := weblink.Local(s); ok && strings.HasPrefix(path, "/v1/") {
		return path, true
	}
	return weblink.Foreign(s)
}

// depth returns the nesting depth of objects and lists in valid JSON.
func depth(data []byte) (deepest int) {
	at, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\':
			i++
		case !quoted && (c == '{' || c == '['):
			at++
			deepest = max(deepest, at)
		case !quoted && (c == '}' || c == ']'):
			at--
		}
	}
	return deepest
}

// hashOf returns a hash that distinguishes requests with the same client_id.
func hashOf(in api.Send) (string, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// pair is two users in the order of their ids.
type pair struct{ low, high accounts.ID }

func pairOf(a, b accounts.ID) pair {
	if a.Compare(b) > 0 {
		a, b = b, a
	}
	return pair{a, b}
}

// side returns the index of a user in the order of ids: 0 or 1.
func side(user, peer accounts.ID) int {
	if user.Compare(peer) > 0 {
		return 1
	}
	return 0
}

func (p pair) compare(q pair) int {
	return cmp.Or(p.low.Compare(q.low), p.high.Compare(q.high))
}

// wire returns a message as a member of the chat sees it.
func (m message) wire(to accounts.ID, chat string) api.Message {
	w := api.Message{ID: m.id.String(), Chat: chat, Seq: m.seq, Rev: m.rev, From: m.from.String(), Content: m.body.Content, ReplyTo: m.reply,
		Forwarded: m.body.Forwarded, At: api.At(sqldb.Time(m.at)), Edited: api.AtOrNil(sqldb.TimeOrZero(m.edited)),
		Recalled: api.AtOrNil(sqldb.TimeOrZero(m.recalled))}
	if m.from == to {
		w.ClientID = m.clientID
	}
	if m.recalled != 0 {
		w.Content, w.ReplyTo, w.Forwarded = api.Content{Kind: m.body.Kind}, 0, nil
	}
	for _, r := range m.reactions {
		n := len(w.Reactions)
		if n == 0 || w.Reactions[n-1].Emoji != r.emoji {
			w.Reactions = append(w.Reactions, api.Reaction{Emoji: r.emoji})
			n++
		}
		w.Reactions[n-1].Users = append(w.Reactions[n-1].Users, r.user.String())
	}
	return w
}
