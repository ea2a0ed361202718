package rooms

import (
	"context"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/rooms/playback"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

func (s *Service) postCommand(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body api.PlaybackCommand
}) (*web.Body[api.Playback], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	b := in.Body
	state, err := s.Command(ctx, me, id, playback.Command{Generation: b.Generation, Version: b.Version, Verb: playback.Verb(b.Do),
		Position: b.Position, Rate: playback.Thousandths(b.Rate), Item: b.Item})
	if err == nil {
		s.watched.recordActivity(id, me, s.db.Now())
	}
	return web.NewBody(playbackWire(id, state)), err
}

func (s *Service) postBuffering(ctx context.Context, caller web.Caller, in *struct {
	RoomPath
	Body api.PlaybackBuffering
}) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Buffering(ctx, me, id, in.Body.Buffering)
}

func (s *Service) postEnded(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body api.PlaybackEnded
}) (*web.Body[api.Playback], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	state, err := s.Ended(ctx, me, id, in.Body.Generation, in.Body.Version)
	return web.NewBody(playbackWire(id, state)), err
}

func (s *Service) getPlaylist(ctx context.Context, caller web.Caller, in *RoomPath) (*web.Body[api.RoomPlaylist], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, err := s.Playlist(ctx, me, id)
	return web.NewBody(api.RoomPlaylist{Items: web.List(list, Item.wire)}), err
}

func (s *Service) postItem(ctx context.Context, caller accounts.Caller, in *struct {
	RoomPath
	Body api.RoomItemNew
}) (*web.Body[api.RoomItem], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	b := in.Body
	it, err := s.Add(ctx, me, id, Item{ID: web.NewID[Item](ctx), Kind: *web.Value[Kind](&b.Kind, kinds[:]), Source: b.Source, Title: b.Title,
		Duration: b.Duration})
	return web.NewBody(it.wire()), err
}

func (s *Service) postMove(ctx context.Context, caller accounts.Caller, in *struct {
	ItemPath
	Body api.RoomItemMove
}) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	var after ItemID
	if in.Body.After != "" {
		if after, err = ids.Parse[Item](in.Body.After); err != nil {
			return nil, ErrItem
		}
	}
	return &web.Empty{}, s.Move(ctx, me, id, in.Item, after)
}

func (s *Service) deleteItem(ctx context.Context, caller accounts.Caller, in *ItemPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.Remove(ctx, me, id, in.Item)
}

func (s *Service) getSource(ctx context.Context, caller web.Caller, in *ItemPath) (*web.Body[api.RoomItemSource], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	user, _ := caller.(accounts.Caller) // a guest has no session
	src, err := s.Source(ctx, me, user.Device, id, in.Item)
	return web.NewBody(api.RoomItemSource{Kind: src.Kind.String(), URL: src.URL, Token: src.Token,
		Expires: api.AtOrNil(sqldb.TimeOrZero(src.Expires))}), err
}

func (s *Service) postLine(ctx context.Context, caller web.Caller, in *struct {
	RoomPath
	Body api.RoomSay
}) (*web.Body[api.RoomLine], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	l, err := s.SendLine(ctx, me, id, web.NewID[Line](ctx), in.Body.Text)
	return web.NewBody(l.wire(id)), err
}

func (s *Service) getLines(ctx context.Context, caller web.Caller, in *struct {
	RoomPath
	Before int64 `query:"before" minimum:"0" doc:"return lines with lower numbers; 0: the newest lines"`
	Limit  int   `query:"limit" minimum:"1" maximum:"200" default:"100" doc:"maximum number of results"`
}) (*web.Body[api.RoomLines], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, more, err := s.Lines(ctx, me, id, in.Before, in.Limit)
	return web.NewBody(api.RoomLines{Lines: web.List(list, func(l Line) api.RoomLine { return l.wire(id) }), More: more}), err
}

func (s *Service) postDanmaku(ctx context.Context, caller web.Caller, in *struct {
	RoomPath
	Body api.DanmakuNew
}) (*web.Body[api.Danmaku], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	b := in.Body
	c := Comment{ID: web.NewID[Comment](ctx), Item: b.Item, Position: b.Position, Text: b.Text, Color: b.Color}
	if b.Mode != "" {
		c.Mode = *web.Value[int](&b.Mode, modes[:])
	}
	if b.Size != "" {
		c.Size = *web.Value[int](&b.Size, sizes[:])
	}
	c, err = s.SendDanmaku(ctx, me, id, c)
	return web.NewBody(c.wire(id)), err
}

func (s *Service) getDanmaku(ctx context.Context, caller web.Caller, in *struct {
	RoomPath
	Item string `query:"item" maxLength:"12" doc:"the item's id; empty: danmaku that were sent while no item was loaded"`
	From int64  `query:"from" minimum:"0" doc:"first position, ms"`
	To   int64  `query:"to" minimum:"0" default:"2592000000" doc:"end of the positions, ms; not included"`
	web.PageQuery
}) (*web.Body[api.DanmakuList], error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	list, next, err := s.Comments(ctx, me, id, in.Item, in.From, in.To, in.Cursor, in.Limit)
	return web.NewBody(api.DanmakuList{Danmaku: web.List(list, func(c Comment) api.Danmaku { return c.wire(id) }), Next: next}), err
}

func (s *Service) deleteDanmaku(ctx context.Context, caller accounts.Caller, in *RoomPath) (*web.Empty, error) {
	id, me, err := in.at(caller)
	if err != nil {
		return nil, err
	}
	return &web.Empty{}, s.ClearDanmaku(ctx, me, id)
}
