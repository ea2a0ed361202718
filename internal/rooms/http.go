package rooms

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Limits for each user or guest, or for the address of other callers.
var (
	createLimit  = ratelimit.Limit{Max: 30, Window: time.Hour}
	joinLimit    = ratelimit.Limit{Max: 10, Window: time.Minute} // slows down guessing of links; for passwords see maxWrong
	inviteLimit  = ratelimit.Limit{Max: 60, Window: time.Minute}
	sayLimit     = ratelimit.Limit{Max: 60, Window: time.Minute}
	shootLimit   = ratelimit.Limit{Max: 20, Window: 10 * time.Second}
	commandLimit = ratelimit.Limit{Max: 120, Window: time.Minute}
	clockLimit   = ratelimit.Limit{Max: 600, Window: time.Minute}
	listLimit    = ratelimit.Limit{Max: 120, Window: time.Minute} // each call scans up to 1,000 rooms; the page calls it while the user types
)

// Routes adds the operations of this package to a.
func (s *Service) Routes(a *web.API) {
	s.roomRoutes(a)
	s.memberRoutes(a)
	s.playRoutes(a)
}

var tags = []string{"rooms"}

func (s *Service) roomRoutes(a *web.API) {
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms", ID: "rooms.create", Tags: tags, Limit: createLimit,
		Status:  http.StatusCreated,
		Summary: "Create a room", Errors: []*errs.Error{ErrText, ErrRooms, ErrRoom, ErrBusy, accounts.ErrNoUser, ErrStore}}, s.postRoom)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms", ID: "rooms.list", Tags: tags, Heavy: true, Limit: listLimit,
		Summary: "List public rooms",
		Description: "Lists the 1,000 most recently active rooms that match, sorted by `sort`. While viewers join and leave, a room may be on " +
			"two pages, or on none.",
		Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getRooms)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/mine", ID: "rooms.mine", Tags: tags,
		Summary:     "List the caller's rooms",
		Description: "The room that the caller joined last comes first.", Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getMine)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/clock", ID: "rooms.clock", Tags: tags, Limit: clockLimit,
		Summary:     "Get the servers' clock",
		Description: "Call it several times, over the socket if there is one. Use the median offset of the calls with the shortest round trips."},
		s.getClock)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}", ID: "rooms.get", Tags: tags,
		Summary: "Get a room", Description: "Includes the caller's membership. Other users get the room only if it is open.",
		Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getRoom)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/scene", ID: "rooms.scene", Tags: tags,
		Summary: "Get the scene of a room",
		Description: "Returns all data that a client needs to show a room. Subscribe to the channel room/{room}, read the scene, and then " +
			"apply the events. Read the scene again after each interruption of the subscription.",
		Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getScene)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/rooms/{room}", ID: "rooms.update", Tags: tags,
		Summary: "Update a room's settings", Errors: []*errs.Error{ErrRoom, ErrMay, ErrText, ErrPermission, ErrBusy, ErrStore}}, s.patchRoom)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}", ID: "rooms.close", Tags: tags, Status: http.StatusNoContent,
		Summary: "Close a room", Errors: []*errs.Error{ErrRoom, ErrMay, ErrStore}}, s.deleteRoom)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/rooms/{room}/owner", ID: "rooms.transfer", Tags: tags,
		Summary:     "Transfer the ownership of a room",
		Description: "The caller becomes an admin.", Errors: []*errs.Error{ErrRoom, ErrMember, ErrMay, ErrSelf, ErrGuest, ErrStore}}, s.putOwner)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/links", ID: "rooms.new_link", Tags: tags, Limit: inviteLimit,
		Status:  http.StatusCreated,
		Summary: "Create an invite link", Errors: []*errs.Error{ErrRoom, ErrMay, ErrLinks, ErrStore}}, s.postLink)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/links", ID: "rooms.links", Tags: tags,
		Summary:     "List invite links",
		Description: "Moderators get all links of the room, other members their own.", Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getLinks)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}/links/{link}", ID: "rooms.revoke_link", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Revoke an invite link", Errors: []*errs.Error{ErrRoom, ErrLink, ErrMay, ErrStore}}, s.deleteLink)
	web.HandlePublic(a, web.Op{Method: http.MethodGet, Path: "/v1/room-links/{link}", ID: "rooms.look", Tags: tags, Limit: joinLimit,
		Summary: "Get the room of a link", Errors: []*errs.Error{ErrLink, ErrStore}}, s.getLink)
}

func (s *Service) memberRoutes(a *web.API) {
	joinErrors := []*errs.Error{ErrRoom, ErrPassword, ErrTries, ErrLink, ErrBanned, ErrFull, ErrBusy, ErrStore}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/join", ID: "rooms.join", Tags: tags, Limit: joinLimit,
		Summary:     "Join a room",
		Description: "A user who is already in the room keeps the role.", Errors: append(slices.Clone(joinErrors), accounts.ErrNoUser)},
		s.postJoin)
	web.HandlePublic(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/guests", ID: "rooms.visit", Tags: tags, Limit: joinLimit,
		Status:  http.StatusCreated,
		Summary: "Join a room as a guest",
		Description: "The token is valid only for this room, and for the socket. Guests may send only chat lines and danmaku, if the room's " +
			"settings allow it.",
		Errors: append(slices.Clone(joinErrors), ErrText, ErrGuests, ErrName, ErrGuestRate)}, s.postGuest)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}/me", ID: "rooms.leave", Tags: tags, Status: http.StatusNoContent,
		Summary: "Leave a room", Description: "The owner must transfer or close the room first.",
		Errors: []*errs.Error{ErrRoom, ErrOwner, ErrStore}}, s.deleteMe)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/members", ID: "rooms.members", Tags: tags,
		Summary:     "List members of a room",
		Description: "Higher roles come first, then earlier members.", Errors: []*errs.Error{ErrRoom, ErrCursor, ErrStore}}, s.getMembers)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/online", ID: "rooms.online", Tags: tags,
		Summary:     "List viewers of a room",
		Description: "Returns at most 200 viewers, the most recently active first.", Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getOnline)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/rooms/{room}/members/{user}", ID: "rooms.set_member", Tags: tags,
		Summary:     "Update a member of a room",
		Description: "Appoints or dismisses an admin, changes permissions, or mutes or unmutes a member.",
		Errors:      []*errs.Error{ErrRoom, ErrMember, ErrMay, ErrRank, ErrGuest, ErrAdmin, ErrPermission, ErrUntil, ErrStore}}, s.patchMember)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}/members/{user}", ID: "rooms.kick", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Remove a member from a room", Errors: []*errs.Error{ErrRoom, ErrMember, ErrMay, ErrRank, ErrStore}}, s.deleteMember)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/bans", ID: "rooms.bans", Tags: tags,
		Summary:     "List bans of a room",
		Description: "Newest first.", Errors: []*errs.Error{ErrRoom, ErrMay, ErrCursor, ErrStore}}, s.getBans)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/rooms/{room}/bans/{user}", ID: "rooms.ban", Tags: tags,
		Status:      http.StatusNoContent,
		Summary:     "Ban a user from a room",
		Description: "A member is removed.", Errors: []*errs.Error{ErrRoom, ErrMay, ErrRank, ErrSelf, accounts.ErrNoUser, ErrStore}},
		s.putBan)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}/bans/{user}", ID: "rooms.unban", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Lift a ban", Errors: []*errs.Error{ErrRoom, ErrMay, ErrNoBan, ErrStore}}, s.deleteBan)
}

func (s *Service) playRoutes(a *web.API) {
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/playback", ID: "rooms.playback", Tags: tags,
		Summary: "Get the playback state", Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getPlayback)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/playback", ID: "rooms.command", Tags: tags, Limit: commandLimit,
		Summary: "Control the playback",
		Description: "Plays, pauses, seeks, changes the rate, or loads another item. If generation and version are not current, it returns " +
			"room.playback_changed: get the playback state and try again.",
		Errors: []*errs.Error{ErrRoom, ErrMay, ErrVersion, ErrCommand, ErrItem, ErrStateAway, ErrStore}}, s.postCommand)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/playback/buffering", ID: "rooms.buffering", Tags: tags,
		Limit: commandLimit, Status: http.StatusNoContent,
		Summary:     "Report buffering",
		Description: "Reports that the caller's player waits for data, or no longer waits.",
		Errors:      []*errs.Error{ErrRoom, ErrStateAway, ErrStore}}, s.postBuffering)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/playback/ended", ID: "rooms.ended", Tags: tags, Limit: commandLimit,
		Summary:     "Report the end of an item",
		Description: "The room then plays the next item.", Errors: []*errs.Error{ErrRoom, ErrStateAway, ErrStore}}, s.postEnded)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/playlist", ID: "rooms.playlist", Tags: tags,
		Summary: "Get a room's playlist", Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getPlaylist)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/playlist", ID: "rooms.add", Tags: tags, Status: http.StatusCreated,
		Summary: "Add an item to the playlist", Errors: []*errs.Error{ErrRoom, ErrMay, ErrText, ErrSource, ErrItems, ErrStore}}, s.postItem)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/playlist/{item}/move", ID: "rooms.move", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Move an item", Errors: []*errs.Error{ErrRoom, ErrMay, ErrItem, ErrStore}}, s.postMove)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}/playlist/{item}", ID: "rooms.remove", Tags: tags,
		Status:      http.StatusNoContent,
		Summary:     "Remove an item from the playlist",
		Description: "An item that is playing keeps playing; a removed live stream gives no new tickets.",
		Errors:      []*errs.Error{ErrRoom, ErrMay, ErrItem, ErrStore}}, s.deleteItem)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/playlist/{item}/source", ID: "rooms.source", Tags: tags,
		Summary:     "Get the source of an item",
		Description: "Returns the URL of an item and its expiry.", Errors: []*errs.Error{ErrRoom, ErrItem, ErrStore}}, s.getSource)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/chat", ID: "rooms.say", Tags: tags, Limit: sayLimit,
		Status:  http.StatusCreated,
		Summary: "Send a chat line", Errors: []*errs.Error{ErrRoom, ErrMay, ErrMuted, ErrText, ErrWord, ErrStore}}, s.postLine)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/chat", ID: "rooms.chat", Tags: tags,
		Summary: "List chat lines of a room", Description: "Returns the newest lines, or the lines before a number. Lines of users whom the " +
			"caller blocks are omitted.", Errors: []*errs.Error{ErrRoom, ErrStore}}, s.getLines)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/rooms/{room}/danmaku", ID: "rooms.shoot", Tags: tags, Limit: shootLimit,
		Status:  http.StatusCreated,
		Summary: "Send a danmaku", Errors: []*errs.Error{ErrRoom, ErrMay, ErrMuted, ErrText, ErrWord, ErrItem, ErrStore}}, s.postDanmaku)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/rooms/{room}/danmaku", ID: "rooms.danmaku", Tags: tags,
		Summary:     "List danmaku of an item",
		Description: "Sorted by position.", Errors: []*errs.Error{ErrRoom, ErrCursor, ErrStore}}, s.getDanmaku)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/rooms/{room}/danmaku", ID: "rooms.clear_danmaku", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Delete all danmaku of a room", Errors: []*errs.Error{ErrRoom, ErrMay, ErrStore}}, s.deleteDanmaku)
}

// RoomPath identifies a room.
type RoomPath struct {
	Room ID `path:"room" maxLength:"64" unknown:"room.unknown" doc:"the room's id"`
}

// at returns the room of a path and the caller, who may be a guest of that room.
func (p RoomPath) at(caller web.Caller) (ID, ParticipantID, error) {
	switch c := caller.(type) {
	case accounts.Caller:
		return p.Room, ParticipantID(c.User), nil
	case GuestCaller:
		if c.Room == p.Room {
			return p.Room, c.User, nil
		}
	}
	return p.Room, ParticipantID{}, ErrRoom
}

// MemberPath identifies a member of a room.
type MemberPath struct {
	RoomPath
	User ParticipantID `path:"user" maxLength:"64" unknown:"room.member_unknown,account.unknown,room.ban_unknown" doc:"the id of a user or a guest"`
}

// ItemPath identifies an item of a playlist.
type ItemPath struct {
	RoomPath
	Item ItemID `path:"item" maxLength:"64" unknown:"room.item_unknown" doc:"the item's id"`
}

// parseMay returns the permissions with these names. It returns ErrPermission for an unknown name.
func parseMay(field string, names *[]string) (*Permission, error) {
	if names == nil {
		return nil, nil
	}
	p, ok := parsePermissions(*names)
	if !ok {
		return nil, ErrPermission.On(field, "is not one of chat, danmaku, control, playlist, invite, moderate, settings")
	}
	return &p, nil
}

func (s *Service) postRoom(ctx context.Context, caller accounts.Caller, in *web.Body[api.RoomNew]) (*web.Body[api.RoomPlace], error) {
	b := in.Body
	r, me, err := s.Create(ctx, caller.User, web.NewID[Room](ctx),
		Update{Name: &b.Name, Access: web.Value[Access](b.Access, accesses[:]), Password: b.Password, Listed: b.Listed, Guests: b.Guests})
	if err != nil {
		return nil, err
	}
	return web.NewBody(r.place(&me, 0)), nil
}

func (s *Service) getRooms(ctx context.Context, _ accounts.Caller, in *struct {
	Q    string `query:"q" maxLength:"60" doc:"a part of the name"`
	Sort string `query:"sort" enum:"viewers,new" default:"viewers" doc:"most viewers first, or newest first"`
	web.PageQuery
}) (*web.Body[api.Rooms], error) {
	list, next, err := s.List(ctx, in.Q, Sort(in.Sort), in.Cursor, in.Limit)
	return web.NewBody(api.Rooms{Rooms: web.List(list, func(l Listed) api.Room { return l.wire(l.Viewers) }), Next: next}), err
}

func (s *Service) getMine(ctx context.Context, caller accounts.Caller, in *struct {
	Cursor string `query:"cursor" maxLength:"120" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"500" doc:"maximum number of results"`
}) (*web.Body[api.MyRooms], error) {
	list, mine, next, err := s.Rooms(ctx, ParticipantID(caller.User), in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	viewers := s.viewers(ctx, web.List(list, func(r Room) ID { return r.ID }))
	out := api.MyRooms{Rooms: make([]api.RoomPlace, len(list)), Next: next}
	for i, r := range list {
		out.Rooms[i] = r.place(&mine[i], viewers[r.ID])
	}
	return web.NewBody(out), nil
}

func (s *Service) getClock(_ context.Context, _ web.Caller, _ *web.Empty) (*web.Body[api.RoomClock], error) {
	return web.NewBody(api.RoomClock{Time: s.Clock()}), nil
}

func (s *Service) getRoom(ctx context.Context, caller web.Caller, in *RoomPath) (*web.Body[api.RoomPlace], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	r, m, err := s.Room(ctx, me, id)
	if err != nil {
		return nil, err
	}
	return web.NewBody(r.place(m, s.viewersOf(ctx, id))), nil
}

func (s *Service) getScene(ctx context.Context, caller web.Caller, in *RoomPath) (*web.Body[api.RoomScene], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	scene, err := s.Scene(ctx, me, id)
	if err != nil {
		return nil, err
	}
	place := scene.Room.place(&scene.Me, s.viewersOf(ctx, id))
	return web.NewBody(api.RoomScene{Room: place.Room, Me: *place.Me, Playback: playbackWire(id, scene.Playback),
		Playlist: api.RoomPlaylist{Items: web.List(scene.Playlist, Item.wire)}, Danmaku: scene.Danmaku, Clock: s.Clock()}), nil
}

func (s *Service) patchRoom(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body api.RoomUpdate
}) (*web.Body[api.RoomPlace], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	b := in.Body
	u := Update{Name: b.Name, Password: b.Password, Access: web.Value[Access](b.Access, accesses[:]), Listed: b.Listed, Guests: b.Guests,
		Hold:  b.Hold,
		Drift: b.Drift, Jump: b.Jump, Loop: web.Value[Loop](b.Loop, loops[:]), Words: b.Words}
	if u.MemberMay, err = parseMay("body.member_may", b.MemberMay); err != nil {
		return nil, err
	}
	if u.GuestMay, err = parseMay("body.guest_may", b.GuestMay); err != nil {
		return nil, err
	}
	r, m, err := s.Update(ctx, me, id, u)
	if err != nil {
		return nil, err
	}
	return web.NewBody(r.place(&m, s.viewersOf(ctx, id))), nil
}

func (s *Service) deleteRoom(ctx context.Context, caller accounts.Caller, in *RoomPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Close(ctx, me, id)
}

func (s *Service) putOwner(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body api.RoomOwner
}) (*web.Body[api.RoomPlace], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	to, err := ids.Parse[Participant](in.Body.User)
	if err != nil {
		return nil, ErrMember
	}
	r, m, err := s.Transfer(ctx, me, id, to)
	if err != nil {
		return nil, err
	}
	return web.NewBody(r.place(&m, s.viewersOf(ctx, id))), nil
}

// parseKey returns the key of a user who wants to join. It returns ErrLink if the link is not a valid id.
func parseKey(password, link string) (Admission, error) {
	key := Admission{Password: password}
	if link == "" {
		return key, nil
	}
	id, err := ids.Parse[Link](link)
	if err != nil {
		return key, ErrLink
	}
	key.Link = &id
	return key, nil
}

func (s *Service) postJoin(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body *api.RoomJoin
}) (*web.Body[api.RoomPlace], error) {
	var key Admission
	if in.Body != nil {
		var err error
		if key, err = parseKey(in.Body.Password, in.Body.Link); err != nil {
			return nil, err
		}
	}
	r, m, err := s.Join(ctx, caller.User, in.Room, key)
	if err != nil {
		return nil, err
	}
	return web.NewBody(r.place(&m, s.viewersOf(ctx, in.Room))), nil
}

func (s *Service) postGuest(ctx context.Context, in *struct {
	RoomPath
	Body api.RoomGuestNew
}) (*web.Body[api.RoomGuest], error) {
	key, err := parseKey(in.Body.Password, in.Body.Link)
	if err != nil {
		return nil, err
	}
	r, m, token, err := s.JoinAsGuest(ctx, clientnet.From(ctx), in.Room, in.Body.Name, key)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.RoomGuest{Token: token, Expires: api.At(sqldb.Time(m.Expires)),
		RoomPlace: r.place(&m, s.viewersOf(ctx, in.Room))}), nil
}

func (s *Service) deleteMe(ctx context.Context, caller web.Caller, in *RoomPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Leave(ctx, me, id)
}

func (s *Service) getMembers(ctx context.Context, caller web.Caller, in *struct {
	RoomPath
	web.PageQuery
}) (*web.Body[api.RoomMembers], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, next, r, err := s.Members(ctx, me, id, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	profiles, err := s.cfg.People.Profiles(ctx, web.List(list, func(m Member) accounts.ID { return accounts.ID(m.User) }))
	return web.NewBody(api.RoomMembers{Members: web.List(list, func(m Member) api.RoomMember { return m.wire(r, profiles) }), Next: next}), err
}

func (s *Service) getOnline(ctx context.Context, caller web.Caller, in *RoomPath) (*web.Body[api.RoomOnline], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, err := s.Online(ctx, me, id)
	return web.NewBody(api.RoomOnline{Viewers: web.List(list, func(p Presence) api.RoomViewer {
		return api.RoomViewer{ID: p.User.String(), Active: api.At(p.Active)}
	})}), err
}

func (s *Service) patchMember(ctx context.Context, caller accounts.Caller, in *struct {
	MemberPath
	Body api.RoomMemberUpdate
}) (*web.Body[api.RoomMember], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	u := MemberUpdate{Role: web.Value[Role](in.Body.Role, roles[:]), MutedUntil: in.Body.MutedUntil.Std()}
	if u.May, err = parseMay("body.may", in.Body.May); err != nil {
		return nil, err
	}
	r, m, err := s.SetMember(ctx, me, id, in.User, u)
	if err != nil {
		return nil, err
	}
	return web.NewBody(m.wire(r, s.cfg.People.ProfilesOrNone(ctx, accounts.ID(in.User)))), nil
}

func (s *Service) deleteMember(ctx context.Context, caller accounts.Caller, in *MemberPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Kick(ctx, me, id, in.User)
}

func (s *Service) getBans(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	web.PageQuery
}) (*web.Body[api.RoomBans], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Bans(ctx, me, id, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	profiles, err := s.cfg.People.Profiles(ctx, web.List(list, func(b Ban) accounts.ID { return accounts.ID(b.User) }))
	wire := func(b Ban) api.RoomBan {
		return api.RoomBan{User: profiles.Wire(accounts.ID(b.User)), By: b.By.String(), At: api.At(sqldb.Time(b.At))}
	}
	return web.NewBody(api.RoomBans{Bans: web.List(list, wire), Next: next}), err
}

func (s *Service) putBan(ctx context.Context, caller accounts.Caller, in *MemberPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Ban(ctx, me, id, in.User)
}

func (s *Service) deleteBan(ctx context.Context, caller accounts.Caller, in *MemberPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Unban(ctx, me, id, in.User)
}

func linkWire(l Link) api.RoomLink {
	return api.RoomLink{ID: l.ID.String(), Room: l.Parent.String(), By: l.By.String(), Created: api.At(sqldb.Time(l.Created)),
		Expires: api.At(sqldb.Time(l.Expires)), Uses: l.Uses, Most: l.MaxUses}
}

func (s *Service) postLink(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body *api.RoomLinkNew
}) (*web.Body[api.RoomLink], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	var b api.RoomLinkNew
	if in.Body != nil {
		b = *in.Body
	}
	l, err := s.NewLink(ctx, me, id, web.NewID[Link](ctx), time.Duration(cmp.Or(b.Hours, 168))*time.Hour, b.Uses)
	return web.NewBody(linkWire(l)), err
}

func (s *Service) getLinks(ctx context.Context, caller accounts.Caller, in *RoomPath) (*web.Body[api.RoomLinks], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, err := s.Links(ctx, me, id)
	return web.NewBody(api.RoomLinks{Links: web.List(list, linkWire)}), err
}

// LinkPath identifies a link.
type LinkPath struct {
	Link LinkID `path:"link" maxLength:"64" unknown:"room.link_unknown" doc:"the link's id"`
}

func (s *Service) deleteLink(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	LinkPath
}) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Revoke(ctx, me, id, in.Link)
}

func (s *Service) getLink(ctx context.Context, in *LinkPath) (*web.Body[api.RoomPlace], error) {
	r, err := s.RoomOfLink(ctx, in.Link)
	if err != nil {
		return nil, err
	}
	return web.NewBody(r.place(nil, s.viewers(ctx, []ID{r.ID})[r.ID])), nil
}

func (s *Service) getPlayback(ctx context.Context, caller web.Caller, in *RoomPath) (*web.Body[api.Playback], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	state, err := s.Playback(ctx, me, id)
	return web.NewBody(playbackWire(id, state)), err
}
