package messaging

import (
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/transfers"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Limits for each user. A fast writer sends two messages a second; a client sends typing events every few seconds.
var (
	sendLimit = ratelimit.Limit{Max: 300, Window: time.Minute}
	markLimit = ratelimit.Limit{Max: 1200, Window: time.Minute}

	// A client that opens a chat of pictures requests a link for each.
	fileLimit = ratelimit.Limit{Max: 1200, Window: time.Minute}

	// A search reads some thousand rows.
	searchLimit = ratelimit.Limit{Max: 60, Window: time.Minute}
)

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"chats"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats", ID: "chats.list", Tags: tags,
		Summary: "List chats",
		Description: "Pinned chats come first, then chats by their newest message. A client that stores the list sends the `sync` of an " +
			"earlier response as `since` and gets the changed chats; a chat may be listed although nothing has changed. `chats.messages` lists " +
			"its messages after a seq, and `chats.changes` its changes since a rev.",
		Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getChats)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/settings", ID: "chats.settings", Tags: tags,
		Summary: "Get chat settings", Errors: []*errs.Error{ErrStore}}, s.getSettings)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/chats/settings", ID: "chats.set_settings", Tags: tags,
		Summary: "Update chat settings", Description: "The settings are the users whose messages the caller accepts, and whether receipts are " +
			"shown. Absent fields stay unchanged. The caller's devices get the event chat.settings.", Errors: []*errs.Error{ErrStore}},
		s.putSettings)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/search", ID: "chats.search", Tags: tags, Heavy: true, Limit: searchLimit,
		Summary: "Search the caller's chats",
		Description: "Returns messages that contain each word of q, whole or in part. Case, width and diacritics do not matter; Chinese needs " +
			"no spaces. A request scans up to 10,000 messages, so a response may have few messages or none, and still a next.",
		Errors: []*errs.Error{ErrQuery, ErrChat, ErrCursor, ErrStore}}, s.getSearch)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/export", ID: "chats.export", Tags: tags, Heavy: true,
		Summary: "Export the caller's chats",
		Description: "Returns all stored data of the caller's chats, in parts: chats with their settings and marks, the messages that the " +
			"caller sees, and the earlier contents of the caller's own messages. Request the next part until there is no next.",
		Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getExport)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/{chat}", ID: "chats.get", Tags: tags,
		Summary: "Get a chat", Errors: []*errs.Error{ErrChat, ErrStore}}, inChat(s.getChat))
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/chats/{chat}", ID: "chats.update", Tags: tags,
		Summary:     "Update a chat for the caller",
		Description: "Pins or mutes the chat, or stores a draft.", Errors: []*errs.Error{ErrChat, ErrStore}}, inChat(s.patchChat))
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/chats/{chat}", ID: "chats.clear", Tags: tags,
		Summary: "Clear a chat for the caller", Errors: []*errs.Error{ErrChat, ErrStore}}, inChat(s.deleteChat))
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/chats/{chat}/messages", ID: "chats.send", Tags: tags, Limit: sendLimit,
		Status:  http.StatusCreated,
		Summary: "Send a message",
		Description: "A response means that the message is durable. A retry with the same client_id and content returns the same message. The " +
			"chat of two users begins with the first message. A refusal does not show whether a block or a setting caused it.",
		Errors: []*errs.Error{ErrChat, ErrSelf, ErrClientID, ErrContent, ErrReply, ErrMessage, ErrRecalled, ErrReused, ErrFile, ErrRefused,
			ErrYouBlock, ErrSystem, groups.ErrMuted, groups.ErrAllMuted, groups.ErrMay,
			accounts.ErrNoUser, webhooks.ErrRefused, webhooks.ErrUnavailable, ErrStore}}, inChat(s.postMessage))
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/{chat}/messages", ID: "chats.messages", Tags: tags,
		Summary: "List messages",
		Description: "Returns the newest messages, or messages before, after or around a number, in the order of their numbers. It omits " +
			"messages that the caller has deleted for themselves.",
		Errors: []*errs.Error{ErrChat, ErrStore}}, inChat(s.getMessages))
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/{chat}/changes", ID: "chats.changes", Tags: tags,
		Summary: "List message changes since a rev", Errors: []*errs.Error{ErrChat, ErrStore}}, inChat(s.getChanges))
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/chats/{chat}/messages/{seq}", ID: "chats.edit", Tags: tags,
		Summary: "Edit a message", Errors: []*errs.Error{ErrChat, ErrMessage, ErrNotYours, ErrSystem, ErrRecalled, ErrTooLate, ErrContent,
			ErrRefused, ErrYouBlock, groups.ErrMuted, groups.ErrAllMuted, accounts.ErrNoUser, webhooks.ErrRefused, webhooks.ErrUnavailable,
			ErrStore}}, inChat(s.patchMessage))
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/chats/{chat}/messages/{seq}", ID: "chats.delete", Tags: tags,
		Summary: "Hide or recall a message",
		Description: "Hides a message for the caller, or recalls a message of the caller for all members. An admin of a group may also recall " +
			"messages of members with a lower role. A recalled message keeps its number and loses its content.",
		Errors: []*errs.Error{ErrChat, ErrMessage, ErrNotYours, ErrSystem, ErrRecalled, ErrTooLate, webhooks.ErrRefused, webhooks.ErrUnavailable,
			ErrStore}}, inChat(s.deleteMessage))
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/chats/{chat}/messages/{seq}/reactions/{emoji}", ID: "chats.react", Tags: tags,
		NoReplay: true,
		Summary:  "React to a message", Errors: []*errs.Error{ErrChat, ErrMessage, ErrRecalled, ErrEmoji, ErrReactions, ErrRefused, ErrYouBlock,
			accounts.ErrNoUser, ErrStore}}, inChat(s.putReaction))
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/chats/{chat}/messages/{seq}/reactions/{emoji}", ID: "chats.unreact", Tags: tags,
		NoReplay: true,
		Summary:  "Remove a reaction", Errors: []*errs.Error{ErrChat, ErrMessage, ErrRecalled, ErrEmoji, ErrStore}}, inChat(s.deleteReaction))
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/chats/{chat}/messages/{seq}/file", ID: "chats.file", Tags: tags, Limit: fileLimit,
		NoReplay: true, Status: http.StatusOK,
		Summary: "Get a link to a file",
		Description: "The link is to the file of a message, or to its thumbnail. The caller must see the message; between two users, a block " +
			"refuses the link. The link is valid for some minutes, while its user sees the message. It supports range requests, so a client can " +
			"resume a download with another link.",
		Errors: []*errs.Error{ErrChat, ErrMessage, ErrRecalled, ErrNoFile, ErrRefused, ErrYouBlock, transfers.ErrGone, transfers.ErrNoSmall,
			social.ErrStore, transfers.ErrStore, ErrStore}}, inChat(s.postFile))
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/{chat}/messages/{seq}/readers", ID: "chats.readers", Tags: tags,
		Summary: "List readers of a message",
		Description: "Only the sender of a message may list its readers, and a group must have at most 200 members. The result omits members " +
			"who hide receipts, and members who block the caller or whom the caller blocks. It is empty if the caller hides receipts.",
		Errors: []*errs.Error{ErrChat, ErrMessage, ErrNotYours, ErrLarge, ErrStore}}, inChat(s.getReaders))
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/chats/{chat}/pins", ID: "chats.pins", Tags: tags,
		Summary: "List pinned messages of a group", Errors: []*errs.Error{ErrChat, ErrStore}}, inChat(s.getPins))
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/chats/{chat}/pins/{seq}", ID: "chats.pin", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Pin a group message", Errors: []*errs.Error{ErrChat, ErrMessage, ErrRecalled, ErrPins, groups.ErrMay, ErrStore}},
		inChat(s.putPin))
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/chats/{chat}/pins/{seq}", ID: "chats.unpin", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Unpin a group message", Errors: []*errs.Error{ErrChat, groups.ErrMay, ErrStore}}, inChat(s.deletePin))
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/chats/{chat}/marks", ID: "chats.mark", Tags: tags, Limit: markLimit,
		Status:  http.StatusNoContent,
		Summary: "Mark messages as read or delivered", Errors: []*errs.Error{ErrChat, ErrFuture, ErrStore}}, inChat(s.postMarks))
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/chats/{chat}/typing", ID: "chats.typing", Tags: tags, Limit: sendLimit,
		Status:      http.StatusNoContent,
		Summary:     "Report typing",
		Description: "Reports that the caller is writing, or has stopped. A client shows it for some seconds, or until the next message.",
		Errors:      []*errs.Error{ErrChat, ErrSelf, accounts.ErrNoUser, ErrStore}}, inChat(s.postTyping))
}

// ChatPath names a chat. An invalid name is treated as an unknown chat.
type ChatPath struct {
	Chat string `path:"chat" maxLength:"64" doc:"u: and the other user's id, or g: and the group's id"`
}

func (p ChatPath) name() string { return p.Chat }

// inChat returns the handler of an operation in a chat. fn gets the parsed chat.
func inChat[I interface{ name() string }, O any](fn func(ctx context.Context, user accounts.ID, chat ChatRef,
	in *I) (O, error)) func(context.Context, accounts.Caller, *I) (O, error) {
	return func(ctx context.Context, caller accounts.Caller, in *I) (O, error) {
		chat, err := parseChat((*in).name())
		if err != nil {
			var none O
			return none, err
		}
		return fn(ctx, caller.User, chat, in)
	}
}

// MessagePath names a message.
type MessagePath struct {
	ChatPath
	Seq int64 `path:"seq" minimum:"1" doc:"the message's number in the chat"`
}

// ReactionPath names a user's reaction.
type ReactionPath struct {
	MessagePath
	Emoji string `path:"emoji" maxLength:"32"`
}

type chatsInput struct {
	Since  string `query:"since" maxLength:"20" doc:"sync of an earlier response"`
	Cursor string `query:"cursor" maxLength:"20" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"maximum number of results"`
}

func (s *Service) getChats(ctx context.Context, caller accounts.Caller, in *chatsInput) (*web.Body[api.Chats], error) {
	out, err := s.Chats(ctx, caller.User, in.Since, in.Cursor, in.Limit)
	return web.NewBody(out), err
}

func (s *Service) getSearch(ctx context.Context, caller accounts.Caller, in *struct {
	Q      string `query:"q" required:"true" minLength:"1" maxLength:"100" example:"eight" doc:"words to search for"`
	Chat   string `query:"chat" maxLength:"64" doc:"search only this chat"`
	Cursor string `query:"cursor" maxLength:"60" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"20" doc:"maximum number of results"`
}) (*web.Body[api.FoundMessages], error) {
	var chat ChatRef
	var err error
	if in.Chat != "" {
		if chat, err = parseChat(in.Chat); err != nil {
			return nil, err
		}
	}
	out, err := s.Search(ctx, caller.User, chat, in.Q, in.Cursor, in.Limit)
	return web.NewBody(out), err
}

func (s *Service) getExport(ctx context.Context, caller accounts.Caller, in *struct {
	Cursor string `query:"cursor" maxLength:"40" doc:"the next field of the previous page"`
}) (*web.Body[api.ChatExport], error) {
	out, err := s.Export(ctx, caller.User, in.Cursor)
	return web.NewBody(out), err
}

func (s *Service) getSettings(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.ChatSettings], error) {
	out, err := s.Settings(ctx, caller.User)
	return web.NewBody(out), err
}

func (s *Service) putSettings(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.ChatSettingsUpdate]) (*web.Body[api.ChatSettings], error) {
	out, err := s.SetSettings(ctx, caller.User, in.Body)
	return web.NewBody(out), err
}

func (s *Service) getChat(ctx context.Context, user accounts.ID, chat ChatRef, in *ChatPath) (*web.Body[api.Chat], error) {
	out, err := s.Chat(ctx, user, chat)
	return web.NewBody(out), err
}

func (s *Service) patchChat(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	ChatPath
	Body api.ChatChange
}) (*web.Body[api.Chat], error) {
	out, err := s.Set(ctx, user, chat, in.Body)
	return web.NewBody(out), err
}

func (s *Service) deleteChat(ctx context.Context, user accounts.ID, chat ChatRef, in *ChatPath) (*web.Empty, error) {
	return nil, s.Clear(ctx, user, chat)
}

func (s *Service) postMessage(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	ChatPath
	Body api.Send
}) (*web.Body[api.Sent], error) {
	out, _, err := s.Send(ctx, user, chat, in.Body)
	return web.NewBody(out), err
}

func (s *Service) getMessages(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	ChatPath
	After  *int64 `query:"after" minimum:"0" doc:"messages with higher numbers; 0: all"`
	Before int64  `query:"before" minimum:"0" doc:"messages with lower numbers"`
	Around int64  `query:"around" minimum:"0" doc:"messages on both sides of a number"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"maximum number of results"`
}) (*web.Body[api.Messages], error) {
	out, err := s.List(ctx, user, chat, Range{After: in.After, Before: in.Before, Around: in.Around, Limit: in.Limit})
	return web.NewBody(out), err
}

func (s *Service) getChanges(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	ChatPath
	Since int64 `query:"since" minimum:"0" doc:"newest rev that the caller has"`
}) (*web.Body[api.MessageChanges], error) {
	out, err := s.Changes(ctx, user, chat, in.Since)
	return web.NewBody(out), err
}

func (s *Service) patchMessage(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	MessagePath
	Body struct {
		Text string `json:"text" example:"See you at nine" maxLength:"4000"`
	}
}) (*web.Body[api.Message], error) {
	out, err := s.Edit(ctx, user, chat, in.Seq, in.Body.Text)
	return web.NewBody(out), err
}

func (s *Service) deleteMessage(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	MessagePath
	For string `query:"for" enum:"me,everybody" default:"me" doc:"me: hide it for the caller alone; everybody: recall it"`
}) (*web.Empty, error) {
	if in.For == "everybody" {
		_, err := s.Recall(ctx, user, chat, in.Seq)
		return nil, err
	}
	return nil, s.Hide(ctx, user, chat, in.Seq)
}

func (s *Service) putReaction(ctx context.Context, user accounts.ID, chat ChatRef, in *ReactionPath) (*web.Body[api.Message], error) {
	return s.react(ctx, user, chat, in, true)
}

func (s *Service) deleteReaction(ctx context.Context, user accounts.ID, chat ChatRef, in *ReactionPath) (*web.Body[api.Message], error) {
	return s.react(ctx, user, chat, in, false)
}

func (s *Service) react(ctx context.Context, user accounts.ID, chat ChatRef, in *ReactionPath, on bool) (*web.Body[api.Message], error) {
	out, err := s.React(ctx, user, chat, in.Seq, in.Emoji, on)
	return web.NewBody(out), err
}

func (s *Service) postFile(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	MessagePath
	Side int `query:"side" minimum:"0" maximum:"10000" default:"0" doc:"about the longer side of the thumbnail, see thumbnails of the message; 0: the file"`
}) (*web.Body[api.FileLink], error) {
	link, err := s.FileLink(ctx, user, chat, in.Seq, in.Side)
	return web.NewBody(link), err
}

func (s *Service) getReaders(ctx context.Context, user accounts.ID, chat ChatRef, in *MessagePath) (*web.Body[api.Readers], error) {
	out, err := s.Readers(ctx, user, chat, in.Seq)
	return web.NewBody(out), err
}

func (s *Service) getPins(ctx context.Context, user accounts.ID, chat ChatRef, _ *ChatPath) (*web.Body[api.Pins], error) {
	out, err := s.Pins(ctx, user, chat)
	return web.NewBody(out), err
}

func (s *Service) putPin(ctx context.Context, user accounts.ID, chat ChatRef, in *MessagePath) (*web.Empty, error) {
	return nil, s.Pin(ctx, user, chat, in.Seq, true)
}

func (s *Service) deletePin(ctx context.Context, user accounts.ID, chat ChatRef, in *MessagePath) (*web.Empty, error) {
	return nil, s.Pin(ctx, user, chat, in.Seq, false)
}

func (s *Service) postMarks(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	ChatPath
	Body api.MarkRequest
}) (*web.Empty, error) {
	return nil, s.Mark(ctx, user, chat, in.Body.Read, in.Body.Delivered)
}

func (s *Service) postTyping(ctx context.Context, user accounts.ID, chat ChatRef, in *struct {
	ChatPath
	Body struct {
		Typing bool `json:"typing" example:"true"`
	}
}) (*web.Empty, error) {
	return nil, s.Typing(ctx, user, chat, in.Body.Typing)
}
