package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stoa-dev/stoa/api"
)

// ChatWith returns the id of the caller's chat with another user.
func ChatWith(user string) string { return "u:" + user }

// ChatIn returns the id of a group's chat.
func ChatIn(group string) string { return "g:" + group }

func chatPath(chat, rest string) string { return "/v1/chats/" + url.PathEscape(chat) + rest }

func messagePath(chat string, seq int64, rest string) string {
	return chatPath(chat, "/messages/"+strconv.FormatInt(seq, 10)+rest)
}

// Chats returns a page of the caller's chats after the cursor. If since is the Sync of an earlier response, it returns
// the chats that have changed since then. With a zero limit the server chooses the limit.
func (c *Client) Chats(ctx context.Context, since, cursor string, limit int) (out api.Chats, err error) {
	query := pageOf(cursor, limit)
	if since != "" {
		query.Set("since", since)
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/chats", query: query, out: &out})
	return out, err
}

// Chat returns one of the caller's chats.
func (c *Client) Chat(ctx context.Context, chat string) (out api.Chat, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: chatPath(chat, ""), out: &out})
	return out, err
}

// SetChat pins or mutes a chat, or stores a draft for it.
func (c *Client) SetChat(ctx context.Context, chat string, in api.ChatChange) (out api.Chat, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: chatPath(chat, ""), in: in, out: &out})
	return out, err
}

// ClearChat deletes all messages of a chat for the caller only.
func (c *Client) ClearChat(ctx context.Context, chat string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: chatPath(chat, "")})
}

// Send sends a message. When it returns without an error, the message is durable. A retry with the same ClientID and
// content returns the same message.
func (c *Client) Send(ctx context.Context, chat string, in api.Send) (out api.Sent, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: chatPath(chat, "/messages"), in: in, out: &out, keyless: true})
	return out, err
}

// MessageRange selects messages: after a seq (which may be 0), before a seq, or around one. If all three are nil, it
// selects the newest. With a zero Limit the server chooses the limit.
type MessageRange struct {
	After          *int64
	Before, Around int64
	Limit          int
}

// Messages returns some of a chat's messages in the order of their seq.
func (c *Client) Messages(ctx context.Context, chat string, r MessageRange) (out api.Messages, err error) {
	query := url.Values{}
	if r.After != nil {
		query.Set("after", strconv.FormatInt(*r.After, 10))
	}
	for name, n := range map[string]int64{"before": r.Before, "around": r.Around, "limit": int64(r.Limit)} {
		if n > 0 {
			query.Set(name, strconv.FormatInt(n, 10))
		}
	}
	err = c.do(ctx, call{method: http.MethodGet, path: chatPath(chat, "/messages"), query: query, out: &out})
	return out, err
}

// SearchMessages returns messages that have each word of q. It searches the chat, or all chats of the caller if chat is
// empty. cursor is the Next of the previous response.
func (c *Client) SearchMessages(ctx context.Context, q, chat, cursor string) (out api.FoundMessages, err error) {
	query := url.Values{"q": {q}}
	for name, value := range map[string]string{"chat": chat, "cursor": cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/chats/search", query: query, out: &out})
	return out, err
}

// ExportChats returns a part of all stored data of the caller's chats. cursor is the Next of the previous part.
func (c *Client) ExportChats(ctx context.Context, cursor string) (out api.ChatExport, err error) {
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/chats/export", query: query, out: &out})
	return out, err
}

// MessageChanges returns the changes of a chat's messages since a rev.
func (c *Client) MessageChanges(ctx context.Context, chat string, since int64) (out api.MessageChanges, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: chatPath(chat, "/changes"), query: url.Values{"since": {strconv.FormatInt(since, 10)}},
		out: &out})
	return out, err
}

// EditMessage replaces the text of one of the caller's messages.
func (c *Client) EditMessage(ctx context.Context, chat string, seq int64, text string) (out api.Message, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: messagePath(chat, seq, ""), in: map[string]string{"text": text}, out: &out})
	return out, err
}

// RecallMessage recalls one of the caller's messages, for all members.
func (c *Client) RecallMessage(ctx context.Context, chat string, seq int64) error {
	return c.do(ctx, call{method: http.MethodDelete, path: messagePath(chat, seq, ""), query: url.Values{"for": {"everybody"}}})
}

// DeleteMessage deletes a message for the caller only.
func (c *Client) DeleteMessage(ctx context.Context, chat string, seq int64) error {
	return c.do(ctx, call{method: http.MethodDelete, path: messagePath(chat, seq, "")})
}

// React adds an emoji reaction to a message. Unreact removes it.
func (c *Client) React(ctx context.Context, chat string, seq int64, emoji string) (out api.Message, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: messagePath(chat, seq, "/reactions/"+url.PathEscape(emoji)), out: &out})
	return out, err
}

// Unreact removes a reaction.
func (c *Client) Unreact(ctx context.Context, chat string, seq int64, emoji string) (out api.Message, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: messagePath(chat, seq, "/reactions/"+url.PathEscape(emoji)), out: &out})
	return out, err
}

// MessageReaders returns the members who have read the caller's message in a group.
func (c *Client) MessageReaders(ctx context.Context, chat string, seq int64) (out api.Readers, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: messagePath(chat, seq, "/readers"), out: &out})
	return out, err
}

// Pins returns the pinned messages of a group.
func (c *Client) Pins(ctx context.Context, chat string) (out api.Pins, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: chatPath(chat, "/pins"), out: &out})
	return out, err
}

// Pin pins a message of a group for all members.
func (c *Client) Pin(ctx context.Context, chat string, seq int64) error {
	return c.do(ctx, call{method: http.MethodPut, path: chatPath(chat, "/pins/"+strconv.FormatInt(seq, 10))})
}

// Unpin removes the pin of a message.
func (c *Client) Unpin(ctx context.Context, chat string, seq int64) error {
	return c.do(ctx, call{method: http.MethodDelete, path: chatPath(chat, "/pins/"+strconv.FormatInt(seq, 10))})
}

// Mark sets the caller's marks: the newest messages of a chat that the caller has read and received.
func (c *Client) Mark(ctx context.Context, chat string, in api.MarkRequest) error {
	return c.do(ctx, call{method: http.MethodPost, path: chatPath(chat, "/marks"), in: in})
}

// Typing publishes that the caller is typing, or has stopped.
func (c *Client) Typing(ctx context.Context, chat string, typing bool) error {
	return c.do(ctx, call{method: http.MethodPost, path: chatPath(chat, "/typing"), in: map[string]bool{"typing": typing}})
}

// ChatSettings returns who may send the caller messages, and whether receipts are shown.
func (c *Client) ChatSettings(ctx context.Context) (out api.ChatSettings, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/chats/settings", out: &out})
	return out, err
}

// ChangeChatSettings changes the settings that in sets. It returns all of them, because another device of the user may
// have changed the others.
func (c *Client) ChangeChatSettings(ctx context.Context, in api.ChatSettingsUpdate) (out api.ChatSettings, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/chats/settings", in: in, out: &out})
	return out, err
}
