package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stoa-dev/stoa/api"
)

// inRoom returns the path of a resource of a room.
func inRoom(room string, parts ...string) string {
	path := "/v1/rooms/" + url.PathEscape(room)
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// CreateRoom creates a room.
func (c *Client) CreateRoom(ctx context.Context, in api.RoomNew) (out api.RoomPlace, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/rooms", in: in, out: &out})
	return out, err
}

// Rooms returns a page of the public rooms whose name has text, sorted by "viewers" or "new".
func (c *Client) Rooms(ctx context.Context, text, sort, cursor string, limit int) (out api.Rooms, err error) {
	query := pageOf(cursor, limit)
	for name, v := range map[string]string{"q": text, "sort": sort} {
		if v != "" {
			query.Set(name, v)
		}
	}
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/rooms", query: query, out: &out})
	return out, err
}

// MyRooms returns a page of the rooms that the caller is a member of.
func (c *Client) MyRooms(ctx context.Context, cursor string, limit int) (out api.MyRooms, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/rooms/mine", query: pageOf(cursor, limit), out: &out})
	return out, err
}

// RoomClock returns the servers' clock.
func (c *Client) RoomClock(ctx context.Context) (out api.RoomClock, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/rooms/clock", out: &out})
	return out, err
}

// Room returns a room and the caller's membership.
func (c *Client) Room(ctx context.Context, room string) (out api.RoomPlace, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room), out: &out})
	return out, err
}

// RoomScene returns all data that is needed to show a room.
func (c *Client) RoomScene(ctx context.Context, room string) (out api.RoomScene, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "scene"), out: &out})
	return out, err
}

// UpdateRoom changes a room's settings.
func (c *Client) UpdateRoom(ctx context.Context, room string, in api.RoomUpdate) (out api.RoomPlace, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: inRoom(room), in: in, out: &out})
	return out, err
}

// CloseRoom closes a room for all members.
func (c *Client) CloseRoom(ctx context.Context, room string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room)})
}

// TransferRoom makes another member the owner of a room.
func (c *Client) TransferRoom(ctx context.Context, room, user string) (out api.RoomPlace, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: inRoom(room, "owner"), in: api.RoomOwner{User: user}, out: &out})
	return out, err
}

// JoinRoom joins a room.
func (c *Client) JoinRoom(ctx context.Context, room string, in api.RoomJoin) (out api.RoomPlace, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "join"), in: in, out: &out})
	return out, err
}

// VisitRoom joins a room as a guest, without an account. The token is for another client: see [WithTokens].
func (c *Client) VisitRoom(ctx context.Context, room string, in api.RoomGuestNew) (out api.RoomGuest, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "guests"), in: in, out: &out, open: true})
	return out, err
}

// LeaveRoom ends the caller's membership of a room.
func (c *Client) LeaveRoom(ctx context.Context, room string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room, "me")})
}

// RoomMembers returns a page of the members of a room.
func (c *Client) RoomMembers(ctx context.Context, room, cursor string, limit int) (out api.RoomMembers, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "members"), query: pageOf(cursor, limit), out: &out})
	return out, err
}

// RoomOnline returns the viewers of a room.
func (c *Client) RoomOnline(ctx context.Context, room string) (out api.RoomOnline, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "online"), out: &out})
	return out, err
}

// UpdateRoomMember changes another member of a room.
func (c *Client) UpdateRoomMember(ctx context.Context, room, user string, in api.RoomMemberUpdate) (out api.RoomMember, err error) {
	err = c.do(ctx, call{method: http.MethodPatch, path: inRoom(room, "members", user), in: in, out: &out})
	return out, err
}

// KickFromRoom removes a member from a room.
func (c *Client) KickFromRoom(ctx context.Context, room, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room, "members", user)})
}

// RoomBans returns a page of the banned users of a room.
func (c *Client) RoomBans(ctx context.Context, room, cursor string, limit int) (out api.RoomBans, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "bans"), query: pageOf(cursor, limit), out: &out})
	return out, err
}

// BanFromRoom bans a user from a room.
func (c *Client) BanFromRoom(ctx context.Context, room, user string) error {
	return c.do(ctx, call{method: http.MethodPut, path: inRoom(room, "bans", user)})
}

// UnbanFromRoom lifts a ban.
func (c *Client) UnbanFromRoom(ctx context.Context, room, user string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room, "bans", user)})
}

// NewRoomLink creates a link that lets users and guests join a room.
func (c *Client) NewRoomLink(ctx context.Context, room string, in api.RoomLinkNew) (out api.RoomLink, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "links"), in: in, out: &out})
	return out, err
}

// RoomLinks returns the invite links of a room.
func (c *Client) RoomLinks(ctx context.Context, room string) (out api.RoomLinks, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "links"), out: &out})
	return out, err
}

// RevokeRoomLink revokes a link.
func (c *Client) RevokeRoomLink(ctx context.Context, room, link string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room, "links", link)})
}

// LookAtRoomLink returns the room of a link.
func (c *Client) LookAtRoomLink(ctx context.Context, link string) (out api.RoomPlace, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: "/v1/room-links/" + url.PathEscape(link), out: &out, open: true})
	return out, err
}

// Playback returns the playback state of a room.
func (c *Client) Playback(ctx context.Context, room string) (out api.Playback, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "playback"), out: &out})
	return out, err
}

// Command changes the playback of a room.
func (c *Client) Command(ctx context.Context, room string, in api.PlaybackCommand) (out api.Playback, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "playback"), in: in, out: &out})
	return out, err
}

// Buffering reports whether the caller's player waits for data. It counts while the caller subscribes to the room's
// channel.
func (c *Client) Buffering(ctx context.Context, room string, waits bool) error {
	return c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "playback", "buffering"), in: api.PlaybackBuffering{Buffering: waits}})
}

// Ended reports the end of a room's current item.
func (c *Client) Ended(ctx context.Context, room string, in api.PlaybackEnded) (out api.Playback, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "playback", "ended"), in: in, out: &out})
	return out, err
}

// RoomPlaylist returns a room's playlist.
func (c *Client) RoomPlaylist(ctx context.Context, room string) (out api.RoomPlaylist, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "playlist"), out: &out})
	return out, err
}

// AddToRoom adds an item to the end of a room's playlist.
func (c *Client) AddToRoom(ctx context.Context, room string, in api.RoomItemNew) (out api.RoomItem, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "playlist"), in: in, out: &out})
	return out, err
}

// MoveInRoom moves an item of a room's playlist to the place after another item, or to the front.
func (c *Client) MoveInRoom(ctx context.Context, room, item, after string) error {
	return c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "playlist", item, "move"), in: api.RoomItemMove{After: after}})
}

// RemoveFromRoom removes an item from a room's playlist.
func (c *Client) RemoveFromRoom(ctx context.Context, room, item string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room, "playlist", item)})
}

// RoomItemSource returns how to get the media of an item.
func (c *Client) RoomItemSource(ctx context.Context, room, item string) (out api.RoomItemSource, err error) {
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "playlist", item, "source"), out: &out})
	return out, err
}

// SayInRoom sends a message to a room's chat.
func (c *Client) SayInRoom(ctx context.Context, room, text string) (out api.RoomLine, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "chat"), in: api.RoomSay{Text: text}, out: &out})
	return out, err
}

// RoomChat returns the latest messages of a room's chat before a number; 0 means the newest.
func (c *Client) RoomChat(ctx context.Context, room string, before int64, limit int) (out api.RoomLines, err error) {
	query := pageOf("", limit)
	if before > 0 {
		query.Set("before", strconv.FormatInt(before, 10))
	}
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "chat"), query: query, out: &out})
	return out, err
}

// Shoot sends a danmaku in a room.
func (c *Client) Shoot(ctx context.Context, room string, in api.DanmakuNew) (out api.Danmaku, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: inRoom(room, "danmaku"), in: in, out: &out})
	return out, err
}

// Danmaku returns a page of the danmaku in a part of an item. from and to are positions in ms.
func (c *Client) Danmaku(ctx context.Context, room, item string, from, to int64, cursor string,
	limit int) (out api.DanmakuList, err error) {
	query := pageOf(cursor, limit)
	query.Set("item", item)
	query.Set("from", strconv.FormatInt(from, 10))
	query.Set("to", strconv.FormatInt(to, 10))
	err = c.do(ctx, call{method: http.MethodGet, path: inRoom(room, "danmaku"), query: query, out: &out})
	return out, err
}

// ClearDanmaku deletes all danmaku of a room.
func (c *Client) ClearDanmaku(ctx context.Context, room string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: inRoom(room, "danmaku")})
}
